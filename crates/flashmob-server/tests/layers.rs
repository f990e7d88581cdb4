//! The modules of what serves form layers, each of which uses only those below it; and no crate that measures or models is below them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// From the lowest to the highest.
const LAYERS: [&str; 13] = [
    "android",
    "net",
    "store",
    "keys",
    "etcd",
    "device",
    "status",
    "config",
    "node",
    "gateway",
    "discovery",
    "admin",
    "volume",
];
/// All crates of this workspace that a device needs beside this one.
const CRATES_BELOW: [&str; 5] =
    ["flashmob-core", "flashmob-host", "flashmob-path", "flashmob-results", "flashmob-text"];

/// The files of a module, without its tests.
fn files_of(module: &str) -> Vec<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found: Vec<PathBuf> =
        Some(source.join(format!("{module}.rs"))).into_iter().filter(|file| file.is_file()).collect();
    let mut folders = vec![source.join(module)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            match path.is_dir() {
                _ if name == "tests" => {}
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

/// The code of a file, without comments and without the tests at its end.
fn code_of(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_serves_uses_only_what_is_below_it() {
    let mut upward = Vec::new();
    for (at, module) in LAYERS.iter().enumerate() {
        let files = files_of(module);
        assert!(!files.is_empty(), "there is no module {module}");
        for file in files {
            let code = code_of(&file);
            let used = LAYERS[at + 1..].iter().map(|name| format!("crate::{name}::"));
            upward
                .extend(used.filter(|path| code.contains(path)).map(|path| format!("{} uses {path}", file.display())));
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn what_serves_needs_no_instrument() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut below, mut unread) = (BTreeSet::new(), vec!["flashmob-server".to_string()]);
    while let Some(name) = unread.pop() {
        let text = std::fs::read_to_string(crates.join(&name).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&text).unwrap();
        let used = manifest["dependencies"].as_table().unwrap().keys();
        unread.extend(used.filter(|name| name.starts_with("flashmob") && below.insert((*name).clone())).cloned());
    }
    assert_eq!(below, CRATES_BELOW.map(String::from).into());
}

//! The modules that a device needs to serve form layers: each uses only those below it, and none uses a crate that measures or models.

use std::path::{Path, PathBuf};

/// From the lowest to the highest. The modules that are not here, `commands` and `lab`, may use all of them.
const LAYERS: [&str; 11] =
    ["android", "net", "store", "device", "status", "config", "node", "gateway", "discovery", "admin", "volume"];
/// Crates of this workspace that a device does without.
const INSTRUMENTS: [&str; 7] = [
    "flashmob_bench",
    "flashmob_doctor",
    "flashmob_flows",
    "flashmob_lab",
    "flashmob_report",
    "flashmob_sqlite",
    "flashmob_trace",
];

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
            let above = LAYERS[at + 1..].iter().chain(&["commands", "lab", "process"]);
            let used = above.map(|name| format!("crate::{name}::")).chain(INSTRUMENTS.map(|name| format!("{name}::")));
            upward
                .extend(used.filter(|path| code.contains(path)).map(|path| format!("{} uses {path}", file.display())));
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

//! Files that cannot be read as a configuration, and the local extents that are looked for.

use std::fs;
use std::path::{Path, PathBuf};

use flashmob_server::config::{Config, NodeSource};

fn load(path: &Path) -> Result<Config, String> {
    Config::load(path).map_err(|error| error.to_string())
}

fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("gateway.toml");
    fs::write(&path, bytes).expect("a file");
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

const VALID: &str = "[[volume]]\nname = 'pool'\n[[volume.node]]\naddress = 'tablet'\n";

#[test]
fn a_missing_file_is_named() {
    assert_eq!(
        load(Path::new("/nowhere/gateway.toml")).unwrap_err(),
        "\
error: file /nowhere/gateway.toml does not exist
 = help: check the path; examples/two-tablets.toml is a sample configuration"
    );
}

#[test]
fn a_folder_is_no_configuration() {
    let dir = folder();
    let shown = dir.path().display().to_string();
    assert_eq!(
        load(dir.path()).unwrap_err(),
        format!(
            "\
error: cannot read {shown}: Is a directory (os error 21)
 = help: give the file in that folder, not the folder"
        )
    );
}

#[test]
fn a_file_of_the_largest_size_is_read_and_a_larger_one_is_not() {
    let dir = folder();
    let padded = |len: usize| {
        let comment = "#".repeat(len - VALID.len() - 1);
        format!("{VALID}{comment}\n")
    };
    assert!(load(&file(&dir, padded(1 << 20).as_bytes())).is_ok());
    let path = file(&dir, padded((1 << 20) + 1).as_bytes());
    assert_eq!(
        load(&path).unwrap_err(),
        format!(
            "\
error: {} is larger than 1 MiB, which is too large for a configuration
 = help: check the path; 4096 nodes, the maximum, need about a quarter of that",
            path.display()
        )
    );
    assert!(load(Path::new("/dev/zero")).unwrap_err().contains("larger than 1 MiB"), "endless files end too");
}

#[test]
fn what_is_not_utf8_is_named_with_its_line() {
    let dir = folder();
    let path = file(&dir, b"# a\nname = 'Andr\xe9'\n");
    assert_eq!(
        load(&path).unwrap_err(),
        format!(
            "\
error: {}:2 is not UTF-8 text
 = help: save the file as UTF-8, or check that the path is that of a configuration",
            path.display()
        )
    );
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let dir = folder();
    fs::write(dir.path().join("b.bin"), b"x").expect("an extent");
    let text =
        "[[volume]]\nname = 'pool'\n[[volume.node]]\npath = 'b.bin'\n[[volume.node]]\npath = 'c.bin'\nsize = 1\n";
    let config = load(&file(&dir, text.as_bytes())).expect("a configuration");
    let paths: Vec<_> = config.volumes[0]
        .nodes
        .iter()
        .map(|node| match &node.source {
            NodeSource::Local { path, .. } => path.clone(),
            NodeSource::Remote { address } => panic!("{address}"),
        })
        .collect();
    assert_eq!(paths, [dir.path().join("b.bin"), dir.path().join("c.bin")]);
}

#[test]
fn an_extent_that_does_not_exist_needs_a_size() {
    let dir = folder();
    let path = file(&dir, b"[[volume]]\nname = 'pool'\n[[volume.node]]\npath = 'c.bin'\n");
    let message = load(&path).unwrap_err();
    let (first, rest) = message.split_once('\n').expect("several lines");
    assert!(first.starts_with("error: file '/"), "{message}");
    assert!(first.contains(" does not exist, and no size is given to create it"), "{message}");
    assert_eq!(
        rest,
        format!(
            " --> {}:4:8
  |
4 | path = 'c.bin'
  |        ^^^^^^^
  = help: add a line such as size = \"10GiB\" below the path, or correct the path",
            path.display()
        )
    );
}

#[test]
fn every_example_is_a_configuration() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in fs::read_dir(examples).expect("the examples") {
        let path = entry.expect("an example").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            load(&path).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(count >= 4, "{count} examples");
}

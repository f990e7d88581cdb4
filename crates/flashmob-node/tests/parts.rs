//! The program for devices contains what serves, the model of a flash, and no instrument.

use std::collections::BTreeSet;
use std::path::Path;

/// All crates of this workspace that it contains. The lab's is for `--model`; its simulators are not linked.
const CRATES: [&str; 7] = [
    "flashmob-core",
    "flashmob-host",
    "flashmob-lab",
    "flashmob-path",
    "flashmob-results",
    "flashmob-server",
    "flashmob-text",
];

#[test]
fn it_contains_no_instrument() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut found, mut unread) = (BTreeSet::new(), vec!["flashmob-node".to_string()]);
    while let Some(name) = unread.pop() {
        let text = std::fs::read_to_string(crates.join(&name).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&text).unwrap();
        let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flat_map(|t| t.values());
        let tables = std::iter::once(&manifest["dependencies"]).chain(targets.filter_map(|t| t.get("dependencies")));
        let used = tables.flat_map(|table| table.as_table().unwrap().keys());
        unread.extend(used.filter(|name| name.starts_with("flashmob") && found.insert((*name).clone())).cloned());
    }
    assert_eq!(found, CRATES.map(String::from).into());
}

//! Validity of arguments and configuration.

use std::path::Path;

use clap::Parser;

use super::*;
use flashmob_server::config::Config;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ClusterArgs,
}

fn config(layout: &str) -> Config {
    let nodes: String = (0..3).map(|i| format!("[[volume.node]]\naddress = \"127.0.0.1:{}\"\n", 7000 + i)).collect();
    Config::parse(&format!("[[volume]]\nname = \"pool\"\nlayout = \"{layout}\"\n{nodes}"), "c.toml", Path::new("/"))
        .unwrap()
}

fn message<T>(outcome: anyhow::Result<T>) -> String {
    outcome.err().map(|error| format!("{error:#}")).unwrap_or_default()
}

#[test]
fn without_a_word_all_nodes_are_asked_and_only_read() {
    let args = Line::try_parse_from(["x"]).unwrap().args;
    assert_eq!((args.nodes.len(), args.load.read_percent, args.seed), (0, vec![100.0], 1));
    assert_eq!(volume::nodes(&config("linear"), &[]).unwrap(), [3]);
    assert_eq!(volume::nodes(&config("striped"), &[]).unwrap(), [3]);
}

#[test]
fn a_part_of_the_nodes_can_be_asked_of_a_linear_volume_only() {
    assert_eq!(volume::nodes(&config("linear"), &[1, 3]).unwrap(), [1, 3]);
    assert_eq!(volume::nodes(&config("striped"), &[3]).unwrap(), [3]);
    let striped = message(volume::nodes(&config("striped"), &[2]));
    assert!(
        striped.contains("--nodes 2") && striped.contains("striped") && striped.contains("leave --nodes out"),
        "{striped}"
    );
    let many = message(volume::nodes(&config("linear"), &[2, 4]));
    assert!(many.contains("--nodes 4") && many.contains("'pool' has 3"), "{many}");
}

#[test]
fn wrong_numbers_are_refused_with_the_arguments() {
    for wrong in ["--nodes 0", "--links 0", "--aggregate 0", "-b 0", "--read-percent 101", "--time 0", "--nodes x"] {
        assert!(Line::try_parse_from(["x"].into_iter().chain(wrong.split(' '))).is_err(), "{wrong}");
    }
}

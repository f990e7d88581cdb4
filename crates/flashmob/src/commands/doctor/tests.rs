//! Meaning of arguments, and the text output.

use clap::Parser;
use flashmob_doctor::look::look;
use flashmob_doctor::view::View;

use super::args::{Peer, peer, rate};
use super::text;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: super::DoctorArgs,
}

fn parsed(line: &str) -> Result<super::DoctorArgs, String> {
    let words = std::iter::once("doctor").chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
}

#[test]
fn peers_are_named_in_all_usual_ways() {
    let of = |text: &str| peer(text).map(|Peer { host, port, .. }| (host, port));
    for (text, host, port) in [
        ("tablet", "tablet", None),
        ("tablet:7070", "tablet", Some(7070)),
        ("192.0.2.1:1", "192.0.2.1", Some(1)),
        ("2001:db8::1", "2001:db8::1", None),
        ("[2001:db8::1]", "2001:db8::1", None),
        ("[2001:db8::1]:65535", "2001:db8::1", Some(65_535)),
    ] {
        assert_eq!(of(text), Ok((host.to_string(), port)), "{text}");
    }
    for wrong in ["", ":1", "a:", "a:0", "a:65536", "a:x", "[::1", "[::1]x", "a b"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn rates_have_units() {
    assert_eq!((rate("50M"), rate("1.5g"), rate("9600")), (Ok(50e6), Ok(1.5e9), Ok(9600.0)));
    assert_eq!(rate("1000G"), Ok(1e12));
    for wrong in ["", "M", "-1M", "0", "nan", "inf", "1e3", "1001G", "1MM", "1 M", "5é"] {
        assert!(rate(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    for (line, wanted) in [
        ("--fix --root /tmp", "cannot be used with"),
        ("--fix --undo", "cannot be used with"),
        ("--peer x --root /tmp", "cannot be used with"),
        ("--cluster x:1 --root /tmp", "cannot be used with"),
        ("--yes", "--fix"),
        ("--force", "--undo"),
        ("--only receive-bufer", "did you mean 'receive-buffer'"),
        ("--peer a:b", "the port must be a number"),
    ] {
        let said = parsed(line).unwrap_err();
        assert!(said.contains(wanted), "{line}: {said}");
    }
    assert_eq!(parsed("--only mtu,clock").unwrap().only, ["mtu", "clock"]);
}

#[test]
fn the_answer_is_as_the_published_schema_says_and_the_worst_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/sys/net/ipv4/tcp_window_scaling", "0\n");
    write("proc/meminfo", "MemTotal: 100000 kB\nMemAvailable: 20000 kB\n");
    let diagnosis = look(&View::of_tree(folder.path()), "0", &|_| true).diagnosis;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/diagnosis-1.json");
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let json = serde_json::to_value(&diagnosis).unwrap();
    let problems: Vec<String> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}");

    let text = text::render(&diagnosis, false);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no '{words}' in {text}"));
    assert!(at("SEVERE  memory: ") < at("WRONG   window-scaling: ") && at("WRONG") < at("unknown clock: "));
    assert!(text.contains("effect ") && text.contains("fix    sysctl -w net.ipv4.tcp_window_scaling=1\n"));
    assert!(text.contains("2 problems") && !text.contains("android-battery"));
    assert!(!text.contains("--fix"), "a copied tree is only looked at");
    assert!(text::render(&diagnosis, true).contains("-       android-battery: "));
}

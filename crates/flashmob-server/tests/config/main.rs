//! A gateway's configuration, from the outside: what is accepted, what is refused and in which words.

mod accepted;
mod any_text;
mod copies;
mod etcd;
mod files;
mod limits;
mod problems;
mod round_trip;
mod syntax;
mod values;

use std::path::Path;

use flashmob_server::config::Config;

/// Parses text as `gateway.toml` in `/etc/flashmob`.
fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, "gateway.toml", Path::new("/etc/flashmob")).map_err(|error| error.to_string())
}

/// What is said about text that has to be refused.
fn refusal(text: &str) -> String {
    parse(text).expect_err("this has to be refused")
}

/// A volume with one node; `lines` go into the volume.
fn volume(lines: &str) -> String {
    format!("[[volume]]\nname = \"pool\"\n{lines}\n[[volume.node]]\naddress = \"tablet\"\n")
}

/// Compares the whole of what is said about text that has to be refused.
fn check(text: &str, expected: &str) {
    let message = refusal(text);
    assert!(message == expected, "\n--- said:\n{message}\n--- expected:\n{expected}\n---");
}

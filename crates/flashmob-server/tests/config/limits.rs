//! Every limit at, below and above itself.

use crate::{parse, refusal, volume};

/// Smallest and largest, and what lies just outside; `place` puts a line where it belongs.
fn check(key: &str, below: Option<&str>, least: &str, most: &str, above: &str, place: impl Fn(&str) -> String) {
    for value in [least, most] {
        let text = place(&format!("{key} = {value}"));
        assert!(parse(&text).is_ok(), "{key} = {value}: {}", refusal(&text));
    }
    for value in below.into_iter().chain([above]) {
        let message = refusal(&place(&format!("{key} = {value}")));
        assert!(message.contains(&format!("error: `{key}` must be between {least} and {most}, not ")), "{message}");
        assert!(!message.contains("problems"), "{message}");
    }
}

fn top(line: &str) -> String {
    format!("{line}\n{}", volume(""))
}

fn socket(line: &str) -> String {
    volume(&format!("[volume.socket]\n{line}"))
}

fn local(line: &str) -> String {
    format!("[[volume]]\nname = 'pool'\n[[volume.node]]\npath = 'a'\n{line}\n")
}

#[test]
fn counts_keep_their_limits() {
    check("connections", Some("0"), "1", "1024", "1025", top);
    check("busy_poll_us", None, "0", "1000", "1001", top);
    check("trace_one_in", None, "0", "1000000000", "1000000001", top);
    check("batch", Some("0"), "1", "4096", "4097", volume);
    check("links", Some("0"), "1", "64", "65", volume);
    check("outstanding_batches", Some("0"), "1", "64", "65", volume);
    check("threads", Some("0"), "1", "64", "65", local);
}

#[test]
fn sizes_keep_their_limits() {
    check("memory", Some("41943039"), "\"40MiB\"", "\"1TiB\"", "\"1.001TiB\"", top);
    check("stripe", Some("511"), "\"512B\"", "\"1GiB\"", "1073741825", |line| {
        volume(&format!("layout = 'striped'\n{line}"))
    });
    check("batch_bytes", Some("4095"), "\"4KiB\"", "\"1MiB\"", "1048577", volume);
    check("send_buffer", Some("4095"), "\"4KiB\"", "\"1GiB\"", "1073741825", socket);
    check("receive_buffer", Some("4095"), "\"4KiB\"", "\"1GiB\"", "1073741825", socket);
    check("size", Some("0"), "\"1B\"", "\"1024TiB\"", "1125899906842625", local);
}

#[test]
fn times_keep_their_limits() {
    check("timeout", Some("\"99ms\""), "\"100ms\"", "\"1h\"", "\"3600001ms\"", volume);
    check("connect_timeout", Some("\"99ms\""), "\"100ms\"", "\"1h\"", "\"3600001ms\"", volume);
    check("reconnect_min", Some("\"0ms\""), "\"1ms\"", "\"1h\"", "\"3600001ms\"", |line| {
        volume(&format!("{line}\nreconnect_max = '1h'"))
    });
    check("reconnect_max", Some("\"0s\""), "\"1ms\"", "\"1h\"", "\"3600001ms\"", |line| {
        volume(&format!("{line}\nreconnect_min = '1ms'"))
    });
    check("keep_awake", None, "\"0ms\"", "\"1s\"", "\"1001ms\"", volume);
    check("keepalive", Some("\"999ms\""), "\"1s\"", "\"1h\"", "\"61m\"", socket);
}

#[test]
fn texts_keep_their_limits() {
    let named = |key: &str, len: usize| format!("{key} = \"{}\"", "n".repeat(len));
    for len in [1, 255] {
        assert!(parse(&top(&named("name", len))).is_ok());
        assert!(parse(&volume(&named("id", len))).is_ok());
        assert!(parse(&volume("").replace("name = \"pool\"", &named("name", len))).is_ok());
        assert!(parse(&volume(&named("description", len))).is_ok());
    }
    for text in [top(&named("name", 256)), volume(&named("id", 256))] {
        assert!(refusal(&text).contains(" has 256 bytes, more than 255"), "{}", refusal(&text));
    }
    assert!(parse(&volume(&named("description", 4096))).is_ok());
    assert!(refusal(&volume(&named("description", 4097))).contains("`description` has 4097 bytes, more than 4096"));
    for key in ["id", "description"] {
        assert!(refusal(&volume(&named(key, 0))).contains(&format!("`{key}` is empty")));
    }
    // Bytes, not characters.
    assert!(refusal(&volume(&format!("id = \"{}\"", "é".repeat(128)))).contains("has 256 bytes"));

    let congestion = |len: usize| socket(&named("congestion", len));
    assert!(parse(&congestion(1)).is_ok() && parse(&congestion(15)).is_ok());
    assert!(parse(&congestion(0)).is_err() && parse(&congestion(16)).is_err());
}

#[test]
fn there_may_be_4096_nodes_over_all_volumes() {
    let volume = |name: &str, nodes: usize| {
        let mut text = format!("[[volume]]\nname = '{name}'\n");
        for n in 0..nodes {
            text.push_str(&format!("[[volume.node]]\naddress = '{name}-{n}'\n"));
        }
        text
    };
    assert!(parse(&(volume("a", 96) + &volume("b", 4000))).is_ok());
    let message = refusal(&(volume("a", 96) + &volume("b", 4002)));
    assert_eq!(
        message,
        "\
error: more than 4096 nodes
    --> gateway.toml:8197:1
     |
8197 | [[volume.node]]
     | ^^^^^^^^^^^^^^^
     = help: remove nodes, or run several gateways: one supports up to 4096"
    );
}

#[test]
fn twenty_problems_are_spelt_out_and_the_rest_is_counted() {
    let report = |problems: usize| {
        let keys: String = (0..problems).map(|n| format!("unknown{n:02} = 1\n")).collect();
        refusal(&(keys + &volume("")))
    };
    for (problems, last) in [
        (19, "error: gateway.toml has 19 problems"),
        (20, "error: gateway.toml has 20 problems"),
        (21, "error: gateway.toml has 21 problems, of which the first 20 are shown"),
    ] {
        let message = report(problems);
        assert_eq!(message.lines().last(), Some(last));
        assert_eq!(message.matches("error: unknown key").count(), problems.min(20));
    }
    assert!(!report(1).contains("problems"));
}

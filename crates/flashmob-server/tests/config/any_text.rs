//! No text whatsoever makes the parser panic or takes it long.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::parse;

/// Every kind of section and of value.
const VALID: &str = r#"
listen = ["127.0.0.1:10809", "unix:/run/flashmob/nbd.sock"]
admin = "[::1]:10810"
connections = 64
busy_poll_us = 100
trace_one_in = 1000
memory = "128MiB"
[[volume]]
name = "pool"
layout = "striped"
stripe = "64KiB"
read_only = false
batch = 100
timeout = "10s"
[volume.socket]
send_buffer = "1MiB"
[[volume.node]]
address = "192.168.1.11:7411"
size = "10GiB"
[[volume.node]]
path = "extents/b.bin"
size = "10GiB"
direct = true
mapped = "auto"
"#;

/// Text is accepted, or refused with something to say.
fn survives(text: &str) {
    if let Err(message) = parse(text) {
        assert!(message.starts_with("error: ") && message.contains(" = help: "), "{message}");
        assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
        // However long a line of the file is, what is shown of it is not.
        assert!(message.lines().all(|line| line.chars().count() < 400), "{message}");
    }
}

#[test]
fn the_text_to_mutate_is_valid() {
    assert_eq!(parse(VALID).map(|config| config.volumes.len()), Ok(1));
}

#[test]
fn every_beginning_of_a_configuration_is_survived() {
    (0..VALID.len()).for_each(|end| survives(&VALID[..end]));
}

#[test]
fn a_mebibyte_of_problems_is_reported_at_once() {
    let quarter = 1 << 18;
    for text in [
        "a=1,b=".repeat(quarter / 4),
        (0..quarter / 4).map(|n| format!("k{n}=1\n")).collect(),
        (0..quarter / 16).map(|n| format!("[[volume]]\nk{n}=1\n")).collect(),
        format!("volume = [{}]", "{},".repeat(quarter)),
        format!("volume = {}", "[".repeat(quarter)),
        format!("{} = 1", "a.".repeat(quarter)),
        format!("x = \"{}", "\\q".repeat(quarter)),
        format!("{} = 1", "k".repeat((1 << 20) - 4)),
    ] {
        let start = Instant::now();
        survives(&text);
        let took = start.elapsed();
        // What looks at each problem for each problem takes hours.
        assert!(took < Duration::from_secs(100), "{took:?} for {:?}...", &text[..40]);
    }
}

/// Found by fuzzing: every one of these is shown by several characters.
#[test]
fn lines_that_cannot_be_printed_are_not_shown_at_length() {
    for c in ['\u{7f}', '\u{1}', '\u{202e}', '\u{10fffe}'] {
        let line = c.to_string().repeat(200);
        survives(&line);
        survives(&format!("a = {line}"));
        survives(&format!("{line} = b"));
        survives(&format!("[{line}]"));
        survives(&format!("listen = \"{line}\""));
    }
}

proptest! {
    #[test]
    fn mutated_configurations_are_survived(
        edits in prop::collection::vec((0..VALID.len(), 0usize..12, "[ -~\\n\\t\\r\u{0}é\u{202e}]{0,6}"), 1..6)
    ) {
        let mut text = VALID.to_string();
        for (at, cut, put) in edits {
            let at = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            let end = (at + cut).min(text.len());
            let end = (end..=text.len()).find(|&end| text.is_char_boundary(end)).unwrap_or(text.len());
            text.replace_range(at..end, &put);
        }
        survives(&text);
    }

    #[test]
    fn swapped_values_are_survived(from in 0usize..20, to in 0usize..20) {
        let lines: Vec<&str> = VALID.lines().collect();
        let value = |line: &str| line.split_once(" = ").map(|(_, value)| value.to_string());
        let with_values: Vec<usize> = (0..lines.len()).filter(|&n| value(lines[n]).is_some()).collect();
        let (from, to) = (with_values[from % with_values.len()], with_values[to % with_values.len()]);
        let mut lines: Vec<String> = lines.into_iter().map(str::to_string).collect();
        let key = lines[to].split(" = ").next().unwrap_or_default().to_string();
        lines[to] = format!("{key} = {}", value(&lines[from]).unwrap_or_default());
        survives(&lines.join("\n"));
    }

    #[test]
    fn any_text_is_survived(text in any::<String>(), toml in "([a-z.]{1,6} ?= ?)?[\\[\\]{}=\"'a-z0-9#\\\\,. \\n]{0,60}") {
        survives(&text);
        survives(&toml);
    }
}

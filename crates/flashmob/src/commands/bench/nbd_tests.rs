use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: NbdArgs,
}

fn parse(arguments: &str) -> Result<NbdArgs, String> {
    let words = ["bench", "nbd://127.0.0.1/pool"].into_iter().chain(arguments.split_whitespace());
    Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
}

fn load(arguments: &str) -> Result<Load, String> {
    parse(arguments)?.load(&Arc::default()).map_err(|error| format!("{error:#}"))
}

#[test]
fn without_options_it_reads_blocks_of_4_kib_at_random() {
    let load = load("").unwrap();
    assert_eq!((load.connections, load.outstanding, load.block_bytes, load.threads), (1, 64, 4096, 1));
    assert_eq!((load.pattern, load.alignment), (Pattern::Random { seed: 1 }, Alignment::Block));
    assert_eq!((load.read_fraction, load.range_bytes, load.verify_one_of), (1.0, None, 1));
    assert_eq!(load.stop, load::Stop::After(Duration::from_secs(5)));
}

#[test]
fn options_say_what_they_mean() {
    let load = load(
        "-c 4 -o 256 -b 1 --align 1 --range 1MiB..2MiB -n 1000 --warmup 0.5 --seed 7 --threads 2 --rest-us 50 --timeout 3",
    )
    .unwrap();
    assert_eq!((load.connections, load.outstanding, load.block_bytes, load.threads), (4, 256, 1, 2));
    assert_eq!((load.alignment, load.range_bytes), (Alignment::Bytes(1), Some(1 << 20..2 << 20)));
    assert_eq!((load.stop, load.warmup), (load::Stop::Requests(1000), Duration::from_millis(500)));
    assert_eq!((load.pattern.seed(), load.rest, load.timeout.as_secs()), (7, Duration::from_micros(50), 3));
}

#[test]
fn writes_need_consent() {
    for arguments in ["--write", "--read-percent 99.9"] {
        let error = load(arguments).unwrap_err();
        assert!(error.contains("--allow-writes") && error.contains("nbd://127.0.0.1"), "{error}");
    }
    assert_eq!(load("--write --allow-writes").unwrap().read_fraction, 0.0);
    assert_eq!(load("--read-percent 70 --allow-writes").unwrap().read_fraction, 0.7);
    assert!(parse("--write --read-percent 5").is_err());
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    for (arguments, remedy) in [
        ("--block-size 0", "give a size from 1"),
        ("--block-size 4GiB", "give a size from 1"),
        ("--connections 0", "1..=64"),
        ("--outstanding 65537", "1..=65536"),
        ("--range 5", "BEGIN..END"),
        ("--range 2MiB..1MiB", "at or before its start"),
        ("--verify x --verify-sample 64", "1/N"),
        ("--verify x --verify-sample 1/0", "1/N"),
        ("--verify-sample 1/2", "--verify"),
        ("--time 0", "more than 0"),
        ("--time 86401", "at most 24h"),
        ("--time 25h", "at most 24h"),
        ("--time 5x", "a number and a unit"),
        ("--time s", "a number and a unit"),
        ("--time 5 --requests 5", "cannot be used with"),
        ("--requests 0", "1.."),
        ("--align 0", "at least 1"),
        ("--read-percent 101", "0 to 100"),
    ] {
        let error = parse(arguments).unwrap_err();
        assert!(error.contains(remedy), "{arguments}: {error}");
    }
    assert!(load("--verify /nonexistent/image").unwrap_err().contains("/nonexistent/image"));
}

#[test]
fn a_range_may_leave_either_end_open() {
    assert_eq!(range("..1KiB"), Ok(ByteRange { begin: 0, end: Some(1024) }));
    assert_eq!(range("7.."), Ok(ByteRange { begin: 7, end: None }));
}

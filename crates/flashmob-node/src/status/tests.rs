use std::net::SocketAddr;
use std::thread;

use super::page::WIDTH;
use super::*;
use flashmob_core::gateway::LinkCounters;
use flashmob_server::admin::http::{AdminServer, serve};
use flashmob_server::admin::samples::{EVIL, gateway, link, model, node, node_of_volume};
use flashmob_server::status::report::VolumeReport;
use flashmob_server::status::{Reporter, reporter};

const TICK: Duration = Duration::from_secs(1);

fn assert_page(report: &Report, expected: &str) {
    let actual = page(report, false);
    assert!(actual == expected, "this was drawn:\n{actual}");
}

#[test]
fn a_gateway_is_one_page() {
    assert_page(&gateway(), include_str!("tests/gateway.txt"));
}

#[test]
fn a_node_is_one_page() {
    assert_page(&node(), include_str!("tests/node.txt"));
}

#[test]
fn nothing_known_yet_is_a_page_too() {
    let mut report = gateway();
    report.stages.iter_mut().for_each(|stage| stage.count = 0);
    report.warnings.clear();
    let g = report.gateway.as_mut().unwrap();
    g.volumes.truncate(1);
    g.volumes[0].size_bytes = None;
    g.volumes[0].nodes = vec![node_of_volume("tablet", 1)];
    let n = &mut g.volumes[0].nodes[0];
    (n.state, n.size_bytes) = ("connecting".to_string(), None);
    n.links[0] = flashmob_server::status::report::LinkReport {
        state: "waiting".to_string(),
        counters: LinkCounters { resent: 3, breaks: 1, failures: 2, ..LinkCounters::default() },
        tcp: Some(Default::default()),
        path: Some(Default::default()),
        ..link(0)
    };
    assert_page(&report, include_str!("tests/unknown.txt"));
    let mut report = node();
    let n = report.node.as_mut().unwrap();
    (n.volume, n.no_io, n.counters.batches, n.counters.pieces) = (None, true, 0, 0);
    let text = page(&report, false);
    assert!(
        text.contains("not claimed by a gateway yet") && text.contains("WITHOUT") && text.contains("0 per batch"),
        "{text}"
    );
    (report.node, report.stages) = (None, vec![]);
    assert_eq!(page(&report, false).lines().count(), 2);
}

#[test]
fn a_modelled_flash_is_named_as_such() {
    let mut report = node();
    report.node.as_mut().unwrap().model = Some(model());
    let text = page(&report, false);
    assert!(text.contains("modelled  nexus7-emmc (a tablet); 2100 served, busy 75 % of the time"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("p99 250us, max 4ms"), "{text}");
    let mut report = gateway();
    report.gateway.as_mut().unwrap().volumes[0].nodes[0].modelled = true;
    assert!(page(&report, false).contains("modelled: tablet-1.lan:7000 has a modelled flash (--model)"));
}

/// A report with the longest possible names and figures.
fn largest() -> Report {
    let mut report = gateway();
    report.uptime_seconds = f64::MAX;
    report.version = EVIL.repeat(40);
    report.warnings = vec![EVIL.repeat(100), "x".repeat(500), String::new()];
    report.stages[0].name = EVIL.repeat(30);
    let long = EVIL.repeat(50);
    let mut n = node_of_volume(&long, 0);
    (n.state, n.refusal, n.no_io) = (long.clone(), Some(long.clone()), true);
    (n.size_bytes, n.queue_depth) = (Some(u64::MAX), usize::MAX);
    let mut l = link(0);
    (l.counters.batches, l.counters.pieces, l.counters.bytes_out, l.counters.bytes_in, l.counters.breaks) =
        (u64::MAX / 2, u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    let tcp = l.tcp.as_mut().unwrap();
    (tcp.segments_out, tcp.segments_in, tcp.retransmissions, tcp.rtt_us) = (u64::MAX, u64::MAX, u64::MAX, 999_999_999);
    (tcp.data_segments_out, tcp.bytes_out) = (1, u64::MAX);
    n.links = vec![l; 64];
    let mut c = flashmob_server::admin::samples::condition();
    (c.free_bytes, c.unallocated_bytes, c.pauses_total) = (Some(u64::MAX), Some(u64::MAX), u32::MAX);
    (c.celsius, c.pauses[0].reason, c.warnings) = (Some(f64::MAX), long.clone(), vec![long.clone()]);
    (n.condition, n.seen_at) = (Some(c), Some(long.clone()));
    let g = report.gateway.as_mut().unwrap();
    g.requests = vec![(EVIL.repeat(20), u64::MAX); 6];
    g.volumes = vec![VolumeReport { name: long, size_bytes: Some(u64::MAX), copies: None, nodes: vec![n; 3] }];
    report
}

#[test]
fn no_line_is_wider_than_the_page_and_nothing_in_it_steers_the_terminal() {
    let mut local = node();
    let n = local.node.as_mut().unwrap();
    (n.path, n.volume, n.extent_id) = (EVIL.repeat(90), Some(EVIL.repeat(90)), EVIL.repeat(90));
    (n.counters.read_bytes, n.counters.batches, n.counters.pieces) = (u64::MAX, 1, u64::MAX);
    (n.condition.network, n.condition.pauses[0].reason) = (Some(EVIL.repeat(90)), EVIL.repeat(90));
    for report in [gateway(), node(), largest(), local] {
        for line in page(&report, false).lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert!(!line.contains(['\u{1b}', '\u{202e}']) && line.trim_end() == line, "{line:?}");
        }
    }
}

#[test]
fn the_table_of_devices_fits_a_phone_and_colours_what_is_beyond_a_limit() {
    let text = page(&gateway(), true);
    let table: Vec<&str> = text.lines().skip_while(|line| !line.contains("to be")).take(4).collect();
    let plain = page(&gateway(), false);
    let lines = plain.lines().skip_while(|line| !line.contains("to be")).take(4);
    assert!(lines.clone().all(|line| line.chars().count() <= 80), "{:?}", lines.collect::<Vec<_>>());
    assert!(table[2].contains("\x1b[31m12 %\x1b[0m") && table[2].contains("\x1b[31mon battery\x1b[0m"), "{table:?}");
    assert!(plain.contains("paused: tablet-1.lan:7000: 312 s: the device slept (screen off"), "{plain}");
}

#[test]
fn colours_change_nothing_but_colours() {
    let coloured = page(&gateway(), true);
    assert!(coloured.contains("\x1b[31mrefused\x1b[0m") && coloured.contains("\x1b[32mready\x1b[0m"), "{coloured}");
    let plain =
        ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(plain, page(&gateway(), false));
}

#[test]
fn what_is_no_report_of_this_form_is_refused_with_the_reason() {
    let newer = serde_json::to_string(&node()).unwrap().replace("\"schema\":1", "\"schema\":2");
    let incomplete = r#"{"schema":1,"version":"0.1.0"}"#;
    for (body, reason) in [
        (newer.as_str(), "it has format 2, of flashmob 0.1.0; this is flashmob"),
        (incomplete, "a part of the report is missing or invalid: missing field"),
        ("<html>", "it is not a flashmob status report: expected value"),
        ("", "it is not a flashmob status report: EOF"),
        ("\u{0}", "it is not a flashmob status report"),
        ("[[[[[[[[", "it is not a flashmob status report"),
        (r#"{"schema":-1,"version":""}"#, "it is not a flashmob status report: invalid value"),
    ] {
        let error = format!("{:#}", read(body.as_bytes()).unwrap_err());
        assert!(error.starts_with(reason), "{error}");
    }
}

#[test]
fn fields_of_later_versions_do_not_matter() {
    let later = serde_json::to_string(&node()).unwrap().replacen('{', r#"{"mood":"good","#, 1);
    assert_eq!(read(later.as_bytes()).unwrap().node.unwrap().links, 8);
}

/// A loop that reports its number of answers as warnings.
fn counting() -> Reporter {
    let (reporter, questions) = reporter(flashmob_server::net::Wake::nobody());
    thread::spawn(move || {
        for (i, answer) in questions.iter().enumerate() {
            let _ = answer.send(Report { warnings: vec![format!("answer {i}")], ..node() });
        }
    });
    reporter
}

fn server() -> (AdminServer, AdminArgs) {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = serve(any, counting()).unwrap();
    let target = AdminArgs::plain(&server.local_addr().to_string());
    (server, target)
}

/// The output of `rounds` rounds; before each but the first, `between` may change something.
fn printed(
    target: &AdminArgs,
    output: Output,
    terminal: bool,
    rounds: usize,
    mut between: impl FnMut(usize),
) -> anyhow::Result<String> {
    let mut out = Vec::new();
    let mut round = 0;
    let watch = (rounds > 1).then_some(TICK);
    let screen = Screen { out: &mut out, terminal, colour: false };
    print(target, output, watch, screen, &mut |interval| {
        assert_eq!(interval, TICK);
        round += 1;
        between(round);
        round < rounds
    })?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn json_is_the_report_on_one_line() {
    let (_server, target) = server();
    let text = printed(&target, Output::Json, true, 1, |_| ()).unwrap();
    assert_eq!(text.find('\n'), Some(text.len() - 1));
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(report.warnings, ["answer 0"]);
    let lines = printed(&target, Output::Json, true, 3, |_| ()).unwrap();
    assert!(lines.lines().count() == 3 && lines.lines().all(|l| serde_json::from_str::<Report>(l).is_ok()), "{lines}");
}

#[test]
fn watching_draws_in_place_on_a_terminal_and_else_one_below_the_other() {
    let (_server, target) = server();
    let once = printed(&target, Output::Text, true, 1, |_| ()).unwrap();
    assert!(once.contains("warning: answer 0\n") && !once.contains('\u{1b}'), "{once}");
    let drawn = printed(&target, Output::Text, true, 2, |_| ()).unwrap();
    assert!(drawn.starts_with("\x1b[H") && drawn.ends_with("every 1s; Ctrl-C ends\x1b[K\n\x1b[J"), "{drawn:?}");
    assert_eq!([drawn.matches("\x1b[H").count(), drawn.matches("answer 2\x1b[K\n").count()], [2, 1]);
    let listed = printed(&target, Output::Text, false, 2, |_| ()).unwrap();
    assert!(!listed.contains('\u{1b}') && listed.contains("\n\nflashmob ") && listed.contains("answer 4"), "{listed}");
}

#[test]
fn watching_goes_on_while_the_process_is_away() {
    let (server, target) = server();
    let (addr, mut server) = (server.local_addr(), Some(server));
    let text = printed(&target, Output::Text, false, 3, |round| match round {
        1 => server = None,
        _ => server = serve(addr, counting()).ok(),
    });
    let text = text.unwrap();
    assert_eq!([text.matches("nothing listens on").count(), text.matches("answer 0").count()], [1, 2], "{text}");
}

#[test]
fn a_target_that_was_never_there_is_an_error() {
    let (server, target) = server();
    drop(server);
    let address = target.open().unwrap();
    for rounds in [1, 3] {
        let error = printed(&target, Output::Text, true, rounds, |_| ()).unwrap_err();
        let expected =
            format!("nothing listens on {address}; start the gateway or node with --admin {address}, or give");
        assert!(format!("{error:#}").starts_with(&expected), "{error:#}");
    }
    let error = run(&StatusArgs { admin: AdminArgs::plain("nowhere"), output: Output::Text, watch: None }).unwrap_err();
    assert!(format!("{error:#}").starts_with("'nowhere' is not ADDR:PORT"), "{error:#}");
    assert!(error.is::<crate::WrongValue>(), "which is a wrong argument: status 2");
}

#[test]
fn watching_has_a_least_interval() {
    let (_server, target) = server();
    for (millis, good) in [(0, false), (99, false), (100, true), (101, true)] {
        let screen = Screen { out: &mut io::sink(), terminal: false, colour: false };
        let watch = Some(Duration::from_millis(millis));
        assert_eq!(print(&target, Output::Json, watch, screen, &mut |_| false).is_ok(), good, "{millis}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_without_an_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (_server, target) = server();
    let screen = Screen { out: &mut Closed, terminal: false, colour: false };
    print(&target, Output::Text, Some(TICK), screen, &mut |_| panic!("it goes on")).unwrap();
}

//! A sweep over modelled paths: a lab for each, and one result for all.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use flashmob_bench::net::check_congestion;
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, merge};

use super::args::{LoadArgs, NetArgs};
use super::measure::status;
use super::table;
use crate::commands::own_runs;
use crate::commands::tell::{self, STATUS_INTERRUPTED};
use crate::commands::words;

/// Measures over each path in the arguments.
pub fn run(args: &NetArgs) -> anyhow::Result<ExitCode> {
    for name in &args.load.congestion {
        check_congestion(name)?;
    }
    args.result.check(None)?;
    let paths = args.path.paths();
    let points = args.load.points(None)?.len() * paths.len();
    let folder = own_runs::scratch("bench-net")?;
    let stop = tell::on_signal()?;
    let mut load = words_of(&args.load, args.repeat);
    load.extend(["--replace-void".to_string(), args.replace_void.to_string()]);
    let mut teller = args.result.teller(table::render);
    teller.begin(points, args.repeat, args.path.seed);
    let (mut parts, mut failed): (Vec<Document>, bool) = (Vec::new(), false);
    for (done, path) in paths.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        teller.progress(done as f64 / paths.len() as f64);
        match path.measure(std::slice::from_ref(&load), folder.path(), None, &stop, &|| {}) {
            Ok(part) => parts.extend(part),
            // If the first one fails, the others will as well; later failures may concern one path only.
            Err(error) if parts.is_empty() => return Err(error),
            Err(error) => {
                failed = true;
                log::error!("{}", words(&error));
            }
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    if parts.is_empty() {
        log::info!("stopped before anything was measured");
        return Ok(ExitCode::from(STATUS_INTERRUPTED));
    }
    let measured = parts.len();
    let mut document = merge::nets(parts)?;
    document.label.clone_from(&args.result.label);
    document.interrupted |= interrupted || failed;
    document.warnings.extend(missing(measured, paths.len()));
    args.result.save(&document)?;
    teller.end(&document)?;
    if failed && !interrupted {
        return Ok(ExitCode::FAILURE);
    }
    Ok(status(document.net().map_or(&[], |net| &net.points), interrupted))
}

/// The warning about a sweep with missing paths.
fn missing(measured: usize, all: usize) -> Option<Warning> {
    let text = format!("{measured} of {all} paths were measured: the sweep was stopped, or the others failed");
    (measured < all).then(|| Warning::new(Code::Interrupted, text))
}

/// The load as arguments for the client within a lab.
fn words_of(load: &LoadArgs, repeat: u32) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut option = |name: &str, value: String| words.extend([name.to_string(), value]);
    let list = |values: Vec<String>| values.join(",");
    let numbers = |values: &[u64]| list(values.iter().map(u64::to_string).collect());
    for (name, values) in [("--rate", &load.rate), ("--window", &load.window)] {
        if !values.is_empty() {
            option(name, numbers(values));
        }
    }
    match load.bytes {
        Some(bytes) => option("--bytes", bytes.to_string()),
        None => option("--time", load.time.as_secs_f64().to_string()),
    }
    if let Some(length) = load.length {
        option("--length", length.to_string());
    }
    option("--streams", list(load.streams.iter().map(u32::to_string).collect()));
    if !load.omit.is_zero() {
        option("--omit", load.omit.as_secs().to_string());
    }
    option("--interval", load.interval.as_secs_f64().to_string());
    option("--repeat", repeat.to_string());
    if !load.congestion.is_empty() {
        option("--congestion", list(load.congestion.clone()));
    }
    if load.messages.is_empty() {
        option("--direction", list(load.directions().iter().map(ToString::to_string).collect()));
    } else {
        let texts = load.messages.iter().map(|m| format!("{}:{}:{}", m.request_bytes, m.answer_bytes, m.depth));
        option("--messages", list(texts.collect()));
    }
    if load.udp {
        words.push("--udp".into());
    }
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        net: NetArgs,
    }

    fn load(words: &[String]) -> LoadArgs {
        let line = ["x", "--connect", "h"].into_iter().chain(words.iter().map(String::as_str));
        Line::try_parse_from(line).unwrap().net.load
    }

    #[test]
    fn a_sweep_says_how_many_of_its_paths_it_has() {
        assert_eq!(missing(3, 3), None);
        assert!(missing(2, 3).unwrap().message.starts_with("2 of 3 paths were measured"));
    }

    #[test]
    fn a_load_survives_being_written_and_read() {
        for line in [
            "",
            "--udp --rate 10M,20M --length 1000 --bidir",
            "--reverse --streams 1,4 -C reno,cubic --window 64K --omit 2 --time 3.5 --interval 0.5",
            "--bytes 10M --direction up,both",
            "--messages 40:4k:1,40:4k:32",
        ] {
            let given: Vec<String> = line.split_whitespace().map(String::from).collect();
            let (first, again) = (load(&given), load(&words_of(&load(&given), 3)));
            assert_eq!(first.points(None).unwrap(), again.points(None).unwrap(), "{line}");
            assert_eq!(
                (first.time, first.bytes, first.omit, first.interval),
                (again.time, again.bytes, again.omit, again.interval),
                "{line}"
            );
        }
    }
}

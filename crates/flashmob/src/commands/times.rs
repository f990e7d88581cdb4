//! A table of tests over all commands: every option with a time or a size accepts the same forms.

use std::any::TypeId;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// Options in a fixed unit, which their help names: axes of papers, and microseconds.
const FIXED_UNIT: [&str; 3] = ["bench net --rtt", "bench nbd --rest-us", "reproduce p4 --rtt"];
/// iperf3's protocol has whole seconds.
const WHOLE_SECONDS: &str = "bench net --omit";

/// Every option of every command that has a value, with its command.
fn options() -> Vec<(String, Arg)> {
    fn walk(command: &Command, path: &str, found: &mut Vec<(String, Arg)>) {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            found.push((format!("{path}--{}", arg.get_long().unwrap_or_default()), arg.clone()));
        }
        command.get_subcommands().for_each(|command| walk(command, &format!("{path}{} ", command.get_name()), found));
    }
    let mut found = Vec::new();
    walk(&Cli::command(), "", &mut found);
    found
}

/// The outcome of parsing `text` for the option, without the other options that it requires.
fn says(arg: &Arg, text: &str) -> Result<(), String> {
    let alone = Arg::new("x").long("x").value_parser(arg.get_value_parser().clone());
    let matches = Command::new("test").arg(alone).try_get_matches_from(["test".to_string(), format!("--x={text}")]);
    matches.map(|_| ()).map_err(|error| error.to_string())
}

fn value_names(arg: &Arg) -> String {
    arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_option_that_takes_a_time_takes_it_in_the_same_forms() {
    let mut times = 0;
    for (name, arg) in options() {
        if arg.get_value_parser().type_id() != TypeId::of::<Duration>() {
            continue;
        }
        times += 1;
        assert_eq!(value_names(&arg), "TIME", "{name}");
        for text in ["3s", "3", "0.05m", "3000ms", "3000000us"] {
            assert_eq!(says(&arg, text), Ok(()), "{name} {text}");
        }
        if name == WHOLE_SECONDS {
            assert!(says(&arg, "500ms").is_err_and(|error| error.contains("whole seconds")));
        } else {
            assert_eq!(says(&arg, "500ms"), Ok(()), "{name}");
        }
        // It may be beyond a limit, which the error then names.
        if let Err(error) = says(&arg, "1.5m") {
            assert!(error.contains("out of range") && error.contains("1m"), "{name}: {error}");
        }
        for text in ["-1", "-1s", "+3", "nan", "inf", "three", "3 apples", "1e3", "3,5", "1.2.3"] {
            let error = says(&arg, text).expect_err(&name);
            assert!(
                error.contains(&format!("'{text}'")) && error.contains("such as 500ms, 3s, 1.5m"),
                "{name}: {error}"
            );
        }
        for text in ["", "99999999999999999999h"] {
            assert!(says(&arg, text).is_err(), "{name} {text}");
        }
        assert!(says(&arg, "9999999d").is_err_and(|error| error.contains("out of range")), "{name} has a limit");
    }
    assert!(times >= 20, "{times}");
}

#[test]
fn no_option_takes_a_time_in_a_way_of_its_own() {
    let units = ["TIME", "SECOND", "PAUSE", "INTERVAL", "PERIOD", "MS", "US", "DURATION"];
    for (name, arg) in options() {
        let values = value_names(&arg).to_uppercase();
        let is_named = values
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| units.contains(&word.trim_end_matches('S')) || units.contains(&word));
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default().to_lowercase();
        let is_number = [TypeId::of::<f64>(), TypeId::of::<u64>(), TypeId::of::<u32>()]
            .iter()
            .any(|number| arg.get_value_parser().type_id() == *number);
        let is_told = is_number
            && help
                .split(|c: char| !c.is_alphabetic())
                .any(|word| ["seconds", "milliseconds", "microseconds", "minutes"].contains(&word));
        if (is_named || is_told) && !FIXED_UNIT.contains(&name.as_str()) {
            assert!(
                arg.get_value_parser().type_id() == TypeId::of::<Duration>(),
                "{name} takes a time, and is no Duration"
            );
        }
        if FIXED_UNIT.contains(&name.as_str()) {
            assert!(help.contains("milliseconds") || help.contains("microseconds"), "{name} does not tell its unit");
        }
    }
    let names: Vec<String> = options().into_iter().map(|(name, _)| name).collect();
    assert!(FIXED_UNIT.iter().chain([&WHOLE_SECONDS]).all(|name| names.iter().any(|n| n == name)), "{names:?}");
}

#[test]
fn every_option_that_takes_a_size_takes_it_in_the_same_forms() {
    let mut sizes = 0;
    for (name, arg) in options() {
        let values = value_names(&arg);
        let is_size = values.split(|c: char| !c.is_alphanumeric()).any(|word| word == "SIZE" || word == "BYTES");
        if !is_size {
            continue;
        }
        sizes += 1;
        for text in ["65536", "64KiB", "64k", "64K", "64 KiB", "0.0625MiB", "65.536kB"] {
            assert_eq!(says(&arg, text), Ok(()), "{name} {text}");
        }
        for text in ["", "-1", "ten", "4 apples", "1e9", "1.2.3", "9223372036854775808"] {
            assert!(says(&arg, text).is_err(), "{name} {text}");
        }
    }
    assert!(sizes >= 15, "{sizes}");
}

//! A campaign of seeds at the command line: interrupted, gone on with, by another build.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const FAULTS: &str = env!("CARGO_BIN_EXE_faults");

fn run(program: impl AsRef<Path>, record: &Path, args: &[&str]) -> Output {
    Command::new(program.as_ref()).args(args).arg("--resume").arg(record).output().expect("it runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Begins more seeds than anybody waits for, and waits until the record says that some have passed.
fn begin(record: &Path) -> Child {
    let child = Command::new(FAULTS)
        .args(["--seeds", "100000000", "--jobs", "1", "--resume"])
        .arg(record)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !std::fs::read_to_string(record).unwrap_or_default().contains("\npassed ") {
        assert!(Instant::now() < deadline, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

/// The seeds from 0 on that the record has.
fn passed_first(record: &Path) -> u64 {
    let text = std::fs::read_to_string(record).unwrap();
    let mut end = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("passed ")) {
        let (from, to) = line.split_once(' ').unwrap();
        assert_eq!(from.parse::<u64>().unwrap(), end, "one thread runs them in order: {text}");
        end = to.parse().unwrap();
    }
    end
}

fn folder_and_record() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("seeds");
    (folder, record)
}

/// Runs the first three seeds that are not recorded, and none that is.
fn goes_on(record: &Path) {
    let before = passed_first(record);
    let output = run(FAULTS, record, &["--seeds", &(before + 3).to_string(), "--jobs", "1"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(&format!("{before} seeds have passed before\n")), "{text}");
    assert!(text.ends_with(&format!("\n{} passed, 0 failed\n", before + 3)), "{text}");
    // In one line or, on a busy machine, in several.
    assert_eq!(passed_first(record), before + 3);
}

#[test]
fn a_run_that_a_signal_ends_is_recorded_and_gone_on_with() {
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let (_folder, record) = folder_and_record();
        let child = begin(&record);
        let output = run(FAULTS, &record, &["--seeds", "1"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("is in use by another process"));
        assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.ends_with("the run is not at its end: the same command goes on from here\n"), "{text}");
        let passed = format!("\n{} passed, 0 failed\n", passed_first(&record));
        assert!(text.contains(&passed), "all that passed is recorded: {text}");
        goes_on(&record);
    }
}

#[test]
fn a_run_that_is_killed_is_gone_on_with() {
    let (_folder, record) = folder_and_record();
    let mut child = begin(&record);
    child.kill().unwrap();
    child.wait().unwrap();
    goes_on(&record);
}

#[test]
fn an_altered_program_says_so_and_runs_only_what_did_not_pass() {
    let (folder, record) = folder_and_record();
    assert!(run(FAULTS, &record, &["--first", "7", "--seeds", "4"]).status.success());
    let program = std::fs::read_to_string(&record).unwrap().lines().nth(1).unwrap().to_string();
    // Without what a failure was.
    std::fs::write(&record, format!("flashmob seeds 1 without copies\n{program}\npassed 7 9\nfailed 9 a bad answer\n"))
        .unwrap();
    let output = run(FAULTS, &record, &["--first", "7", "--seeds", "4"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("seed 9 failed before: a bad answer\n") && text.ends_with("\n3 passed, 1 failed\n"),
        "{text}"
    );

    let altered = folder.path().join("altered");
    // By a process of its own: a program that this one has open for writing, or a child of another test's thread, cannot be run.
    let script = r#"cp "$1" "$2" && printf '\0' >>"$2""#;
    assert!(Command::new("sh").args(["-c", script, "sh", FAULTS]).arg(&altered).status().unwrap().success());
    let before = std::fs::read_to_string(&record).unwrap();
    let output = run(&altered, &record, &["--first", "7", "--seeds", "4"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("another build of this program") && error.contains("--keep-passed"), "{error}");
    assert_eq!(std::fs::read_to_string(&record).unwrap(), before);

    let output = run(&altered, &record, &["--first", "7", "--seeds", "4", "--keep-passed"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("3 seeds have passed before, 3 of them under another build\n"), "{text}");
    assert!(text.ends_with("\n4 passed, 0 failed\n"), "{text}");
    let lines = std::fs::read_to_string(&record).unwrap();
    assert!(lines.ends_with("\npassed 9 10\n") && lines.matches("\nprogram ").count() == 2, "{lines}");
}

#[test]
fn a_file_that_is_no_record_of_these_seeds_is_refused_and_stays() {
    let (_folder, record) = folder_and_record();
    let program = "program 0\n";
    let texts = [
        ("my notes\n".to_string(), "is no record of seeds"),
        (format!("flashmob seeds 1 copies\n{program}"), "is a record of seeds of the family 'copies'"),
        (format!("flashmob seeds 1 without copies\n{program}pa\0ssed 1 2\n"), ", line 3: 'pa"),
    ];
    for (text, wanted) in texts {
        std::fs::write(&record, &text).unwrap();
        let output = run(FAULTS, &record, &["--seeds", "1"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(wanted) && error.contains(record.to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read_to_string(&record).unwrap(), text);
    }
}

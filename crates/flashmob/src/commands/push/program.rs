//! `flashmob push run` and `push bench`: the program on a device in the foreground, with its output and exit status; `push stop`: its end.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::adb::{quoted, quoted_all, reader};
use super::node::NODE_OF;
use super::session::{LOOK_AGAIN, Session};
use super::trouble::Trouble;
use crate::commands::{tell, whole_file};

/// Time limit for a program to exit on request; a benchmark finishes its current requests.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// The same where a single request waits for it, within adb's own limit.
const END_SECONDS: u32 = 10;

/// Lines of its output that are shown if it fails.
const LINES_KEPT: usize = 12;
/// The files of a running program, in the folder of the device's files.
const PID: &str = "run.pid";
const STATUS: &str = "run.status";

/// The outcome of a program whose output is not shown.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: u8,
    /// The end of its output.
    pub said: String,
}

/// Runs it with these arguments; returns its exit status.
pub fn run(session: &Session, args: &[String]) -> anyhow::Result<u8> {
    Ok(follow(session, args, false, &|| {})?.status)
}

/// As [`run`], without showing its output; `tick` is called often meanwhile.
pub fn run_quietly(session: &Session, args: &[String], tick: &dyn Fn()) -> anyhow::Result<Ended> {
    follow(session, args, true, tick)
}

fn follow(session: &Session, args: &[String], is_quiet: bool, tick: &dyn Fn()) -> anyhow::Result<Ended> {
    let (pid, status) = (quoted(&session.kept(PID)), quoted(&session.kept(STATUS)));
    // In the background of its shell, so that its process id is known; the status goes to a file, because old devices do not report it.
    let script = format!(
        "rm -f {status} {pid}; cd {folder} && {{ {program} {args} & p=$!; echo $p >{pid}; wait $p; echo $? >{status}; }}",
        folder = quoted(&session.kept("")),
        program = session.program(),
        args = quoted_all(args),
    );
    let mut command = session.adb.command(session.adb_args(["shell", &script]));
    if is_quiet {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = session.adb.spawn(&mut command)?;
    let outputs = [reader(child.stdout.take()), reader(child.stderr.take())];
    let ended = see_to_its_end(session, &mut child, &pid, tick);
    if ended.is_err() {
        // The device may be gone, and adb must not be left running. It may have exited already.
        let _ = child.kill();
        let _ = child.wait();
    }
    ended?;
    let answer = session.try_shell(&format!("cat {status} && rm -f {status} {pid}"))?;
    // Without a status its shell did not finish: the connection broke.
    let code: u8 =
        answer.text.trim().parse().map_err(|_| anyhow::Error::from(Trouble::Vanished).context(session.name()))?;
    // An interrupt before it handles signals gives the system's exit status, which is not used.
    let status = if session.stopping() { tell::STATUS_INTERRUPTED } else { code };
    let said = outputs.map(|output| output.join().unwrap_or_default()).concat();
    let lines: Vec<String> = String::from_utf8_lossy(&said).lines().map(tell::harmless).collect();
    Ok(Ended { status, said: lines[lines.len().saturating_sub(LINES_KEPT)..].join("\n       ") })
}

/// The process id of a program that runs on the device, if one does.
pub fn running(session: &Session) -> anyhow::Result<Option<u32>> {
    let text = session.shell(&format!("{}\necho \"$node\"", program_of(session)))?;
    Ok(text.trim().parse().ok())
}

/// Ends a program that a broken connection left running, by force if necessary. True if there was one.
pub fn stop(session: &Session) -> anyhow::Result<bool> {
    let alive = program_of(session);
    let script = format!(
        "{alive}\n[ -n \"$node\" ] || {{ echo none; exit 0; }}\nkill -TERM $node; left={END_SECONDS}\n\
         while {alive}; [ -n \"$node\" ] && [ $left -gt 0 ]; do left=$((left - 1)); sleep 1; done\n\
         [ -z \"$node\" ] || {{ kill -KILL $node; echo killed; }}"
    );
    let text = session.shell(&format!("( {script}\n)"))?;
    match text.trim() {
        "none" => return Ok(false),
        "killed" => {
            log::warn!("{}: the program did not exit within {END_SECONDS} s and was killed", session.name())
        }
        _ => log::info!("{}: the program was stopped", session.name()),
    }
    Ok(true)
}

/// Sets the variable `node` to the process id of a program in this session's folder, if it runs.
fn program_of(session: &Session) -> String {
    NODE_OF.replace("node.pid", PID).replace("FOLDER", &quoted(&session.folder))
}

/// Waits for adb's end, and forwards Ctrl-C; `pid`: the file with the program's process id, as a shell word.
fn see_to_its_end(session: &Session, child: &mut Child, pid: &str, tick: &dyn Fn()) -> anyhow::Result<()> {
    let mut deadline: Option<Instant> = None;
    let mut is_told = false;
    while child.try_wait()?.is_none() {
        if session.stopping() && !is_told {
            deadline.get_or_insert_with(|| Instant::now() + END_TIMEOUT);
            // Again if the program has no process id yet.
            is_told = session.try_shell(&format!("kill -TERM $(cat {pid})"))?.status == 0;
        }
        if deadline.is_some_and(|at| Instant::now() >= at) {
            session.try_shell(&format!("kill -KILL $(cat {pid})"))?;
            let _ = child.kill();
        }
        tick();
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Runs a benchmark on each device, and fetches its results.
pub fn bench(sessions: &[Session], args: &[String]) -> anyhow::Result<ExitCode> {
    let (args, named) = without_save(args)?;
    ensure_value!(
        named.is_none() || sessions.len() == 1,
        "--save names one file, but there are {} devices: leave it out to get a file for each",
        sessions.len()
    );
    let mut code = 0;
    for session in sessions {
        let here = named.clone().unwrap_or_else(|| PathBuf::from(default_name(session, &args)));
        tell::check_writable(&here, None)?;
        log::info!("{}: flashmob bench {}", session.name(), args.join(" "));
        let there = session.kept("results.json");
        session.shell(&format!("rm -f {}", quoted(&there)))?;
        let status = run(session, &on_device(session, &args, &there))?;
        code = if code == 0 { status } else { code };
        // A benchmark that was interrupted or had failures has results as well.
        if session.try_shell(&format!("[ -s {} ]", quoted(&there)))?.status == 0 {
            bring(session, &there, &here)?;
        } else if status == 0 {
            anyhow::bail!("{}: the benchmark wrote no results", session.name());
        }
        if session.stopping() {
            break;
        }
    }
    Ok(ExitCode::from(code))
}

fn bring(session: &Session, there: &str, here: &Path) -> anyhow::Result<()> {
    let folder = here.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = folder.join(format!(".flashmob-push.{}.json", std::process::id()));
    let outcome = session.fetch(there, &temporary).and_then(|()| {
        let text = std::fs::read_to_string(&temporary)
            .with_context(|| format!("{}: cannot read the results", session.name()))?;
        serde_json::from_str::<flashmob_results::Document>(&text)
            .with_context(|| format!("{}: the file received is not a result", session.name()))?;
        whole_file::write(here, &text).with_context(|| format!("cannot save the result as {}", here.display()))
    });
    // It may not exist.
    let _ = std::fs::remove_file(&temporary);
    outcome?;
    session.shell(&format!("rm -f {}", quoted(there)))?;
    log::info!("{}: results in {here}; 'flashmob report {here}' makes a page", session.name(), here = here.display());
    Ok(())
}

/// The arguments on the device: a file to measure unless one is given or none is needed, a label, and the path of results.
fn on_device(session: &Session, args: &[String], there: &str) -> Vec<String> {
    let mut words = vec!["bench".to_string()];
    words.extend(args.iter().cloned());
    let has = |option: &str| args.iter().any(|word| word == option || word.starts_with(&format!("{option}=")));
    if args.first().is_some_and(|kind| kind == "disk") {
        if !has("--model") && !args.iter().any(|word| word.starts_with('/')) {
            words.insert(2, session.kept("bench"));
        }
        if let Some(model) = session.properties.model.as_ref().filter(|_| !has("--label")) {
            words.extend(["--label".to_string(), model.clone()]);
        }
    }
    words.extend(["--save".to_string(), there.to_string()]);
    words
}

/// Removes `--save FILE`, which names a file of this machine.
fn without_save(args: &[String]) -> anyhow::Result<(Vec<String>, Option<PathBuf>)> {
    let (mut rest, mut save) = (Vec::new(), None);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if word == "--save" {
            save = Some(words.next().context("--save needs a file name")?.into());
        } else if let Some(name) = word.strip_prefix("--save=") {
            save = Some(name.into());
        } else {
            rest.push(word.clone());
        }
    }
    Ok((rest, save))
}

/// Such as `nexus-7-0a1b2c3d-disk.json`.
fn default_name(session: &Session, args: &[String]) -> String {
    let kind = args.first().map_or("bench", String::as_str);
    let text = format!("{} {} {kind}", session.properties.model.as_deref().unwrap_or("device"), session.device.serial)
        .to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    format!("{}.json", words.collect::<Vec<_>>().join("-"))
}

#[cfg(test)]
mod tests {
    use super::super::adb::Adb;
    use super::super::devices::{Attached, Properties};
    use super::*;

    fn session() -> Session {
        Session {
            adb: Adb::new("adb"),
            device: Attached { serial: "127.0.0.1:5555".into(), state: "device".into(), model: None },
            properties: Properties { model: Some("Nexus 7 (2013)".into()), ..Properties::default() },
            folder: "/data/local/tmp".into(),
            stop: Default::default(),
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn the_file_to_save_is_one_of_this_machine() {
        let (rest, save) = without_save(&words("disk --preset p1 --save tablet.json --scale 0.1")).unwrap();
        assert_eq!((rest, save), (words("disk --preset p1 --scale 0.1"), Some("tablet.json".into())));
        assert_eq!(without_save(&words("disk --save=x.json")).unwrap().1, Some("x.json".into()));
        assert!(without_save(&words("disk --save")).is_err());
        assert_eq!(default_name(&session(), &words("disk --preset p1")), "nexus-7-2013-127-0-0-1-5555-disk.json");
    }

    #[test]
    fn a_disk_is_measured_by_a_file_on_the_device() {
        let there = "/data/local/tmp/flashmob.d/results.json";
        let mut expected = words("bench disk /data/local/tmp/flashmob.d/bench --preset p1 --label");
        expected.extend(["Nexus 7 (2013)".to_string(), "--save".into(), there.into()]);
        assert_eq!(on_device(&session(), &words("disk --preset p1"), there), expected);
        let own = on_device(&session(), &words("disk /sdcard/x --label mine"), there);
        assert_eq!(own, words(&format!("bench disk /sdcard/x --label mine --save {there}")));
        let modelled = on_device(&session(), &words("disk --model ufs --label=a"), there);
        assert_eq!(modelled, words(&format!("bench disk --model ufs --label=a --save {there}")));
        assert_eq!(
            on_device(&session(), &words("net --connect 10.0.0.1"), there),
            words(&format!("bench net --connect 10.0.0.1 --save {there}"))
        );
    }
}

//! `flashmob push node` and `push stop`: a node on a device, its forwarded port here, and its end.
//!
//! The node writes to a file there and not to adb's connection, so that it keeps running with `--background`, and its last output remains
//! if it fails.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::adb::{ANSWER_TIMEOUT, quoted, quoted_all};
use super::devices::Attached;
use super::session::{LOOK_AGAIN, Session, Stopped};
use super::{Form, PushNode};

/// Sets the variable `node` to the process id of a node in FOLDER, if it runs. The id alone may belong to another process by now.
pub const NODE_OF: &str = "node=; if [ -f FOLDER/flashmob.d/node.pid ]; then read p <FOLDER/flashmob.d/node.pid; case \"$(cat /proc/$p/cmdline 2>&1)\" in *flashmob*) node=$p;; esac; fi 2>/dev/null";
/// Time limit for a node to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of checks whether a node is alive.
const ALIVE_AGAIN: Duration = Duration::from_secs(1);
/// Time limit for a node to exit on request.
const STOP_SECONDS: u32 = 10;

/// A running node, and how to reach it.
#[derive(Debug, Serialize)]
struct Running {
    serial: String,
    model: Option<String>,
    /// Its address on the device.
    listening: String,
    /// Its address for a gateway on this machine, through adb.
    address: String,
    pid: u32,
}

/// Starts a node on each device, prints how to reach them, and waits for a request to end them.
pub fn run(sessions: &[Session], args: &PushNode) -> anyhow::Result<()> {
    let mut running = Vec::new();
    let started = sessions.iter().try_for_each(|session| {
        running.push((session, start(session, args)?));
        Ok::<(), anyhow::Error>(())
    });
    let outcome = started.and_then(|()| {
        tell(&running, args.output)?;
        if args.background { Ok(()) } else { watch(&running) }
    });
    if args.background && outcome.is_ok() {
        return Ok(());
    }
    for (session, _) in &running {
        // The first error is returned.
        if let Err(error) = stop(session) {
            log::warn!("{error:#}");
        }
    }
    match outcome {
        Err(error) if error.is::<Stopped>() => Ok(()),
        outcome => outcome,
    }
}

fn start(session: &Session, args: &PushNode) -> anyhow::Result<Running> {
    let data = session.kept("node.extent");
    let mut words = vec!["node".to_string(), "--data".into(), data, "--listen".into(), args.listen.clone()];
    if let Some(size) = &args.size {
        words.extend(["--size".into(), size.clone()]);
    }
    let token = session.kept("token");
    let sent = match &args.token_file {
        None => Ok(()),
        Some(here) => {
            words.extend(["--token-file".into(), token.clone()]);
            session.send(here, &token)
        }
    };
    words.extend(args.extra.iter().cloned());
    let started = sent.and_then(|()| begin(session, &words));
    if args.token_file.is_some() {
        // It was used, or is of no use there. A device that is gone cannot remove it; it ends with its command.
        let _ = session.try_shell(&format!("rm -f {}", quoted(&token)));
    }
    let (listening, pid) = started?;
    let address = forward(session, &listening)?;
    let (serial, model) = (session.device.serial.clone(), session.properties.model.clone());
    Ok(Running { serial, model, listening, address, pid })
}

/// Starts it, and waits until it is ready; returns its address and process id.
fn begin(session: &Session, words: &[String]) -> anyhow::Result<(String, u32)> {
    let folder = quoted(&session.folder);
    let before = format!(
        "{NODE_OF}\n[ -z \"$node\" ] || {{ echo \"a node is already running as process $node; stop it with: flashmob push stop\"; exit 1; }}\n\
         cd FOLDER/flashmob.d && rm -f node.log"
    )
    .replace("FOLDER", &folder);
    // The node must not get the hangup of a terminal, which old devices have.
    let script = format!(
        "{before} && {{ trap '' HUP; {program} {words} >node.log 2>&1 </dev/null & echo $! >node.pid; }}",
        program = session.program(),
        words = quoted_all(words),
    );
    session.shell(&format!("( {script}\n)"))?;
    ready(session)
}

/// Waits until it serves; returns its address and process id.
fn ready(session: &Session) -> anyhow::Result<(String, u32)> {
    let deadline = Instant::now() + READY_TIMEOUT;
    let mut told: Option<String> = None;
    let script = format!("{NODE_OF}\necho \"node=$node\"; cat FOLDER/flashmob.d/node.log")
        .replace("FOLDER", &quoted(&session.folder));
    loop {
        let text = session.shell(&script)?;
        let (first, log) = text.split_once('\n').unwrap_or((&text, ""));
        let pid = first.strip_prefix("node=").and_then(|pid| pid.parse().ok());
        if let (Some(listening), Some(pid)) = (listening_on(log), pid) {
            return Ok((listening, pid));
        }
        // Somebody compares digits at the gateway.
        let waits = waiting_digits(log);
        if let Some(digits) = waits.filter(|digits| told.as_deref() != Some(digits)) {
            log::info!("{}: the gateway must show these six digits for it:", session.name());
            log::info!("{digits}");
            told = Some(digits.to_string());
        }
        let late = Instant::now() >= deadline && waits.is_none();
        if pid.is_none() || late || session.stopping() {
            // It must not start later.
            let _ = stop(session);
            anyhow::ensure!(!session.stopping(), Stopped);
            let why = if late { "was not ready in time" } else { "exited immediately" };
            anyhow::bail!("{}: the node {why}; its output:\n{}", session.name(), last_words(log));
        }
        std::thread::sleep(LOOK_AGAIN * 5);
    }
}

/// The six digits that a node shows, if it waits for somebody to compare them: they are alone in a line, and those of its last connection.
fn waiting_digits(log: &str) -> Option<&str> {
    let mut digits = None;
    for line in log.lines() {
        let Some((_, text)) = line.split_once("] ").filter(|_| line.starts_with('[')) else { continue };
        let is_digits = |(at, byte): (usize, u8)| if at == 3 { byte == b' ' } else { byte.is_ascii_digit() };
        if text.len() == 7 && text.bytes().enumerate().all(is_digits) {
            digits = Some(text);
        } else if text.ends_with("; trying again until Ctrl-C") {
            digits = None;
        }
    }
    digits
}

/// The address in a node's log.
fn listening_on(log: &str) -> Option<String> {
    let address = log.split_once("ready, listening on ")?.1.split_whitespace().next()?;
    address.parse::<std::net::SocketAddr>().ok().map(|address| address.to_string())
}

/// The end of a log, indented.
fn last_words(log: &str) -> String {
    let lines: Vec<_> = log.lines().map(crate::commands::tell::harmless).collect();
    lines[lines.len().saturating_sub(10)..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Forwards a port of this machine to the node's.
fn forward(session: &Session, listening: &str) -> anyhow::Result<String> {
    let port = listening.rsplit(':').next().unwrap_or_default();
    let text = session.adb.text(session.adb_args(["forward", "tcp:0", &format!("tcp:{port}")]), ANSWER_TIMEOUT)?;
    let here: u16 = text.trim().parse().map_err(|_| {
        anyhow::anyhow!(
            "{}: adb did not report the forwarded port ('{}'); use a newer adb",
            session.name(),
            text.trim()
        )
    })?;
    Ok(format!("127.0.0.1:{here}"))
}

fn tell(running: &[(&Session, Running)], form: Form) -> anyhow::Result<()> {
    if form == Form::Json {
        let nodes: Vec<_> = running.iter().map(|(_, node)| node).collect();
        println!("{}", serde_json::to_string_pretty(&nodes)?);
        return Ok(());
    }
    println!("# For cluster.toml, while these devices are attached over adb:");
    for (session, node) in running {
        println!("[[volume.node]]\naddress = \"{}\"   # {}", node.address, session.name());
    }
    Ok(())
}

/// Until Ctrl-C, or until a node exits.
fn watch(running: &[(&Session, Running)]) -> anyhow::Result<()> {
    log::info!(
        "{} on adb; Ctrl-C ends {}",
        if running.len() == 1 { "a node" } else { "nodes" },
        if running.len() == 1 { "it" } else { "them" }
    );
    loop {
        for (session, node) in running {
            let script = format!("{NODE_OF}\n[ -n \"$node\" ] && echo alive || cat FOLDER/flashmob.d/node.log")
                .replace("FOLDER", &quoted(&session.folder));
            let text = session.shell(&script)?;
            anyhow::ensure!(
                text.trim() == "alive",
                "{}: the node (process {}) exited; its last output:\n{}",
                session.name(),
                node.pid,
                last_words(&text)
            );
        }
        let again = Instant::now() + ALIVE_AGAIN;
        while Instant::now() < again {
            anyhow::ensure!(!running.iter().any(|(session, _)| session.stopping()), Stopped);
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Ends the node on a device, by force if necessary, and removes its forwarded port. True if there was one.
pub fn stop(session: &Session) -> anyhow::Result<bool> {
    let script = format!(
        "{NODE_OF}\n[ -n \"$node\" ] || {{ rm -f FOLDER/flashmob.d/node.pid; echo none; exit 0; }}\n\
         kill -TERM $node; left={STOP_SECONDS}\n\
         while {NODE_OF}; [ -n \"$node\" ] && [ $left -gt 0 ]; do left=$((left - 1)); sleep 1; done\n\
         [ -z \"$node\" ] || {{ kill -KILL $node; echo killed; }}\n\
         rm -f FOLDER/flashmob.d/node.pid; cat FOLDER/flashmob.d/node.log"
    )
    .replace("FOLDER", &quoted(&session.folder));
    let text = session.shell(&format!("( {script}\n)"))?;
    if let Some(listening) = listening_on(&text) {
        take_back(session, &listening)?;
    }
    match text.trim() {
        "none" => return Ok(false),
        text if text.starts_with("killed") => {
            log::warn!("{}: the node did not exit within {STOP_SECONDS} s and was killed", session.name())
        }
        _ => log::info!("{}: the node was stopped", session.name()),
    }
    Ok(true)
}

/// Removes forwards to a port of the device.
fn take_back(session: &Session, listening: &str) -> anyhow::Result<()> {
    let list = session.adb.text(["forward", "--list"], ANSWER_TIMEOUT)?;
    for here in forwards(&list, &session.device, listening) {
        session.adb.text(session.adb_args(["forward", "--remove", &here]), ANSWER_TIMEOUT)?;
    }
    Ok(())
}

/// The local ends in `adb forward --list`: lines of SERIAL LOCAL REMOTE.
fn forwards(list: &str, device: &Attached, listening: &str) -> Vec<String> {
    let far = format!("tcp:{}", listening.rsplit(':').next().unwrap_or_default());
    let of_device = |line: &str| {
        let (rest, remote) = line.trim_end().rsplit_once(char::is_whitespace)?;
        let (serial, local) = rest.trim_end().rsplit_once(char::is_whitespace)?;
        (serial.trim_end() == device.serial && remote == far).then(|| local.to_string())
    };
    list.lines().filter_map(of_device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_listens_stands_in_its_log() {
        let log =
            "[2026-11-22T07:00:00Z INFO ] extent 1\n[2026-11-22T07:00:00Z INFO ] ready, listening on 127.0.0.1:7411\n";
        assert_eq!(listening_on(log).as_deref(), Some("127.0.0.1:7411"));
        assert_eq!(listening_on("ready, listening on [::]:7411\n").as_deref(), Some("[::]:7411"));
        assert_eq!(listening_on("ready, listening on 127.0."), None, "half a line");
        assert_eq!(listening_on("error: cannot listen"), None);
    }

    #[test]
    fn digits_are_those_of_a_line_of_their_own() {
        let waits = "[2026-11-22T07:00:00Z INFO ] waiting for confirmation at the gateway, which must show these six digits for this device:\n";
        let digits = |digits: &str| format!("{waits}[2026-11-22T07:00:01Z INFO ] {digits}\n");
        assert_eq!(waiting_digits(&digits("398 978")), Some("398 978"));
        assert_eq!(waiting_digits(&(digits("398 978") + &digits("398 979"))), Some("398 979"));
        let again =
            "[2026-11-22T07:00:02Z WARN ] no answer from 10.0.0.1:7413: end of file; trying again until Ctrl-C\n";
        assert_eq!(waiting_digits(&(digits("398 978") + again)), None);
        for forged in [
            "[2026-11-22T07:00:00Z WARN ] busy;      [t INFO ] waiting for confirmation at the gateway, which must show 442 278 for this device\n",
            "  442 278\n",
            "442 278\n",
            "[2026-11-22T07:00:00Z WARN ] busy: 442 278\n",
        ] {
            assert_eq!(waiting_digits(forged), None, "{forged}");
            assert_eq!(waiting_digits(&(digits("398 978") + forged)), Some("398 978"), "{forged}");
        }
    }

    #[test]
    fn only_the_nodes_own_forward_is_taken_back() {
        let device = Attached { serial: "A".into(), state: "device".into(), model: None };
        let list = "A tcp:40001 tcp:7411\nB tcp:40002 tcp:7411\nA tcp:40003 tcp:9999\n\n";
        assert_eq!(forwards(list, &device, "127.0.0.1:7411"), ["tcp:40001"]);
        assert_eq!(forwards(list, &device, "[::]:7411"), ["tcp:40001"]);
        let device = Attached { serial: "my device (2)".into(), ..device };
        assert_eq!(forwards("my device (2) tcp:40004 tcp:7411\n", &device, "[::]:7411"), ["tcp:40004"]);
    }

    #[test]
    fn a_log_ends_with_its_last_lines() {
        let log = (0..30).map(|i| format!("line {i}\n")).collect::<String>();
        let words = last_words(&log);
        assert!(words.starts_with("  line 20\n") && words.ends_with("  line 29"));
    }
}

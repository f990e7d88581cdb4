//! Two hosts with a modelled path between them: a lab for each path, in which this program is client and server.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use flashmob_core::planted::{self, Bug};
use flashmob_results::net::Point;
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement, merge, read};

use crate::commands::own_runs::{self, Ended};

/// Exit statuses of 'flashmob lab' if the command succeeded but the lab was late, and if it could not be set up.
const STATUS_LATE: i32 = crate::lab::STATUS_LATE as i32;
const STATUS_NO_LAB: i32 = crate::lab::STATUS_IMPOSSIBLE as i32;
/// The first two values of a host's `tcp_rmem` where the third is set: the minimum under memory pressure, and the initial size,
/// unless that exceeds the maximum.
const RECEIVE_MIN_BYTES: u64 = 4_096;
const RECEIVE_DEFAULT_BYTES: u64 = 131_072;
/// The server's address in a lab with one node.
const SERVER: &str = "10.77.0.2";
/// The server's options: only this lab's host reaches it, and the client decides how long a test is.
const SERVE_OPTIONS: &str = "--server --bind 0.0.0.0 --longest 24h";

/// Sets the host's receive maximum if there is one, then runs the command. Its arguments are the three values (or nothing) and the
/// command.
const SERVE: &str = r#"[ -z "$2" ] || echo "$1 $2 $3" >/proc/sys/net/ipv4/tcp_rmem || exit 1; shift 3; exec "$@""#;

/// Runs clients one after the other. A signal stops the running client, which saves its results; a shell alone would let it run on.
const CLIENTS: &str = r#"status=0 stopped= child= capture=
trap 'stopped=1; kill -TERM $child $capture 2>/dev/null' INT TERM
client() {
    "$@" >/dev/null &
    child=$!
    wait $child || status=$?
    [ -z "$stopped" ] || { wait; exit 130; }
}
"#;

/// A path between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct LabPath {
    /// Added round-trip time.
    pub rtt_us: u64,
    /// Packet loss each way, in parts per million.
    pub loss_ppm: u32,
    /// Rate each way.
    pub rate_bits_per_second: u64,
    /// Queue limit at its entry, in packets.
    pub queue_packets: u32,
    /// Maximum of receive buffers in the client's host; `None`: the default.
    pub client_receive_max_bytes: Option<u64>,
    /// The same in the server's host.
    pub server_receive_max_bytes: Option<u64>,
    /// Random seed.
    pub seed: u64,
}

/// A packet capture in the client's host.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its duration.
    pub seconds: f64,
    /// The result's label.
    pub label: String,
    /// The result's file.
    pub save: PathBuf,
}

impl LabPath {
    /// The air profile for the lab.
    #[must_use]
    pub fn air(&self) -> String {
        // Fractions of a microsecond are negligible.
        let (delay_us, loss) = (self.rtt_us / 2, f64::from(self.loss_ppm) / 10_000.0);
        let (rate, queue) = (self.rate_bits_per_second, self.queue_packets);
        format!("wan,rate={rate}bit,delay={delay_us}us,loss={loss}%,queue={queue}")
    }

    /// A description, for progress.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = format!("RTT {} ms", self.rtt_us as f64 / 1e3);
        if self.loss_ppm > 0 {
            words.push_str(&format!(", loss {} %", f64::from(self.loss_ppm) / 1e4));
        }
        words
    }

    /// Arguments with which this program sets up the lab and runs these clients in it, one after the other; each saves to its own file.
    #[must_use]
    pub fn arguments(
        &self,
        program: &Path,
        loads: &[Vec<String>],
        saves: &[PathBuf],
        capture: Option<&Capture>,
    ) -> Vec<String> {
        let program = quoted(&program.display().to_string());
        let serve = format!("{program} --quiet bench net {SERVE_OPTIONS}");
        let mut script = String::from(CLIENTS);
        if let Some(capture) = capture {
            let (seconds, label) = (capture.seconds, quoted(&capture.label));
            let save = quoted(&capture.save.display().to_string());
            script.push_str(&format!(
                "{program} --quiet net analyze --capture air0 --time {seconds} --label {label} --save {save} >/dev/null &\n\
                 capture=$!\nsleep 0.5\n"
            ));
        }
        for (load, save) in loads.iter().zip(saves) {
            let load: Vec<String> = load.iter().map(|word| quoted(word)).collect();
            let save = quoted(&save.display().to_string());
            script.push_str(&format!(
                "client {program} --quiet bench net --connect {SERVER} --wait 10 {} --save {save}\n",
                load.join(" ")
            ));
        }
        script.push_str("wait\nexit $status\n");
        let set = |max: Option<u64>, rest: &str| {
            let max = max.filter(|_| !planted::is(Bug::ReceiveMaxNeverSet));
            let max_text = max.map_or_else(|| "''".to_string(), |max| max.to_string());
            let default = RECEIVE_DEFAULT_BYTES.min(max.unwrap_or(RECEIVE_DEFAULT_BYTES));
            let min = RECEIVE_MIN_BYTES.min(default);
            let values = if max.is_some() { format!("{min} {default} {max_text}") } else { "'' '' ''".to_string() };
            format!("exec sh -c {} sh {values} {rest}", quoted(SERVE))
        };
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let mut arguments = words("--quiet lab run --nodes 1 --no-io --no-gateway --seed");
        arguments.extend([self.seed.to_string(), "--air".into(), self.air()]);
        arguments.extend(["--node-command".into(), set(self.server_receive_max_bytes, &serve)]);
        arguments.extend(["--", "sh", "-c"].map(String::from));
        arguments.push(set(self.client_receive_max_bytes, &format!("sh -c {}", quoted(&script))));
        arguments
    }

    /// Sets up the lab and measures; `None` if it was stopped before there were results.
    pub fn measure(
        &self,
        loads: &[Vec<String>],
        folder: &Path,
        capture: Option<&Capture>,
        stop: &AtomicBool,
        tick: &dyn Fn(),
    ) -> anyhow::Result<Option<Document>> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let saves: Vec<PathBuf> = (0..loads.len()).map(|nth| folder.join(format!("load-{nth}.json"))).collect();
        for save in saves.iter().chain(capture.map(|capture| &capture.save)) {
            // A file of an earlier run must not be taken for this one's.
            let _ = std::fs::remove_file(save);
        }
        let ended = own_runs::run(&self.arguments(&program, loads, &saves, capture), stop, tick)?;
        let mut parts = Vec::new();
        for save in saves.iter().filter(|save| save.exists()) {
            parts.push(self.completed(read::file(save)?));
        }
        self.judge(&ended, parts.len() == loads.len())?;
        if parts.is_empty() {
            return Ok(None);
        }
        Ok(Some(merge::nets(parts)?))
    }

    /// Adds what the client could not know: the hosts' settings.
    fn completed(&self, mut document: Document) -> Document {
        document.seed = self.seed;
        // Each client warns that its path was modelled: here each point has its path.
        document.warnings.retain(|warning| warning.code != Code::Modelled);
        document.warnings.push(modelled());
        if let Measurement::Net(net) = &mut document.measurement {
            let points = std::mem::take(&mut net.points);
            net.points = points.into_iter().map(|point| self.of_path(point)).collect();
        }
        document
    }

    fn of_path(&self, mut point: Point) -> Point {
        point.parameters.client_receive_max_bytes = self.client_receive_max_bytes;
        point.parameters.server_receive_max_bytes = self.server_receive_max_bytes;
        point
    }

    fn judge(&self, ended: &Ended, all: bool) -> anyhow::Result<()> {
        let Ended { status, said, was_stopped } = ended;
        // Late repetitions are void, and marked as such.
        if *was_stopped || (all && [Some(0), Some(STATUS_LATE)].contains(&status.code())) {
            return Ok(());
        }
        let remedy = match status.code() {
            Some(STATUS_NO_LAB) => {
                "the lab could not be created: it needs root, or a system that allows user namespaces"
            }
            _ => "run 'flashmob lab run -- true' to test whether a lab can be created here",
        };
        if all {
            log::warn!("{}: {status}; keeping what it measured. Its output:\n       {said}", self.words());
            return Ok(());
        }
        bail!(
            "{} ended with {status} before everything was measured; {remedy}. Its output:\n       {said}",
            self.words()
        )
    }
}

/// The warning that a path was modelled.
#[must_use]
pub fn modelled() -> Warning {
    Warning::new(Code::Modelled, "modelled: the path between the hosts, by 'wan'; TCP and the programs were real")
}

/// Quoted as one shell word.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> LabPath {
        LabPath {
            rtt_us: 16_000,
            loss_ppm: 1_000,
            rate_bits_per_second: 11_000_000,
            queue_packets: 100,
            client_receive_max_bytes: Some(24_576),
            server_receive_max_bytes: None,
            seed: 7,
        }
    }

    #[test]
    fn a_path_is_an_air_that_the_lab_knows() {
        assert_eq!(path().air(), "wan,rate=11000000bit,delay=8000us,loss=0.1%,queue=100");
        let profile = flashmob_lab::air::Profile::parse(&path().air()).unwrap();
        assert_eq!(profile.name, "wan,rate=11Mbit,delay=8ms,loss=0.1%,queue=100");
        assert_eq!(path().words(), "RTT 16 ms, loss 0.1 %");
    }

    #[test]
    fn words_of_a_shell_stay_one_word_each() {
        for word in ["", "a b", "it's", "$HOME `x` \"y\"", "'"] {
            let echoed =
                std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output().unwrap();
            assert_eq!(String::from_utf8(echoed.stdout).unwrap(), word);
        }
    }

    #[test]
    fn maxima_are_set_in_the_host_that_has_one() {
        let save = [PathBuf::from("/tmp/x y.json")];
        let arguments = path().arguments(Path::new("/bin/flashmob"), &[vec!["--udp".into()]], &save, None);
        let node = &arguments[arguments.iter().position(|a| a == "--node-command").unwrap() + 1];
        let client = arguments.last().unwrap();
        assert!(
            node.contains("sh '' '' '' '/bin/flashmob' --quiet bench net --server --bind 0.0.0.0 --longest 24h"),
            "{node}"
        );
        assert!(client.contains("sh 4096 24576 24576 sh -c "), "{client}");
        assert!(client.contains("--udp") && client.contains("/tmp/x y.json"), "{client}");
    }
}

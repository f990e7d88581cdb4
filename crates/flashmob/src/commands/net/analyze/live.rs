//! Packets of an interface, captured by tcpdump: the first bytes and the length of each, until the time is over or a signal.
//!
//! It sends no packets, and keeps only their headers.

use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow};
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_flows::packet::{self, LinkType, Packet};
use flashmob_flows::reader::{CaptureReader, Frame};
use flashmob_flows::writer::CaptureWriter;
use flashmob_flows::{Analyzer, Limits};
use rustix::process::{Pid, Signal, kill_process};

use super::{AnalyzeArgs, Heard};
use crate::commands::tell;
use crate::commands::whole_file::WholeFile;
use crate::process::end_with_parent;

/// Bytes kept of a packet: headers of Ethernet, IPv6 and TCP with all options, and some extension headers.
const KEPT_BYTES: u32 = 160;
/// Buffer of the kernel, in KiB: some 30,000 packets.
const BUFFER_KIB: u32 = 8 << 10;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Captures on `interface`, and analyses what was captured.
///
/// # Errors
/// tcpdump is not installed, not permitted, or does not know the interface; the packets cannot be written.
pub(super) fn listen(args: &AnalyzeArgs, interface: &str, limits: Limits) -> anyhow::Result<Heard> {
    // First, so that an early signal ends the capture, not this program.
    let cancel = tell::on_signal()?;
    let mut keeper = args.write.as_deref().map(Keeper::begin).transpose()?;
    let mut child = start(interface)?;
    let (mut said, mut words) = (BufReader::new(child.stderr.take().context("no stderr")?), Vec::new());
    // It reports that it listens, or why it cannot.
    while !String::from_utf8_lossy(&words).contains("listening on") {
        if said.read_until(b'\n', &mut words)? == 0 {
            let status = child.wait()?;
            return Err(refused(interface, &String::from_utf8_lossy(&words), status));
        }
    }
    log::info!("capturing on {interface}; Ctrl-C ends it");
    let said = std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = said.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    });
    let mut analyzer = Analyzer::new(limits);
    analyzer.only_port(args.filter_port);
    let mut unwritten = None;
    let outcome = while_it_runs(&mut child, args.time, &cancel, |packets| {
        let mut reader = CaptureReader::open(packets)?;
        loop {
            let is_more = reader.next_with(|frame| {
                if args.filter_port.is_none_or(|port| concerns(&packet::read(&frame, 0, 0), port)) {
                    analyzer.take(&frame);
                    if let Some(Err(error)) = keeper.as_mut().map(|keeper| keeper.packet(interface, &frame)) {
                        log::error!("{error:#}; the analysis goes on without the file");
                        (unwritten, keeper) = (Some(error), None);
                    }
                }
            });
            if !is_more {
                return Ok(());
            }
        }
    });
    if outcome.is_err() {
        // It may have exited already.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let said = said.join().unwrap_or_default();
    outcome.with_context(|| format!("capturing on {interface} failed: {}", said.trim()))?;
    let lost_packets = dropped(&said).unwrap_or(0);
    if let Some(Err(error)) = keeper.map(|keeper| keeper.end(interface, lost_packets)) {
        unwritten = Some(error);
    }
    Ok(Heard {
        source: interface.to_string(),
        form: "interface",
        summary: analyzer.finish(),
        lost_packets: Some(lost_packets),
        ended_by: (!status.success()).then(|| format!("tcpdump ended with {status}: {}", said.trim())),
        is_interrupted: args.time.is_some() && cancel.load(Ordering::Relaxed),
        // The lab sets this variable for its commands.
        is_modelled: std::env::var_os("FLASHMOB_LAB").is_some(),
        unwritten,
    })
}

/// # Errors
/// tcpdump cannot be run; with a remedy.
pub fn check_tcpdump() -> anyhow::Result<()> {
    spawn(Command::new("tcpdump").arg("--version"))?.wait()?;
    Ok(())
}

/// Starts the capture. In immediate mode the kernel holds back no packets at the end.
fn start(interface: &str) -> anyhow::Result<Child> {
    let mut command = Command::new("tcpdump");
    command.args(["-n", "-i", interface, "-w", "-", "--immediate-mode", "--time-stamp-precision=nano"]);
    command.args(["-s", &KEPT_BYTES.to_string(), "-B", &BUFFER_KIB.to_string()]);
    if rustix::process::geteuid().is_root() {
        // A lab's user namespace has no other user to change to.
        command.args(["-Z", "root"]);
    }
    // Ctrl-C goes to this program, which then ends the capture properly; and the capture ends with this program.
    command.process_group(0);
    end_with_parent(&mut command);
    spawn(&mut command)
}

fn spawn(tcpdump: &mut Command) -> anyhow::Result<Child> {
    tcpdump.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    tcpdump.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "--capture needs tcpdump, which is not installed (Debian, Ubuntu: apt install tcpdump); or capture elsewhere: \
             tcpdump -s 128 -w capture.pcap, then here: flashmob net analyze capture.pcap"
        ),
        _ => anyhow!("cannot run tcpdump: {error}"),
    })
}

/// Why tcpdump does not listen, with a remedy.
fn refused(interface: &str, said: &str, status: ExitStatus) -> anyhow::Error {
    let said = said.trim().replace('\n', " ");
    if said.contains("Couldn't change to") {
        return anyhow!(
            "tcpdump cannot change its user in the lab of an ordinary user; run the lab with sudo, or capture outside of it ({said})"
        );
    }
    if said.contains("permission") || said.contains("not permitted") {
        return anyhow!(
            "capturing on {interface} needs root or CAP_NET_RAW; run it with sudo, or: \
             sudo tcpdump -i {interface} -s 128 -w capture.pcap, then: flashmob net analyze capture.pcap ({said})"
        );
    }
    if said.contains("No such device") {
        let listed = std::fs::read_dir("/sys/class/net").map(|folder| {
            folder.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        });
        let mut names = listed.unwrap_or_default();
        names.sort();
        return anyhow!(
            "no interface '{interface}'; the interfaces are: {} ('tcpdump -D' lists them)",
            names.join(", ")
        );
    }
    anyhow!("cannot capture on {interface}: tcpdump ended with {status}: {said}")
}

/// Reads its capture with `read`, and interrupts it after `time` or on a signal.
fn while_it_runs(
    child: &mut Child,
    time: Option<Duration>,
    cancel: &AtomicBool,
    read: impl FnOnce(ChildStdout) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (pid, begun, done) = (Pid::from_child(child), Instant::now(), AtomicBool::new(false));
    let packets = child.stdout.take().context("no stdout")?;
    let is_over = || time.is_some_and(|time| begun.elapsed() >= time) || cancel.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut line = time.map(|_| ProgressLine::new("capturing"));
            while !is_over() && !done.load(Ordering::Relaxed) {
                if let (Some(line), Some(time)) = (&mut line, time) {
                    line.show(&Progress { done: ms(begun.elapsed()), total: ms(time), unit: Unit::Milliseconds });
                }
                std::thread::sleep(LOOK_EVERY);
            }
            if !done.load(Ordering::Relaxed) {
                // It was not reaped yet, so its process id is still its own.
                let _ = kill_process(pid, Signal::INT);
            }
        });
        let outcome = read(packets);
        done.store(true, Ordering::Relaxed);
        outcome
    })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// True for TCP of this port, and for fragments, of which only the first has a port.
fn concerns(packet: &Packet<'_>, port: u16) -> bool {
    match packet {
        Packet::Tcp(segment) => segment.from.port() == port || segment.to.port() == port,
        Packet::Fragment(_) => true,
        Packet::Other(_) | Packet::Unreadable(_) => false,
    }
}

/// Packets that the kernel dropped, as tcpdump reports at its end.
fn dropped(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("dropped by kernel"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The packets, in a file that appears when it is complete.
struct Keeper {
    file: Option<WholeFile>,
    /// From the first packet on, which determines the link type.
    writer: Option<CaptureWriter<BufWriter<WholeFile>>>,
    refused: String,
}

impl Keeper {
    fn begin(path: &std::path::Path) -> anyhow::Result<Keeper> {
        let refused = format!("cannot write packets to {}", path.display());
        let file = WholeFile::create(path).with_context(|| refused.clone())?;
        Ok(Keeper { file: Some(file), writer: None, refused })
    }

    fn writer(&mut self, interface: &str, link: LinkType) -> anyhow::Result<&mut CaptureWriter<BufWriter<WholeFile>>> {
        if let Some(file) = self.file.take() {
            let begun = CaptureWriter::begin(BufWriter::new(file), link, interface, KEPT_BYTES);
            self.writer = Some(begun.with_context(|| self.refused.clone())?);
        }
        self.writer.as_mut().with_context(|| self.refused.clone())
    }

    fn packet(&mut self, interface: &str, frame: &Frame<'_>) -> anyhow::Result<()> {
        let outcome = self.writer(interface, frame.link)?.packet(frame);
        outcome.with_context(|| self.refused.clone())
    }

    fn end(mut self, interface: &str, lost_packets: u64) -> anyhow::Result<()> {
        let now_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        self.writer(interface, LinkType::ETHERNET)?;
        let refused = || self.refused.clone();
        let writer = self.writer.take().with_context(refused)?;
        let out = writer.end(lost_packets, i64::try_from(now_ns).unwrap_or(i64::MAX)).with_context(refused)?;
        let file = out.into_inner().map_err(|error| error.into_error()).with_context(refused)?;
        file.finish().with_context(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_remedies_and_losses_are_read() {
        let refused = |interface, said| refused(interface, said, ExitStatus::default());
        let not_permitted =
            refused("lo", "tcpdump: lo: You don't have permission to perform this capture on that device\n");
        assert!(not_permitted.to_string().contains("sudo tcpdump -i lo"), "{not_permitted}");
        let in_lab = refused("air0", "tcpdump: Couldn't change to 'root' uid=0 gid=0: Operation not permitted\n");
        assert!(in_lab.to_string().contains("run the lab with sudo"), "{in_lab}");
        let absent = refused("absent0", "tcpdump: absent0: No such device exists\n(No such device exists)\n");
        assert!(absent.to_string().starts_with("no interface 'absent0'; the interfaces are: "), "{absent}");
        assert_eq!(
            dropped("9 packets captured\n12 packets received by filter\n3 packets dropped by kernel\n"),
            Some(3)
        );
        assert_eq!(dropped("tcpdump: killed\n"), None);
    }
}

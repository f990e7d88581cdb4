//! What the kernel counts: processor time and memory of processes, segments of TCP.

use std::time::Duration;

/// Processor time and memory of some processes together with their descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system, of descendants that have ended as well.
    pub cpu: Duration,
    /// Of the largest process alone.
    pub rss: Rss,
}

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// Its own.
    pub anon_bytes: u64,
    /// Pages of files, which the system may take back.
    pub file_bytes: u64,
}

impl Rss {
    /// The larger of each.
    pub fn max(self, other: Rss) -> Rss {
        Rss { anon_bytes: self.anon_bytes.max(other.anon_bytes), file_bytes: self.file_bytes.max(other.file_bytes) }
    }
}

/// What the processes have used so far. Those that are gone count nothing.
pub fn usage(pids: &[u32]) -> Usage {
    let mut usage = Usage::default();
    for &root in pids {
        let mut tree = vec![root];
        while let Some(pid) = tree.pop() {
            tree.extend(children(pid));
            let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            usage.cpu += cpu_of(pid) + reaped_cpu(&read("stat"), ticks_per_second());
            usage.rss = usage.rss.max(rss(&read("status")));
        }
    }
    usage
}

fn children(pid: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    children
}

/// Processor time of a process with all its threads, also those that have ended, to the nanosecond:
/// /proc/PID/stat counts in hundredths of a second, too coarse for eight nodes and half a second.
fn cpu_of(pid: u32) -> Duration {
    // How Linux encodes the clock of another process: clock_getcpuclockid(3) computes the same.
    const SCHED: libc::clockid_t = 2;
    let Ok(pid) = libc::clockid_t::try_from(pid) else { return Duration::ZERO };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing a timespec; the call does nothing else, and fails for a clock it does
    // not know. The reason for it: no safe wrapper offers clocks of other processes.
    let failed = unsafe { libc::clock_gettime((!pid) << 3 | SCHED, &raw mut time) } != 0;
    if failed {
        return Duration::ZERO;
    }
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of programs that this one has run to their end.
pub fn cpu_of_ended_children() -> Duration {
    reaped_cpu(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default(), ticks_per_second())
}

fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

/// Processor time of children that were waited for, out of /proc/PID/stat.
fn reaped_cpu(stat: &str, ticks_per_second: u64) -> Duration {
    // The name may hold blanks and parentheses; what follows its last parenthesis begins with field 3.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_nanos(ticks * 1_000_000_000 / ticks_per_second)
}

fn rss(status: &str) -> Rss {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    Rss {
        anon_bytes: field("RssAnon").unwrap_or(0) * 1024,
        file_bytes: (field("RssFile").unwrap_or(0) + field("RssShmem").unwrap_or(0)) * 1024,
    }
}

/// TCP segments sent so far by the whole machine.
pub fn segments_sent() -> Option<u64> {
    out_segments(&std::fs::read_to_string("/proc/net/snmp").ok()?)
}

fn out_segments(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split_whitespace().position(|name| name == "OutSegs")?;
    values.split_whitespace().nth(column)?.parse().ok()
}

/// Bytes that programs could still take.
pub fn memory_available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The processor's name.
pub fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    model.map_or("unknown processor", |(_, name)| name.trim()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_have_ended_are_counted_whatever_the_name() {
        let stat = "42 (a (odd) name) S 1 2 3 4 5 6 7 8 9 10 100 200 30 7 20 0 1 0 999 1000 5";
        assert_eq!(reaped_cpu(stat, 100), Duration::from_millis(370));
        assert_eq!(reaped_cpu("", 100), Duration::ZERO);
    }

    #[test]
    fn resident_memory_is_split() {
        let status = "Name:\tx\nVmRSS:\t    50 kB\nRssAnon:\t    30 kB\nRssFile:\t    16 kB\nRssShmem:\t     4 kB\n";
        assert_eq!(rss(status), Rss { anon_bytes: 30 << 10, file_bytes: 20 << 10 });
        assert_eq!(rss(""), Rss::default());
    }

    #[test]
    fn segments_are_found_by_their_column() {
        let snmp = "Ip: Forwarding OutSegs\nIp: 1 7\nTcp: RtoAlgorithm InSegs OutSegs RetransSegs\nTcp: 1 500 612 3\n";
        assert_eq!(out_segments(snmp), Some(612));
        assert_eq!(out_segments("Tcp: InSegs\nTcp: 5\n"), None);
    }

    #[test]
    fn our_own_use_is_seen() {
        let before = usage(&[std::process::id()]);
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {
            std::hint::black_box(begun.elapsed());
        }
        let after = usage(&[std::process::id()]);
        assert!(after.cpu - before.cpu >= Duration::from_millis(2), "{before:?} {after:?}");
        assert!(after.rss.anon_bytes > 0);
        assert!(segments_sent().is_some() && memory_available_bytes().is_some());
    }
}

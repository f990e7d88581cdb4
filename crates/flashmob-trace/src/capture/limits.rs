//! Memory limits of a session, in this process and in the kernel, and the threads it traces initially.

use super::Wanted;

/// Holds more than a second of events of the fastest workloads seen.
const BUFFER_BYTES: u64 = 8 << 20;
/// With less, a burst of events is lost before the reader wakes.
const BUFFER_BYTES_MIN: u64 = 256 << 10;
/// The default limit on a capture.
const MEMORY_BYTES: u64 = 1 << 30;

/// Bytes of the kernel's buffer, per CPU and instance.
pub fn buffer_bytes(wanted: &Wanted, instances: usize) -> u64 {
    if wanted.buffer_bytes > 0 {
        return wanted.buffer_bytes;
    }
    // On a small device the buffers of all CPUs together must leave memory for the traced workload.
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    (free_memory_bytes() / 8 / processors / instances as u64).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES)
}

/// Bytes of captured pages.
pub fn memory_bytes(wanted: &Wanted) -> u64 {
    if wanted.memory_bytes > 0 { wanted.memory_bytes } else { (free_memory_bytes() / 2).min(MEMORY_BYTES) }
}

/// `MemAvailable`; `u64::MAX` if the kernel does not report it.
fn free_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}

/// Threads to trace. If children are followed, a process id includes all its threads; except of this process, where one thread is the reader.
pub fn threads(wanted: &Wanted) -> Vec<u32> {
    let all = |id: &u32| if wanted.follow_children { threads_of(*id) } else { vec![*id] };
    wanted.threads.iter().flat_map(all).collect()
}

fn threads_of(id: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    if id == std::process::id() || process != Some(id) {
        return vec![id];
    }
    let entries = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let threads: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if threads.is_empty() { vec![id] } else { threads }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wished_counts_and_else_what_is_free() {
        let wished = Wanted { buffer_bytes: 4096, memory_bytes: 5, ..Wanted::default() };
        assert_eq!((buffer_bytes(&wished, 2), memory_bytes(&wished)), (4096, 5));
        let (buffer, memory) = (buffer_bytes(&Wanted::default(), 2), memory_bytes(&Wanted::default()));
        assert!((BUFFER_BYTES_MIN..=BUFFER_BYTES).contains(&buffer) && memory <= MEMORY_BYTES, "{buffer} {memory}");
    }

    #[test]
    fn a_process_means_its_threads_but_not_this_one() {
        let own = std::process::id();
        for follow_children in [false, true] {
            let wanted = Wanted { threads: vec![own, 4_194_305], follow_children, ..Wanted::default() };
            assert_eq!(threads(&wanted), [own, 4_194_305]);
        }
    }
}

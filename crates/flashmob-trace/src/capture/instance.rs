//! A tracefs instance: a ring buffer with its own events and filters.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::tracefs::{self, Tracefs};

/// Fill level at which readers are woken. The rest absorbs events until the reader runs.
const WAKE_PERCENT: u32 = 50;
/// Smallest useful buffer.
const BUFFER_BYTES_MIN: u64 = 64 << 10;

/// An instance; removed on drop.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    /// Per CPU.
    buffer_bytes: u64,
}

/// Losses of one CPU's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events dropped or overwritten.
    pub lost: u64,
    /// Events not read yet.
    pub unread: u64,
}

impl Instance {
    /// Creates a stopped instance on CLOCK_MONOTONIC, with the largest buffer that the kernel grants, up to `buffer_bytes` per CPU.
    pub fn create(tracefs: &Tracefs, name: &str, buffer_bytes: u64) -> Result<Instance, String> {
        let path = tracefs.instances().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("no instance can be made: {}", tracefs::words(&error)))?;
        let mut instance = Instance { path, buffer_bytes };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "mono").map_err(|why| {
            format!("the kernel cannot trace on CLOCK_MONOTONIC, so times could not be compared: {why}")
        })?;
        instance.set_buffer()?;
        // Drop new events when full, so that the capture is complete up to a point in time. Command names are not needed.
        for (file, value) in [("options/overwrite", "0"), ("options/record-cmd", "0")] {
            let _ = instance.set(file, value);
        }
        // Since Linux 4.20. Older kernels wake readers at every event; the reader pauses by itself.
        let _ = instance.set("buffer_percent", &WAKE_PERCENT.to_string());
        Ok(instance)
    }

    fn set_buffer(&mut self) -> Result<(), String> {
        loop {
            let kib = self.buffer_bytes.div_ceil(1024).max(1);
            match tracefs::write(&self.path.join("buffer_size_kb"), &kib.to_string()) {
                Ok(()) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && self.buffer_bytes > BUFFER_BYTES_MIN => {
                    self.buffer_bytes /= 2;
                }
                Err(error) => return Err(format!("no buffer of {kib} KiB: {}", tracefs::words(&error))),
            }
        }
    }

    pub fn set(&self, file: &str, value: &str) -> Result<(), String> {
        tracefs::write(&self.path.join(file), value).map_err(|error| format!("{file}: {}", tracefs::words(&error)))
    }

    /// Adds a thread to trace.
    pub fn add_thread(&self, thread: u32) -> io::Result<()> {
        tracefs::append(&self.path.join("set_event_pid"), &thread.to_string())
    }

    /// Whether tracing is limited to some threads.
    pub fn follows_any(&self) -> bool {
        std::fs::read_to_string(self.path.join("set_event_pid"))
            .is_ok_and(|text| text.contains(|c: char| c.is_ascii_digit()))
    }

    pub fn has(&self, system: &str, name: &str) -> bool {
        self.event(system, name).is_dir()
    }

    /// The kernel's format file of an event.
    pub fn format_text(&self, system: &str, name: &str) -> Result<String, String> {
        tracefs::read(&self.event(system, name).join("format")).map_err(|error| tracefs::words(&error))
    }

    /// Enables an event, with a filter if one is given.
    pub fn enable(&self, system: &str, name: &str, filter: Option<&str>) -> Result<(), String> {
        let event = self.event(system, name);
        if let Some(filter) = filter {
            tracefs::write(&event.join("filter"), filter)
                .map_err(|error| format!("the kernel refuses the filter '{filter}': {}", tracefs::words(&error)))?;
        }
        tracefs::write(&event.join("enable"), "1").map_err(|error| tracefs::words(&error))
    }

    /// Numbers of the CPUs that have buffers.
    pub fn cpus(&self) -> Vec<u32> {
        let entries = std::fs::read_dir(self.path.join("per_cpu")).into_iter().flatten().flatten();
        let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("cpu")?.parse().ok();
        let mut cpus: Vec<u32> = entries.filter_map(|entry| number(entry.file_name())).collect();
        cpus.sort_unstable();
        cpus
    }

    /// A CPU's buffer; reads do not block.
    pub fn raw(&self, cpu: u32) -> Result<File, String> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        file.map_err(|error| format!("{}: {}", path.display(), tracefs::words(&error)))
    }

    pub fn stats(&self, cpu: u32) -> Stats {
        let text = tracefs::read(&self.path.join(format!("per_cpu/cpu{cpu}/stats"))).unwrap_or_default();
        stats(&text)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    fn event(&self, system: &str, name: &str) -> PathBuf {
        self.path.join("events").join(system).join(name)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        if let Err(error) = std::fs::remove_dir(&self.path) {
            // Usually a traced program that is still running has the marker open. The guardian retries, then the next run.
            log::warn!("cannot remove {} yet: {error}", self.path.display());
        }
    }
}

fn stats(text: &str) -> Stats {
    let mut stats = Stats::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        match key {
            "overrun" | "commit overrun" | "dropped events" => stats.lost += value,
            "entries" => stats.unread = value,
            _ => {}
        }
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_every_sort_count() {
        let text = "entries: 7\noverrun: 1\ncommit overrun: 2\nbytes: 52\noldest event ts:     0.000000\nnow ts: 3.85\ndropped events: 4\nread events: 9\n";
        assert_eq!(stats(text), Stats { lost: 7, unread: 7 });
        assert_eq!(stats(""), Stats::default());
    }
}

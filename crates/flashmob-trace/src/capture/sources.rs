//! The sources of a capture, and their missing events.

use flashmob_results::trace::{Layer, Source};

pub fn layers(system: &str) -> Vec<Layer> {
    match system {
        "syscalls" | "raw_syscalls" => vec![Layer::SystemCall],
        "filemap" | "writeback" | "pagemap" | "compaction" => vec![Layer::PageCache],
        "block" => vec![Layer::Block, Layer::Driver],
        "mmc" | "scsi" | "ufs" | "nvme" | "libata" | "virtio" | "virtio_blk" | "nbd" | "mtd" | "ubi" => {
            vec![Layer::Driver]
        }
        "sched" => vec![Layer::Processor],
        "sock" | "tcp" | "net" | "skb" => vec![Layer::Link],
        // All other systems in the table of layers are file systems and their journals.
        _ => vec![Layer::FileSystem],
    }
}

/// Used and missing events per system, in the order of [`super::Wanted::events`].
#[derive(Debug, Default)]
pub struct Tally {
    systems: Vec<System>,
}

#[derive(Debug)]
struct System {
    name: String,
    used: usize,
    missing: Vec<String>,
    notes: Vec<String>,
}

impl Tally {
    fn system(&mut self, name: &str) -> &mut System {
        let at = self.systems.iter().position(|system| system.name == name).unwrap_or_else(|| {
            self.systems.push(System { name: name.into(), used: 0, missing: Vec::new(), notes: Vec::new() });
            self.systems.len() - 1
        });
        &mut self.systems[at]
    }

    pub fn used(&mut self, system: &str) {
        self.system(system).used += 1;
    }

    pub fn missing(&mut self, system: &str, name: &str) {
        self.system(system).missing.push(name.into());
    }

    /// Adds a note about a system, once.
    pub fn note(&mut self, system: &str, note: String) {
        let notes = &mut self.system(system).notes;
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    pub fn sources(self) -> Vec<Source> {
        self.systems.into_iter().map(System::source).collect()
    }
}

impl System {
    fn source(self) -> Source {
        let System { name, used, missing, notes } = self;
        let mut why = notes;
        if used == 0 && !missing.is_empty() {
            why.push(format!(
                "the kernel has none of its events ({}); load the module {name} if it is built as one (modprobe {name}), or use another kernel",
                missing.join(", ")
            ));
        } else if !missing.is_empty() {
            why.push(format!("the kernel lacks {}; another kernel may have it", missing.join(", ")));
        }
        Source { layers: layers(&name), name, is_used: used > 0, why: (!why.is_empty()).then(|| why.join("; ")) }
    }
}

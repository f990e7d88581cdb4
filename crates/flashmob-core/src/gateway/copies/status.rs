//! What is told of a volume's copies.

use super::Copies;
use crate::counters::counters;

counters! {
    /// Counters of a volume's copies since the gateway's start.
    pub struct CopiesCounters {
        evictions: "Times that a node was put out because it left I/O unanswered",
        evicted_copies: "Copies of chunks that were declared behind",
        resynced: "Times that copies of a chunk were made current again",
        compared: "Chunks whose copies were compared because they might have differed",
        copied_bytes: "Bytes that were copied to make copies equal",
        settled: "Chunks that were settled: idle, and permanent on all current copies",
        reboots: "Restarts of nodes' devices that were noticed",
        failed_copies: "Changes, flushes and comparisons that one copy failed",
        jobs_given_up: "Comparisons and resyncs that were broken off",
        held_answers: "Reads whose answer waited for changes of the same bytes",
        rereads: "Reads that were repeated on another copy or after a comparison",
        rerouted_reads: "Reads that were sent to another copy because a node was lost",
    }
}

/// The state of a volume's copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiesStatus {
    /// Copies of each chunk.
    pub copies: usize,
    /// Chunks of the volume.
    pub chunks: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// The number of this gateway's start, as nodes know it.
    pub epoch: u64,
    /// Chunks that may have unsynced changes.
    pub open: u32,
    /// Chunks with a copy that lacks something.
    pub behind: u32,
    /// Chunks with a copy of which it is not known whether it lacks something.
    pub doubtful: u32,
    /// Chunks whose copies may differ and are to be compared.
    pub in_doubt: u32,
    /// The copies that the worst chunk has left.
    pub fewest_current: usize,
    /// Chunks that are being compared or made current.
    pub jobs: usize,
    /// Why no decisions can be recorded, while that is so.
    pub map_trouble: Option<String>,
    /// Why this gateway is no longer in charge.
    pub deposed: Option<String>,
    /// Decisions recorded, and decided.
    pub decisions: (u64, u64),
    /// Counters.
    pub counters: CopiesCounters,
}

impl Copies {
    /// The state now.
    pub fn status(&self) -> CopiesStatus {
        let counts = self.image.counts();
        CopiesStatus {
            copies: self.image.copies(),
            chunks: self.image.chunks(),
            chunk_bytes: self.image.chunk_bytes(),
            epoch: self.image.epoch(),
            open: counts.open,
            behind: counts.behind,
            doubtful: counts.doubtful,
            in_doubt: self.doubt.len() as u32,
            fewest_current: counts.fewest_current,
            jobs: self.jobs.len(),
            map_trouble: self.log.trouble().map(|failure| failure.to_string()),
            deposed: self.deposed.clone(),
            decisions: self.log.progress(),
            counters: self.counters,
        }
    }
}

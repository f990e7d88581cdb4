//! The native client: a gateway inside this process, many reads in one call, several calls outstanding.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use flashmob_bench::load::Verifier;
use flashmob_bench::load::random::Random;
use flashmob_server::Volume;
use hdrhistogram::Histogram;

use crate::measure::WrongBytes;

/// One call of so many is compared.
const VERIFY_ONE_OF: u64 = 64;

/// What a client that is no NBD client did.
#[derive(Debug)]
pub struct Done {
    /// Reads.
    pub requests: u64,
    /// From the first to the last answer.
    pub elapsed: Duration,
    /// Of calls or pipelines.
    pub latency_ns: Histogram<u64>,
    /// Compared and right.
    pub verified_bytes: u64,
}

impl Done {
    /// Nothing yet.
    pub fn new() -> Done {
        // The bounds are constants, and a histogram with them exists.
        let latency_ns = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds");
        Done { requests: 0, elapsed: Duration::ZERO, latency_ns, verified_bytes: 0 }
    }
}

/// What to ask, and for how long.
pub struct Asking {
    /// Reads in a call.
    pub spans: usize,
    /// Bytes of each.
    pub block_bytes: u32,
    /// Calls outstanding.
    pub calls: usize,
    pub time: Duration,
    pub seed: u64,
}

/// Opens the volume.
pub fn open(config: &Path) -> anyhow::Result<Volume> {
    Ok(Volume::open(config)?)
}

/// Reads at random and compares a sample of the calls.
pub fn run(volume: &Volume, asking: &Asking, reference: &Verifier) -> anyhow::Result<Done> {
    let unit = u64::from(asking.block_bytes);
    let count = volume.size_bytes() / unit;
    let mut random = Random::new(asking.seed, 0);
    let mut sample = Random::new(asking.seed, 1);
    let mut done = Done::new();
    let mut out = VecDeque::with_capacity(asking.calls);
    let begun = Instant::now();
    loop {
        let going_on = begun.elapsed() < asking.time;
        while going_on && out.len() < asking.calls {
            let spans: Vec<(u64, u32)> =
                (0..asking.spans).map(|_| (random.below(count) * unit, asking.block_bytes)).collect();
            let compared = (sample.below(VERIFY_ONE_OF) == 0).then(|| spans.clone());
            out.push_back((Instant::now(), volume.read_many(spans), compared));
        }
        let Some((asked, call, compared)) = out.pop_front() else { break };
        let bytes = call.wait()?;
        done.requests += asking.spans as u64;
        done.latency_ns.saturating_record(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
        anyhow::ensure!(
            bytes.len() as u64 == asking.spans as u64 * unit,
            "WRONG: a call returned {} bytes",
            bytes.len()
        );
        if let Some(spans) = compared {
            for ((offset, _), bytes) in spans.into_iter().zip(bytes.chunks(asking.block_bytes as usize)) {
                if !reference.matches(offset, bytes) {
                    return Err(WrongBytes(format!("from the native client, at offset {offset}")).into());
                }
            }
            done.verified_bytes += bytes.len() as u64;
        }
    }
    done.elapsed = begun.elapsed();
    Ok(done)
}

//! The least that reads can cost: a loop of nothing but random numbers and `pread`. No clock, no histogram, no check of what is asked.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

/// `FILE BLOCK_BYTES THREADS SECONDS`: prints reads per second.
pub fn main(words: &[String]) -> anyhow::Result<()> {
    let [path, block, threads, seconds] = words else { anyhow::bail!("four words are needed") };
    let (block_bytes, threads): (usize, usize) = (block.parse()?, threads.parse()?);
    let file = File::open(Path::new(path)).with_context(|| format!("cannot open {path}"))?;
    let blocks = file.metadata()?.len() / block_bytes as u64;
    let (stop, barrier) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let (count, elapsed) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|thread| {
                let (file, stop, barrier) = (&file, &stop, &barrier);
                scope.spawn(move || {
                    let mut buffer = vec![0u8; block_bytes];
                    let mut state = thread.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let mut count = 0u64;
                    barrier.wait();
                    while !stop.load(Ordering::Relaxed) {
                        // xorshift (Marsaglia 2003).
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        let at = ((u128::from(state) * u128::from(blocks)) >> 64) as u64 * block_bytes as u64;
                        if rustix::io::pread(file.as_fd(), &mut *buffer, at) != Ok(block_bytes) {
                            break;
                        }
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        barrier.wait();
        let begun = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds.parse().unwrap_or(1.0)));
        stop.store(true, Ordering::Relaxed);
        let elapsed = begun.elapsed();
        let count: u64 = workers.into_iter().map(|w| w.join().unwrap_or(0)).sum();
        (count, elapsed)
    });
    println!("{:.0}", count as f64 / elapsed.as_secs_f64());
    Ok(())
}

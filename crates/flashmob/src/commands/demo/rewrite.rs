//! The load of the second act: an image in a volume is rewritten with another one, block by block, while both are read; and back again.
//!
//! Every byte that is read is compared with what has to be there, and the longest time that a request took is kept.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_bench::Uri;
use flashmob_bench::error::ServerError;
use flashmob_bench::load::random::Random;
use flashmob_bench::nbd::connection::{Connection, Options};
use flashmob_bench::nbd::pump::Single;
use flashmob_bench::nbd::reply::Replies;
use flashmob_bench::nbd::slots::Request;
use flashmob_core::op::Op;
use flashmob_core::units::KIB;

/// What is written or read at once.
const BLOCK_BYTES: u64 = 32 * KIB;
/// Writes at once, and reads beside them.
const WRITES: usize = 4;
const READS: usize = 4;
/// Longest silence of the gateway.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The load, in a thread of its own.
pub struct Rewriter {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Rewritten>>,
}

/// What it did.
#[derive(Debug, Default)]
pub struct Rewritten {
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub longest: Duration,
    /// The image that the volume has in the end: its number.
    pub image: usize,
}

impl Rewriter {
    /// Begins to put the second of two images of equal length into the volume, which has the first.
    pub fn start(uri: &Uri, images: [PathBuf; 2], image_bytes: u64) -> Rewriter {
        let (stop, uri) = (Arc::new(AtomicBool::new(false)), uri.clone());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut load = Load::new(&uri, &images, image_bytes)?;
            // At least once, and always to the end of an image.
            loop {
                load.rewrite()?;
                if stopped.load(Ordering::SeqCst) {
                    load.flush()?;
                    return Ok(load.done);
                }
            }
        });
        Rewriter { stop, thread }
    }

    /// Lets it finish the image that it is writing.
    pub fn stop(self) -> anyhow::Result<Rewritten> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.join() {
            Ok(result) => result,
            Err(_) => anyhow::bail!("the load panicked"),
        }
    }

    /// Whether it has ended, which it does by itself only after an error.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

struct Load {
    single: Single,
    images: [File; 2],
    image_bytes: u64,
    random: Random,
    answers: Answers,
    done: Rewritten,
}

impl Load {
    fn new(uri: &Uri, paths: &[PathBuf; 2], image_bytes: u64) -> anyhow::Result<Load> {
        let open = |path: &Path| File::open(path).with_context(|| format!("cannot open {}", path.display()));
        let options = Options { timeout: TIMEOUT, outstanding: (WRITES + READS) as u32, ..Options::default() };
        Ok(Load {
            single: Single::new(Connection::open(uri, &options)?)?,
            images: [open(&paths[0])?, open(&paths[1])?],
            image_bytes,
            random: Random::new(7, 0),
            answers: Answers::default(),
            done: Rewritten::default(),
        })
    }

    /// Writes the other image over the one that is there, in random order.
    fn rewrite(&mut self) -> anyhow::Result<()> {
        let blocks = self.image_bytes / BLOCK_BYTES;
        let mut order: Vec<u64> = (0..blocks).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, (self.random.next_u64() % (at as u64 + 1)) as usize);
        }
        let (old, new) = (self.done.image, 1 - self.done.image);
        let mut written = 0;
        while written < order.len() {
            let writes = written..order.len().min(written + WRITES);
            for &block in &order[writes.clone()] {
                self.submit(Op::Write, block, new)?;
            }
            for _ in 0..READS {
                // A block that is being written now may be the one or the other.
                let at = (self.random.next_u64() % blocks) as usize;
                if !writes.contains(&at) {
                    self.submit(Op::Read, order[at], if at < writes.start { new } else { old })?;
                }
            }
            self.await_all()?;
            written = writes.end;
        }
        self.done.image = new;
        Ok(())
    }

    fn submit(&mut self, op: Op, block: u64, image: usize) -> anyhow::Result<()> {
        let offset = block * BLOCK_BYTES;
        let mut content = vec![0; BLOCK_BYTES as usize];
        self.images[image].read_exact_at(&mut content, offset)?;
        let fill = |bytes: &mut [u8]| bytes.copy_from_slice(&content);
        self.single.connection.submit(Instant::now(), op, 0, offset, BLOCK_BYTES as u32, fill);
        if op == Op::Read {
            self.answers.expected.push((offset, content));
            self.done.read_bytes += BLOCK_BYTES;
        } else {
            self.done.written_bytes += BLOCK_BYTES;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.single.connection.submit(Instant::now(), Op::Flush, 0, 0, 0, |_| ());
        self.await_all()
    }

    fn await_all(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.single.connection.outstanding() > 0 {
            self.single.turn(&mut self.answers)?;
        }
        self.done.longest = self.done.longest.max(begun.elapsed());
        self.answers.expected.clear();
        match self.answers.trouble.take() {
            Some(trouble) => anyhow::bail!(trouble),
            None => Ok(()),
        }
    }
}

/// Compares what is read.
#[derive(Default)]
struct Answers {
    /// Offsets, and what is expected there. A block may be read twice at once.
    expected: Vec<(u64, Vec<u8>)>,
    trouble: Option<String>,
}

impl Replies for Answers {
    fn data(&mut self, request: &Request, offset_bytes: u64, bytes: &[u8]) {
        let expected = self.expected.iter().find(|(offset, _)| *offset == request.offset_bytes);
        let at = (offset_bytes - request.offset_bytes) as usize;
        let is_right = expected.is_some_and(|(_, content)| content.get(at..at + bytes.len()) == Some(bytes));
        if !is_right {
            let text = format!("bytes at {offset_bytes} are WRONG: they are not those that were written");
            self.trouble.get_or_insert(text);
        }
    }

    fn done(&mut self, request: &Request, outcome: Result<(), &ServerError>, _at: Instant) {
        if let Err(error) = outcome {
            self.trouble.get_or_insert(format!("the {} failed: {error}", request.describe()));
        }
    }
}

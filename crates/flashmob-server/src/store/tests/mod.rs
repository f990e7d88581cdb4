//! Tests of the store through its public methods, on real files.
//!
//! They run on every engine, with and without O_DIRECT, so the directory for temporary files (TMPDIR) must be on a file
//! system that takes it. What the machine lacks makes them fail, unless it is left out by name:
//! `FLASHMOB_TEST_WITHOUT=io_uring,direct,nowait,children` is what qemu's user emulation needs. Those that need root are
//! ignored: `cargo test -p flashmob store -- --ignored`.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use flashmob_core::op::{Failure, OpFlags};

use super::*;

mod charges;
mod devices;
mod digests;
mod faults;
mod holes;
mod identity;
mod opening;
mod operations;
mod sums;

/// A way to carry operations out.
pub(super) type Variant = (Engine, bool);

/// Whether the user has said that this machine lacks something.
pub(crate) fn is_left_out(what: &str) -> bool {
    let list = std::env::var("FLASHMOB_TEST_WITHOUT").unwrap_or_default();
    let is_left_out = list.split(',').any(|name| name == what);
    if is_left_out {
        eprintln!("left out by FLASHMOB_TEST_WITHOUT: {what}");
    }
    is_left_out
}

/// All ways that this machine has: engine, and whether with O_DIRECT.
pub(super) fn variants() -> Vec<Variant> {
    let mut engines = vec![Engine::Threads];
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && !is_left_out("io_uring") {
        engines.push(Engine::IoUring);
    }
    let direct: &[bool] = if is_left_out("direct") { &[false] } else { &[false, true] };
    engines.into_iter().flat_map(|engine| direct.iter().map(move |&direct| (engine, direct))).collect()
}

/// A configuration of that kind.
pub(super) fn config(path: &Path, size_bytes: u64, (engine, direct): Variant) -> StoreConfig {
    StoreConfig { size_bytes: Some(size_bytes), engine, direct, ..StoreConfig::new(path) }
}

/// Evicts the pages of a file. The kernel leaves those out that somebody else has hold of at the moment, so it may take more than one call.
pub(super) fn evict(path: &Path, mut is_evicted: impl FnMut() -> bool) {
    let (file, begun) = (File::open(path).unwrap(), Instant::now());
    loop {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if is_evicted() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the kernel keeps the pages of {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A store with an event loop as simple as can be.
pub(super) struct Rig {
    pub store: Store,
    woken: Receiver<()>,
}

impl Rig {
    pub fn open(config: StoreConfig) -> Rig {
        Rig::begun(config, SyncRecord::load(None, Vec::new()))
    }

    /// The same with what earlier processes have recorded.
    pub fn begun(config: StoreConfig, record: SyncRecord) -> Rig {
        Rig::with_sums(config, record, None)
    }

    /// A rig of an extent that has checksums there.
    pub fn with_sums(config: StoreConfig, record: SyncRecord, sums_path: Option<&Path>) -> Rig {
        let (wake, woken) = channel();
        let wake = move || {
            // Woken for what nobody waits for any more, when the store is dropped.
            let _ = wake.send(());
        };
        let store = Store::open(config, Instant::now(), wake).unwrap_or_else(|e| panic!("{e}"));
        store.begin(record, sums_path).unwrap_or_else(|e| panic!("{e}"));
        Rig { store, woken }
    }

    /// Carries `ops` out, and gives their completions by id. Fails if they are not all answered, once each.
    pub fn run(&mut self, mut ops: Vec<StoreOp>) -> BTreeMap<u64, StoreDone> {
        let count = ops.len();
        self.store.submit(&mut ops);
        assert!(ops.is_empty());
        let (mut all, mut done) = (BTreeMap::new(), Vec::new());
        while all.len() < count {
            self.woken.recv_timeout(Duration::from_secs(60)).expect("woken for every completion");
            self.store.take_done(&mut done);
            for one in done.drain(..) {
                assert!(one.started <= one.finished);
                assert!(all.insert(one.id, one).is_none(), "answered twice");
            }
        }
        all
    }

    /// Carries one operation out.
    pub fn one(&mut self, op: StoreOp) -> StoreDone {
        let id = op.id;
        self.run(vec![op]).remove(&id).expect("answered with its id")
    }

    pub fn result(&mut self, op: StoreOp) -> Result<(), Failure> {
        self.one(op).result
    }

    /// Reads, by way of the engine.
    pub fn read(&mut self, offset_bytes: u64, len_bytes: usize) -> Result<Vec<u8>, Failure> {
        let done = self.one(read(1, offset_bytes, len_bytes));
        done.result.map(|()| done.data)
    }
}

pub(super) fn read(id: u64, offset_bytes: u64, len_bytes: usize) -> StoreOp {
    let data = vec![0xee; len_bytes];
    StoreOp { id, op: Op::Read, flags: OpFlags::NONE, offset_bytes, len_bytes: len_bytes as u32, data }
}

pub(super) fn write(id: u64, offset_bytes: u64, data: Vec<u8>) -> StoreOp {
    StoreOp { id, op: Op::Write, flags: OpFlags::NONE, offset_bytes, len_bytes: data.len() as u32, data }
}

pub(super) fn bare(op: Op, offset_bytes: u64, len_bytes: u32) -> StoreOp {
    StoreOp { id: 1, op, flags: OpFlags::NONE, offset_bytes, len_bytes, data: Vec::new() }
}

pub(super) fn with(flags: OpFlags, op: StoreOp) -> StoreOp {
    StoreOp { flags, ..op }
}

/// Bytes that tell where they belong.
pub(super) fn pattern(seed: u64, len_bytes: usize) -> Vec<u8> {
    (0..len_bytes as u64).map(|i| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 | 1).collect()
}

/// Runs the ignored test `name` of this binary in a process of its own, started by the shell script `script`, in
/// which `"$@"` stands for it. `path` is handed to it through the environment.
pub(super) fn in_child(script: &str, name: &str, path: &Path) {
    in_child_of("store::tests", script, name, path);
}

/// The same for a test of another module.
pub(crate) fn in_child_of(module: &str, script: &str, name: &str, path: &Path) {
    if is_left_out("children") {
        return;
    }
    let output = std::process::Command::new("sh")
        .args(["-ec", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{name}"), "--ignored", "--nocapture"])
        .env(CHILD_PATH, path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

const CHILD_PATH: &str = "FLASHMOB_TEST_CHILD_PATH";

/// The path that [`in_child`] handed over; `None` in a test that nobody started that way.
pub(crate) fn child_path() -> Option<PathBuf> {
    std::env::var_os(CHILD_PATH).map(PathBuf::from)
}

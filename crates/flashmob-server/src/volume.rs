//! The native client: a volume as a Rust value.
//!
//! The gateway runs inside the program, on a thread of its own, so that a thousand reads go from one call into
//! batches without a socket in between. Every operation returns a [`Call`]: await it, or [`Call::wait`] for it.
//!
//! ```no_run
//! let volume = flashmob_server::Volume::open("cluster.toml")?;
//! let first = volume.read_at(0, 4096).wait()?;
//! let spans: Vec<(u64, u32)> = (0..1000).map(|i| (i * 4096, 1)).collect();
//! let thousand_bytes = volume.read_many(spans).wait()?;
//! volume.write_at(0, first).wait()?;
//! volume.flush().wait()?;
//! # Ok::<(), flashmob_server::VolumeError>(())
//! ```

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashmob_core::op::{Failure, Op, OpFlags};

use crate::config::{Config, ConfigError};
use crate::gateway::{GatewayServer, NativeHandle, Pending, Stopper};
use crate::status::Reporter;

/// How long [`Volume::open`] waits for nodes whose size it must learn.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The gateway inside has this one volume.
const THE_VOLUME: usize = 0;

/// Why a volume cannot be opened or an operation on it failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum VolumeError {
    /// The configuration cannot be read or is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration has no volume of that name.
    #[error("no volume '{name}' in the configuration; its volumes are: {known}")]
    Unknown { name: String, known: String },
    /// The gateway inside the program could not be started.
    #[error("cannot start the gateway: {0:#}")]
    Start(anyhow::Error),
    /// Nodes whose size is not configured did not answer in time.
    #[error("volume '{name}' was not ready after {} s: {why}", READY_TIMEOUT.as_secs())]
    NotReady { name: String, why: String },
    /// The operation failed.
    #[error("{0}")]
    Failed(#[from] Failure),
}

/// A volume, with a gateway of its own. Dropping it completes the operations in progress.
#[derive(Debug)]
pub struct Volume {
    name: String,
    size_bytes: u64,
    handle: NativeHandle,
    reporter: Reporter,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

/// An operation in progress: a future, or something to [`Call::wait`] for. It continues if this is dropped.
#[derive(Debug)]
pub struct Call<T> {
    pending: Pending,
    finish: fn(Vec<u8>) -> T,
}

impl<T> Call<T> {
    /// Blocks until the operation has ended.
    pub fn wait(self) -> Result<T, VolumeError> {
        Ok((self.finish)(self.pending.wait()?))
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T, VolumeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let finish = self.finish;
        Pin::new(&mut self.pending).poll(context).map(|result| Ok(finish(result?)))
    }
}

impl Volume {
    /// Opens the first volume of a configuration file. Listens nowhere; `listen` and `admin` in the file are
    /// for `flashmob gateway`.
    pub fn open(config_path: impl AsRef<Path>) -> Result<Volume, VolumeError> {
        let config = Config::load(config_path.as_ref())?;
        let name = config.volumes.first().map(|v| v.name.clone()).unwrap_or_default();
        Volume::with_config(&config, &name)
    }

    /// Opens the volume of that name of a configuration file.
    pub fn open_named(config_path: impl AsRef<Path>, name: &str) -> Result<Volume, VolumeError> {
        Volume::with_config(&Config::load(config_path.as_ref())?, name)
    }

    /// Opens the volume of that name of a configuration.
    pub fn with_config(config: &Config, name: &str) -> Result<Volume, VolumeError> {
        let mut config = config.clone();
        let known: Vec<String> = config.volumes.iter().map(|v| v.name.clone()).collect();
        config.volumes.retain(|v| v.name == name);
        if config.volumes.is_empty() {
            return Err(VolumeError::Unknown { name: name.to_string(), known: known.join(", ") });
        }
        let mut server = GatewayServer::open_native(&config).map_err(VolumeError::Start)?;
        let (handle, reporter, stopper) = (server.native_handle(), server.reporter(), server.stopper());
        let run = move || {
            if let Err(error) = server.run() {
                log::error!("the gateway of a native client stopped: {error}");
            }
        };
        let thread = std::thread::Builder::new()
            .name("flashmob-gateway".to_string())
            .spawn(run)
            .map_err(|error| VolumeError::Start(error.into()))?;
        let name = name.to_string();
        let mut volume = Volume { name, size_bytes: 0, handle, reporter, stopper, thread: Some(thread) };
        volume.size_bytes = volume.await_size()?;
        Ok(volume)
    }

    /// Waits until the size is known.
    fn await_size(&self) -> Result<u64, VolumeError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut why = "its gateway does not answer".to_string();
        while Instant::now() < deadline {
            if let Some(report) = self.reporter.ask() {
                let volumes = report.gateway.map(|g| g.volumes).unwrap_or_default();
                if let Some(size_bytes) = volumes.first().and_then(|v| v.size_bytes) {
                    return Ok(size_bytes);
                }
                why = report.warnings.join("; ");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(VolumeError::NotReady { name: self.name.clone(), why })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_call(&self, spans: Vec<(u64, u32)>) -> Call<Vec<u8>> {
        let pending = self.handle.call(THE_VOLUME, Op::Read, OpFlags::NONE, spans, Vec::new());
        Call { pending, finish: |data| data }
    }

    fn change_call(&self, op: Op, flags: OpFlags, spans: Vec<(u64, u32)>, payload: Vec<u8>) -> Call<()> {
        Call { pending: self.handle.call(THE_VOLUME, op, flags, spans, payload), finish: |_| () }
    }

    /// Reads `len_bytes` from `offset_bytes`; at most 32 MiB.
    pub fn read_at(&self, offset_bytes: u64, len_bytes: u32) -> Call<Vec<u8>> {
        self.read_call(vec![(offset_bytes, len_bytes)])
    }

    /// Reads many parts, each given by its offset and length in bytes, together at most 32 MiB. The result
    /// is their bytes in the order of `spans`. If one fails, all do.
    pub fn read_many(&self, spans: Vec<(u64, u32)>) -> Call<Vec<u8>> {
        self.read_call(spans)
    }

    /// Writes `data` from `offset_bytes`; at most 32 MiB. It is acknowledged when every node has it, and safe
    /// from a power loss after [`Volume::flush`].
    pub fn write_at(&self, offset_bytes: u64, data: impl Into<Vec<u8>>) -> Call<()> {
        self.write_flagged(offset_bytes, data.into(), OpFlags::NONE)
    }

    /// Like [`Volume::write_at`], but on the flash before it is acknowledged.
    pub fn write_at_fua(&self, offset_bytes: u64, data: impl Into<Vec<u8>>) -> Call<()> {
        self.write_flagged(offset_bytes, data.into(), OpFlags::FUA)
    }

    fn write_flagged(&self, offset_bytes: u64, data: Vec<u8>, flags: OpFlags) -> Call<()> {
        // A length that does not fit is answered like one that is too large.
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.change_call(Op::Write, flags, vec![(offset_bytes, len_bytes)], data)
    }

    /// Puts everything acknowledged so far onto the flash of every node.
    pub fn flush(&self) -> Call<()> {
        self.change_call(Op::Flush, OpFlags::NONE, Vec::new(), Vec::new())
    }

    /// Discards a range: it reads as zeros or as before until it is written again.
    pub fn trim(&self, offset_bytes: u64, len_bytes: u32) -> Call<()> {
        self.change_call(Op::Trim, OpFlags::NONE, vec![(offset_bytes, len_bytes)], Vec::new())
    }

    /// Fills a range with zeros without sending them.
    pub fn write_zeroes(&self, offset_bytes: u64, len_bytes: u32) -> Call<()> {
        self.change_call(Op::WriteZeroes, OpFlags::NONE, vec![(offset_bytes, len_bytes)], Vec::new())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the gateway of volume '{}' panicked", self.name);
        }
    }
}

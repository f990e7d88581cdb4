//! What is captured, in a file that is there when all of it is.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashmob_flows::packet::LinkType;
use flashmob_flows::reader::Frame;
use flashmob_flows::writer::CaptureWriter;

use super::socket::KEPT_BYTES;
use crate::commands::whole_file;

/// A capture being written. If it is dropped before its end, nothing of it stays.
pub struct Keeper {
    path: PathBuf,
    /// Until it is whole; `None` for what cannot be replaced, such as a pipe.
    temporary: Option<PathBuf>,
    writer: Option<CaptureWriter<BufWriter<File>>>,
}

impl Keeper {
    pub fn begin(path: &Path, link: LinkType, interface: &str) -> anyhow::Result<Keeper> {
        let refused = || format!("cannot write packets to {}", path.display());
        let (file, temporary) = if whole_file::is_special(path) {
            (OpenOptions::new().write(true).open(path).with_context(refused)?, None)
        } else {
            let (file, temporary) = whole_file::create_beside(path).with_context(refused)?;
            (file, Some(temporary))
        };
        let mut keeper = Keeper { path: path.to_path_buf(), temporary, writer: None };
        let kept_bytes = KEPT_BYTES as u32;
        keeper.writer =
            Some(CaptureWriter::begin(BufWriter::new(file), link, interface, kept_bytes).with_context(refused)?);
        Ok(keeper)
    }

    pub fn packet(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.packet(frame).with_context(|| format!("cannot write packets to {}", self.path.display()))
    }

    pub fn end(mut self, lost_packets: u64, now_ns: i64) -> anyhow::Result<()> {
        let refused = || format!("cannot write packets to {}", self.path.display());
        if let Some(writer) = self.writer.take() {
            let mut out = writer.end(lost_packets, now_ns).with_context(refused)?;
            out.flush().with_context(refused)?;
        }
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path).with_context(refused)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

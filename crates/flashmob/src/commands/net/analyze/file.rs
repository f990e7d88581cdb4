//! A capture from a file or a pipe.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail, ensure};
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_flows::reader::CaptureReader;
use flashmob_flows::{Analyzer, Limits};

use super::Heard;
use crate::commands::tell;

/// Packets between updates of the progress.
const LOOKED_AT_PACKETS: u64 = 4096;

/// Reads all of it.
pub fn read(path: &Path, port: Option<u16>, limits: Limits) -> anyhow::Result<Heard> {
    let source = path.display().to_string();
    if path == Path::new("-") {
        // Ctrl-C in a pipe stops both programs; the remaining data still arrives, so it is read to its end.
        tell::on_signal()?;
        return analyze(io::stdin().lock(), "standard input".into(), None, port, limits, None);
    }
    let refused = || format!("cannot read {source}");
    let metadata = path.metadata().with_context(refused)?;
    ensure!(!metadata.is_dir(), "{source} is a folder; give a capture file in it");
    let file = File::open(path).with_context(refused)?;
    let cancel = tell::on_signal()?;
    if metadata.is_file() {
        analyze(file, source, Some(metadata.len()), port, limits, Some(&cancel))
    } else {
        analyze(file, source, None, port, limits, None)
    }
}

fn analyze(
    input: impl Read,
    source: String,
    size_bytes: Option<u64>,
    port: Option<u16>,
    limits: Limits,
    cancel: Option<&AtomicBool>,
) -> anyhow::Result<Heard> {
    let mut reader = CaptureReader::open(input).with_context(|| format!("cannot analyze {source}"))?;
    let mut analyzer = Analyzer::new(limits);
    analyzer.only_port(port);
    let mut line = size_bytes.map(|_| ProgressLine::new("analysing"));
    let mut is_interrupted = false;
    while reader.next_with(|frame| analyzer.take(&frame)) {
        if !analyzer.packets().is_multiple_of(LOOKED_AT_PACKETS) {
            continue;
        }
        if let (Some(line), Some(total)) = (&mut line, size_bytes) {
            line.show(&Progress { done: reader.read_bytes().min(total), total, unit: Unit::Bytes });
        }
        if cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            is_interrupted = true;
            break;
        }
    }
    drop(line);
    let ended_by = reader.ended_by().map(str::to_string);
    if analyzer.packets() == 0 {
        match ended_by {
            Some(why) => bail!("cannot analyze {source}: no packet could be read; {why}"),
            None => log::warn!("{source}: contains no packets"),
        }
    }
    let (form, lost_packets) = (reader.form(), reader.lost_packets());
    Ok(Heard {
        source,
        form,
        summary: analyzer.finish(),
        lost_packets,
        ended_by,
        is_interrupted,
        is_modelled: false,
        unwritten: None,
    })
}

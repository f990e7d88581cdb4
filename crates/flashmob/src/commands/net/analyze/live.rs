//! Packets from an interface: their first bytes and their length, until the time is over or somebody stops it.
//!
//! It looks at packets and sends none; what it keeps of each is too short for what people write to each other.

mod keeper;
mod socket;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_flows::packet::{self, Packet};
use flashmob_flows::{Analyzer, Limits};

use super::Heard;
use crate::commands::tell;
use keeper::Keeper;
use socket::{Heard as Received, Socket};

/// What to listen to.
pub struct Wanted<'a> {
    pub interface: &'a str,
    pub time: Option<Duration>,
    pub port: Option<u16>,
    pub write: Option<&'a Path>,
}

/// Listens.
pub fn listen(wanted: &Wanted<'_>, limits: Limits, cancel: &Arc<AtomicBool>) -> anyhow::Result<Heard> {
    // Before anything else: who stops it early wants what there is.
    tell::on_signal(Arc::clone(cancel))?;
    let mut socket = Socket::open(wanted.interface)?;
    let mut keeper = wanted.write.map(|path| Keeper::begin(path, socket.link(), wanted.interface)).transpose()?;
    let mut analyzer = Analyzer::new(limits);
    analyzer.only_port(wanted.port);
    let begun = Instant::now();
    log::info!("capturing on {}; Ctrl-C ends it", wanted.interface);
    let mut line = wanted.time.map(|_| ProgressLine::new("listening"));
    let mut is_interrupted = false;
    loop {
        let elapsed = begun.elapsed();
        if wanted.time.is_some_and(|time| elapsed >= time) {
            break;
        }
        if cancel.load(Ordering::Relaxed) {
            is_interrupted = wanted.time.is_some();
            break;
        }
        if let (Some(line), Some(time)) = (&mut line, wanted.time) {
            line.show(&Progress { done: ms(elapsed), total: ms(time), unit: Unit::Milliseconds });
        }
        // The clock and the signal are looked at now and then: a packet is a matter of a microsecond.
        for _ in 0..64 {
            match socket.next()? {
                Received::Nothing => break,
                Received::Ours => {}
                Received::Packet(frame) => {
                    if wanted.port.is_some_and(|port| !concerns(&packet::read(&frame, 0), port)) {
                        continue;
                    }
                    analyzer.take(&frame);
                    if let Some(keeper) = &mut keeper {
                        keeper.packet(&frame)?;
                    }
                }
            }
        }
    }
    drop(line);
    let lost_packets = socket.lost_packets();
    if let Some(keeper) = keeper {
        let now_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        keeper.end(lost_packets, i64::try_from(now_ns).unwrap_or(i64::MAX))?;
    }
    Ok(Heard {
        source: wanted.interface.to_string(),
        form: "interface",
        summary: analyzer.finish(),
        lost_packets: Some(lost_packets),
        ended_by: None,
        is_interrupted,
        // The lab tells its commands where it is.
        is_modelled: std::env::var_os("FLASHMOB_LAB").is_some(),
    })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn concerns(packet: &Packet, port: u16) -> bool {
    matches!(packet, Packet::Tcp(segment) if segment.from.port() == port || segment.to.port() == port)
}

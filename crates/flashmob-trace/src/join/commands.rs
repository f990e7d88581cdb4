//! Assigns the commands reported by a driver to requests of the block layer.
//!
//! A driver's events name its own host but no block device, and a request may take several commands: an MMC card is polled after a write
//! until it is done. A command with an address belongs to the outstanding request there. One without belongs to the request of the last one
//! with an address at the same host, if still outstanding, or else to the only outstanding request. The others remain unattributed.

use std::collections::HashMap;

use flashmob_results::trace::Layer;

use crate::record::Record;

use super::requests::{Requests, SECTOR_BYTES};
use super::rules::{Span, number};
use super::work::FileKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub request: u32,
    pub file: FileKey,
    /// Address on the disk, if the command transfers data.
    pub address_bytes: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Commands {
    last_of_host: HashMap<String, u32>,
}

impl Commands {
    /// The request of a command that ends now, if its rule says that requests are issued after the command begins.
    pub fn served(end: &Span<'_>, thread: u32, begin_ns: u64, requests: &Requests) -> Option<Served> {
        let (request, file) = end.rule.before_issue.then(|| requests.issued_next(thread, begin_ns)).flatten()?;
        Some(Served { request, file, address_bytes: None })
    }

    /// The request of a command that begins now; `None` if it is not a command or the request is unknown.
    pub fn serve(&mut self, record: &Record<'_>, begin: &Span<'_>, requests: &Requests) -> Option<Served> {
        if begin.rule.layer != Layer::Driver {
            return None;
        }
        let served = |(request, file), address_bytes| Some(Served { request, file, address_bytes });
        if begin.rule.after_issue {
            return served(requests.just_issued(record.thread)?, None);
        }
        if begin.rule.before_issue {
            return None;
        }
        let host = begin.host.and_then(|field| field.text(record.data)).unwrap_or_default();
        match (number(record, begin.sector), number(record, begin.sectors)) {
            (Some(sector), Some(1..)) => {
                let found = requests.with_sector(sector)?;
                self.last_of_host.insert(host.into_owned(), found.0);
                served(found, Some(sector.saturating_mul(SECTOR_BYTES)))
            }
            (Some(_), _) => {
                let last = self.last_of_host.get(host.as_ref()).and_then(|request| requests.in_flight(*request));
                served(last.or_else(|| requests.only_one())?, None)
            }
            _ => None,
        }
    }
}

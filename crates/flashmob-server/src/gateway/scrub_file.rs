//! The file beside a map that keeps what is known of a volume's scrubs: when they ended, where they are, and what cannot be mended; and how fast copies
//! were moved last.
//!
//! Nothing is decided by it, and the map does not know it. A file that is missing, damaged or of another map is as none: scrubs begin anew, and find
//! again what cannot be mended. It is written beside its place and moved there, on a thread of its own.
//!
//! JSON, so that people can read it. Times are seconds since 1970, as a restart of the machine must not make a scrub due.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flashmob_core::copies::COPIES_MAX;
use flashmob_core::gateway::{BAD_BLOCKS_MAX, BadBlock, Flaw, Gateway, PassKept, ScrubKept};
use flashmob_core::units::Time;
use serde::{Deserialize, Serialize};

use crate::store::{ExtentId, put_file};
use crate::worker::Worker;

/// The version of the form.
const FORMAT: u32 = 1;
/// A longer file is not one of these: each block in the list takes less than 200 bytes, and each node less than 100.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// News are written no more often than this.
const NEWS_EVERY: Duration = Duration::from_secs(1);
/// While a scrub is under way, its place is written this often.
const PLACE_EVERY: Duration = Duration::from_secs(30);

/// The file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    /// The map that it belongs to.
    map: ExtentId,
    compare: PassDocument,
    /// By node.
    verify: Vec<PassDocument>,
    bad: Vec<BadDocument>,
    /// Microseconds that a copy took when copies were moved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    move_us: Option<u64>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PassDocument {
    /// When the last one ended, or the volume was first seen.
    since: u64,
    was_done: bool,
    /// Where the one that is under way goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<u32>,
    #[serde(default)]
    is_now: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BadDocument {
    chunk: u32,
    block: u32,
    flaw: String,
    copies: u8,
    /// Of copies that differ: what each has.
    hashes: [u64; COPIES_MAX],
}

impl PassDocument {
    fn of(kept: &PassKept, clock: u64) -> PassDocument {
        let since = clock.saturating_sub(kept.age.as_secs());
        PassDocument { since, was_done: kept.was_done, place: kept.place, is_now: kept.is_forced }
    }

    fn kept(&self, clock: u64) -> PassKept {
        // A clock that was set back shows an age of nothing.
        let age = Duration::from_secs(clock.saturating_sub(self.since));
        PassKept { age, was_done: self.was_done, place: self.place, is_forced: self.is_now }
    }
}

impl Document {
    fn of(kept: &ScrubKept, map_id: [u8; 16], clock: u64) -> Document {
        let bad = kept.bad.iter().map(|bad| BadDocument {
            chunk: bad.chunk,
            block: bad.block,
            flaw: bad.flaw.name().to_string(),
            copies: bad.copies,
            hashes: bad.hashes,
        });
        Document {
            format: FORMAT,
            map: ExtentId(map_id),
            compare: PassDocument::of(&kept.compare, clock),
            verify: kept.members.iter().map(|kept| PassDocument::of(kept, clock)).collect(),
            bad: bad.collect(),
            move_us: kept.move_time.and_then(|time| u64::try_from(time.as_micros()).ok()),
        }
    }

    /// What the bytes of a file say, if they are of this map.
    fn parse(bytes: &[u8], map_id: [u8; 16], clock: u64) -> Result<ScrubKept, String> {
        let document: Document = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if document.format != FORMAT {
            return Err(format!("it has format {}; this flashmob reads format {FORMAT}", document.format));
        }
        if document.map.0 != map_id {
            return Err("it belongs to another map".to_string());
        }
        let flaw = |name: &str| Flaw::ALL.into_iter().find(|flaw| flaw.name() == name);
        let bad = document.bad.iter().take(BAD_BLOCKS_MAX).map(|bad| {
            let flaw = flaw(&bad.flaw).ok_or_else(|| format!("it knows no flaw '{}'", bad.flaw.escape_debug()))?;
            Ok(BadBlock { chunk: bad.chunk, block: bad.block, flaw, copies: bad.copies, hashes: bad.hashes })
        });
        Ok(ScrubKept {
            bad: bad.collect::<Result<_, String>>()?,
            compare: document.compare.kept(clock),
            members: document.verify.iter().map(|pass| pass.kept(clock)).collect(),
            move_time: document.move_us.map(Duration::from_micros),
        })
    }
}

/// The bytes of a file.
#[must_use]
pub fn encode(kept: &ScrubKept, map_id: [u8; 16], clock: u64) -> Vec<u8> {
    // Maps with keys that are no text cannot be written, and there are none.
    let mut bytes = serde_json::to_vec(&Document::of(kept, map_id, clock)).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// What the bytes of a file say, if it is that of this map. The clock counts seconds since 1970.
#[must_use]
pub fn parse(bytes: &[u8], map_id: [u8; 16], clock: u64) -> Option<ScrubKept> {
    Document::parse(bytes, map_id, clock).ok()
}

/// A volume's file, and the thread that writes it.
#[derive(Debug)]
pub(super) struct ScrubFile {
    map_id: [u8; 16],
    /// The news that were written last, and when.
    written: Option<(u64, Time)>,
    documents: Worker<Vec<u8>>,
}

impl ScrubFile {
    /// The file at a path, and what it says. May block.
    pub fn open(path: PathBuf, map_id: [u8; 16]) -> std::io::Result<(ScrubFile, ScrubKept)> {
        let kept = load(&path, map_id).unwrap_or_else(|why| {
            log::warn!("{}: what is known of scrubs is lost: {why}; they begin anew", path.display());
            ScrubKept::default()
        });
        let work = move |waiting: Receiver<Vec<u8>>| {
            let mut is_failing = false;
            for bytes in &waiting {
                // Only the last one counts.
                let bytes = waiting.try_iter().last().unwrap_or(bytes);
                let written = put_file(&path, &bytes);
                if let Err(error) = &written
                    && !is_failing
                {
                    log::warn!("{}: {error}; after a restart, scrubs begin anew", path.display());
                }
                is_failing = written.is_err();
            }
        };
        Ok((ScrubFile { map_id, written: None, documents: Worker::start("scrub-file", work)? }, kept))
    }

    /// When [`ScrubFile::keep`] has something to do at the latest.
    pub fn due(&self, gateway: &Gateway, volume: usize) -> Option<Time> {
        let (news, is_running) = gateway.scrub_news(volume)?;
        let Some((written, at)) = self.written else { return Some(Time::default()) };
        match (news != written, is_running) {
            (true, _) => Some(at + NEWS_EVERY),
            (false, true) => Some(at + PLACE_EVERY),
            (false, false) => None,
        }
    }

    /// Has the file written if that is due, or at the `end`.
    pub fn keep(&mut self, gateway: &Gateway, volume: usize, now: Time, is_end: bool) {
        if !is_end && self.due(gateway, volume).is_none_or(|due| now < due) {
            return;
        }
        let (Some((news, _)), Some(kept)) = (gateway.scrub_news(volume), gateway.scrub_kept(now, volume)) else {
            return;
        };
        self.written = Some((news, now));
        // Fails only if the thread has panicked.
        let _ = self.documents.give(encode(&kept, self.map_id, clock()));
    }
}

/// Seconds since 1970.
pub(super) fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn load(path: &Path, map_id: [u8; 16]) -> Result<ScrubKept, String> {
    match std::fs::metadata(path) {
        Ok(found) if found.len() > FILE_BYTES_MAX => return Err(format!("it has {} bytes", found.len())),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(ScrubKept::default()),
        Err(error) => return Err(error.to_string()),
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    Document::parse(&bytes, map_id, clock())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAP: [u8; 16] = [3; 16];
    const CLOCK: u64 = 1_700_000_000;

    fn pass() -> impl Strategy<Value = PassKept> {
        (0..CLOCK, any::<bool>(), prop::option::of(any::<u32>()), any::<bool>()).prop_map(
            |(age, was_done, place, is_forced)| PassKept { age: Duration::from_secs(age), was_done, place, is_forced },
        )
    }

    fn kept() -> impl Strategy<Value = ScrubKept> {
        let bad = (any::<u32>(), any::<u32>(), any::<bool>(), any::<u8>(), any::<[u64; COPIES_MAX]>()).prop_map(
            |(chunk, block, is_unreadable, copies, hashes)| {
                let flaw = if is_unreadable { Flaw::Unreadable } else { Flaw::Differs };
                BadBlock { chunk, block, flaw, copies, hashes }
            },
        );
        let lists = (prop::collection::vec(pass(), 0..9), prop::collection::vec(bad, 0..40));
        let move_time = prop::option::of(any::<u64>().prop_map(Duration::from_micros));
        (pass(), lists, move_time).prop_map(|(compare, (members, bad), move_time)| ScrubKept {
            compare,
            members,
            bad,
            move_time,
        })
    }

    proptest! {
        #[test]
        fn what_was_kept_is_known_again(kept in kept(), later in 0u64..1_000_000) {
            let bytes = encode(&kept, MAP, CLOCK);
            prop_assert!(bytes.len() as u64 <= FILE_BYTES_MAX / 20);
            let again = Document::parse(&bytes, MAP, CLOCK + later).unwrap();
            prop_assert_eq!(again.compare.age, kept.compare.age + Duration::from_secs(later));
            prop_assert_eq!(Document::parse(&bytes, MAP, CLOCK).unwrap(), kept);
            prop_assert!(Document::parse(&bytes, [4; 16], CLOCK).is_err());
        }

        #[test]
        fn garbage_is_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(parse(&bytes, MAP, CLOCK), None);
        }
    }

    #[test]
    fn a_full_list_fits_and_a_longer_one_is_cut() {
        let hashes = [u64::MAX; COPIES_MAX];
        let bad = |n| BadBlock { chunk: u32::MAX, block: u32::MAX - n, flaw: Flaw::Unreadable, copies: 255, hashes };
        for count in [BAD_BLOCKS_MAX - 1, BAD_BLOCKS_MAX, BAD_BLOCKS_MAX + 1] {
            let kept = ScrubKept { bad: (0..count as u32).map(bad).collect(), ..ScrubKept::default() };
            let bytes = encode(&kept, MAP, CLOCK);
            assert!(bytes.len() as u64 <= FILE_BYTES_MAX);
            assert_eq!(Document::parse(&bytes, MAP, CLOCK).unwrap().bad.len(), count.min(BAD_BLOCKS_MAX));
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_due() {
        let kept = ScrubKept {
            compare: PassKept { age: Duration::from_secs(5), ..PassKept::default() },
            ..ScrubKept::default()
        };
        let bytes = encode(&kept, MAP, CLOCK);
        assert_eq!(Document::parse(&bytes, MAP, 0).unwrap().compare.age, Duration::ZERO);
    }

    #[test]
    fn a_file_that_is_missing_damaged_or_too_long_is_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.toml.pool.scrub");
        assert_eq!(load(&path, MAP), Ok(ScrubKept::default()));
        let kept = ScrubKept { compare: PassKept { place: Some(7), ..PassKept::default() }, ..ScrubKept::default() };
        put_file(&path, &encode(&kept, MAP, clock())).unwrap();
        assert_eq!(load(&path, MAP).unwrap().compare.place, Some(7));
        for content in [&b"{"[..], b"{\"format\":2}", b""] {
            std::fs::write(&path, content).unwrap();
            assert!(load(&path, MAP).is_err());
            let (_file, kept) = ScrubFile::open(path.clone(), MAP).unwrap();
            assert_eq!(kept, ScrubKept::default());
        }
        for (bytes, why) in [(FILE_BYTES_MAX, "expected value"), (FILE_BYTES_MAX + 1, "it has 1048577 bytes")] {
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            let text = load(&path, MAP).unwrap_err();
            assert!(text.contains(why), "{text}");
        }
    }
}

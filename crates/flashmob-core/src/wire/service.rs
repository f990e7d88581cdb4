//! Service frames: how long a node's store took for what it did in about the last second.
//!
//! They are sent only to gateways whose hello asks for them, each second in which the node did something, on one link of each gateway. They are
//! for display: no request waits for one. A later version may append fields, which this one ignores.

use super::frame::{Fields, FrameKind, WireError, encode_frame};
use crate::buckets::{BUCKETS, Buckets};

/// The most that a share may be, in thousandths.
pub const PERMILLE_MAX: u16 = 1000;
/// A share that the node does not know.
const UNKNOWN: u16 = u16::MAX;

/// What a node did in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Service {
    /// Its length in milliseconds; longer ones count as 65,535.
    pub period_ms: u16,
    /// Thousandths of it in which the node's loop ran.
    pub running_permille: Option<u16>,
    /// Thousandths of it in which the loop could have run, and waited for a processor.
    pub starved_permille: Option<u16>,
    /// Pieces that were answered without a thread of the store: from the page cache, or by the loop itself.
    pub at_once: u32,
    /// Operations of the store.
    pub store_operations: u32,
    /// How long the store took, for each piece. Of those that were answered at once the mean of their batch.
    pub flash: Buckets,
}

/// Appends a service frame.
pub fn put_service(out: &mut Vec<u8>, service: &Service) {
    let counts = &service.flash.0;
    let first = counts.iter().position(|&count| count > 0).unwrap_or(BUCKETS);
    let end = counts.iter().rposition(|&count| count > 0).map_or(first, |last| last + 1);
    let share = |permille: Option<u16>| permille.map_or(UNKNOWN, |permille| permille.min(PERMILLE_MAX));
    let meta = |meta: &mut Vec<u8>| {
        for number in [service.period_ms, share(service.running_permille), share(service.starved_permille)] {
            meta.extend_from_slice(&number.to_le_bytes());
        }
        meta.extend_from_slice(&[first as u8, (end - first) as u8]);
        for number in [service.at_once, service.store_operations].iter().chain(&counts[first..end]) {
            meta.extend_from_slice(&number.to_le_bytes());
        }
    };
    encode_frame(out, FrameKind::Service, meta, |_| ());
}

/// Decodes a service frame's meta.
pub fn decode_service(meta: &[u8]) -> Result<Service, WireError> {
    let mut fields = Fields::new(meta, "service");
    let share = |permille: u16| match permille {
        UNKNOWN => Ok(None),
        0..=PERMILLE_MAX => Ok(Some(permille)),
        _ => Err(WireError::Malformed("service: share")),
    };
    let period_ms = fields.u16()?;
    let (running_permille, starved_permille) = (share(fields.u16()?)?, share(fields.u16()?)?);
    let (first, count) = (usize::from(fields.u8()?), usize::from(fields.u8()?));
    let (at_once, store_operations) = (fields.u32()?, fields.u32()?);
    let mut flash = Buckets::default();
    let Some(counts) = flash.0.get_mut(first..first + count) else {
        return Err(WireError::Malformed("service: buckets"));
    };
    for bucket in counts {
        *bucket = fields.u32()?;
    }
    Ok(Service { period_ms, running_permille, starved_permille, at_once, store_operations, flash })
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Decoded, decode_frame};
    use super::*;
    use proptest::prelude::*;

    fn meta_of(service: &Service) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_service(&mut bytes, service);
        match decode_frame(&bytes) {
            Ok(Decoded::Frame(frame, taken)) if frame.kind == FrameKind::Service && taken == bytes.len() => {
                frame.meta.to_vec()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_later_version_appends_is_ignored() {
        let service = Service { at_once: 7, ..Service::default() };
        let mut meta = meta_of(&service);
        meta.extend_from_slice(b"more");
        assert_eq!(decode_service(&meta), Ok(service));
    }

    #[test]
    fn shares_and_buckets_have_limits() {
        let meta = meta_of(&Service { running_permille: Some(1000), ..Service::default() });
        let with = |at: usize, value: u8| {
            let mut meta = meta.clone();
            meta[at] = value;
            decode_service(&meta).map(drop)
        };
        assert_eq!(with(2, 0xe8), Ok(()), "1000");
        assert!(with(2, 0xe9).is_err(), "1001");
        assert_eq!(with(6, 32), Ok(()), "no buckets");
        assert!(with(6, 33).is_err());
        assert!(with(7, 1).is_err(), "one above the last");
        assert!(decode_service(&meta[..meta.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn a_service_survives_the_wire(
            (period_ms, at_once, store_operations) in any::<(u16, u32, u32)>(),
            running_permille in prop::option::of(0..=PERMILLE_MAX),
            starved_permille in prop::option::of(0..=PERMILLE_MAX),
            counts in any::<[u32; BUCKETS]>(),
            range in (0..=BUCKETS, 0..=BUCKETS),
        ) {
            let mut flash = Buckets(counts);
            let range = range.0.min(range.1)..range.0.max(range.1);
            flash.0.iter_mut().enumerate().filter(|(at, _)| !range.contains(at)).for_each(|(_, count)| *count = 0);
            let service = Service { period_ms, running_permille, starved_permille, at_once, store_operations, flash };
            prop_assert_eq!(decode_service(&meta_of(&service)), Ok(service));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(meta in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(service) = decode_service(&meta) {
                prop_assert_eq!(decode_service(&meta_of(&service)), Ok(service));
            }
        }
    }
}

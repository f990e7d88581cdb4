//! The rate of one node's modelled flash alone, as the limit for a cluster.

use flashmob_core::units::Time;

use crate::flash::{FlashModel, Op, Profile, ProfileError, Request, Scheduler};
use crate::random::Random;

/// Number of requests of a measurement.
const REQUESTS: u64 = 20_000;

/// Random requests per second of one device alone, as measured by its benchmark with one thread per slot: unsorted,
/// each thread with one outstanding. The gain of sorting is not included.
///
/// # Errors
/// A number of the profile is out of range.
pub fn own_limit(
    profile: &Profile,
    extent_bytes: u64,
    block_bytes: u32,
    read_percent: f64,
) -> Result<f64, ProfileError> {
    let mut model = FlashModel::new(profile, Scheduler::None, extent_bytes, 1)?;
    let mut random = Random::new(2);
    let block = u64::from(block_bytes).clamp(1, extent_bytes);
    let mut now = Time::default();
    let (mut submitted, mut done) = (0, Vec::new());
    let mut submit = |model: &mut FlashModel, now: Time, submitter: u32| {
        let number = (u128::from(random.next()) * u128::from(extent_bytes / block)) >> 64;
        let offset_bytes = u64::try_from(number).unwrap_or(0) * block;
        let is_read = (random.next() % 10_000) as f64 / 100.0 < read_percent;
        let op = if is_read { Op::Read } else { Op::Write };
        // The request lies in the extent and is not empty; one that is too long is refused, and does no work.
        let _ = model.submit(now, Request { id: u64::from(submitter), submitter, op, offset_bytes, len_bytes: block });
        submitted += 1;
        submitted
    };
    for submitter in 0..profile.slots {
        submit(&mut model, now, submitter);
    }
    let mut served = 0;
    while let Some(next) = model.next_event() {
        now = next;
        model.advance(now, &mut done);
        for completion in done.drain(..) {
            served += 1;
            if submit(&mut model, now, completion.id as u32) >= REQUESTS {
                return Ok(served as f64 / (now.as_nanos() as f64 / 1e9));
            }
        }
    }
    Ok(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_tablet_does_2100_reads_each_second() {
        let limit = own_limit(&Profile::named("nexus7-emmc").unwrap(), 10_000_000_000, 1, 100.0).unwrap();
        assert!((2_050.0..2_150.0).contains(&limit), "{limit}");
    }
}

//! Events of the block layer as commands: the issue of each with its completion.
//!
//! They are matched by their first sector: a device never has two overlapping commands at once. A command that is issued again before its
//! completion counts from the last issue. Commands whose issue or completion is outside the capture are left out, as are flushes and
//! discards, which transfer nothing. A command that completes in parts counts as complete with the first part.

use std::collections::HashMap;

use flashmob_results::commands::Served;
use flashmob_results::disk::Operation;
use flashmob_trace::record::Record;

pub(super) const ISSUE: &str = "block_rq_issue";
pub(super) const COMPLETE: &str = "block_rq_complete";
/// The unit of block events, whatever the disk's own sectors are.
const SECTOR_BYTES: u64 = 512;

/// Commands in the order of their issue.
pub(super) fn paired(records: &[Record<'_>]) -> Vec<Served> {
    let events = records.iter().filter_map(|record| {
        let is_issue = record.is("block", ISSUE);
        if !is_issue && !record.is("block", COMPLETE) {
            return None;
        }
        let bytes = record.number("nr_sector")?.checked_mul(SECTOR_BYTES)?;
        let direction = direction(&record.text("rwbs")?).filter(|_| bytes > 0)?;
        let sector = record.number("sector")?;
        Some(Moment { time_ns: record.time_ns, is_issue, sector, bytes, direction })
    });
    of_moments(events)
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    time_ns: u64,
    is_issue: bool,
    sector: u64,
    bytes: u64,
    direction: Operation,
}

fn of_moments(moments: impl Iterator<Item = Moment>) -> Vec<Served> {
    let mut all: Vec<(Served, bool)> = Vec::new();
    let mut under_way: HashMap<u64, usize> = HashMap::new();
    for moment in moments {
        if !moment.is_issue {
            if let Some((served, is_done)) = under_way.remove(&moment.sector).and_then(|at| all.get_mut(at)) {
                (served.end_ns, *is_done) = (moment.time_ns, true);
            }
            continue;
        }
        let Some(address_bytes) = moment.sector.checked_mul(SECTOR_BYTES) else { continue };
        under_way.insert(moment.sector, all.len());
        let served = Served {
            begin_ns: moment.time_ns,
            end_ns: moment.time_ns,
            direction: moment.direction,
            address_bytes,
            bytes: moment.bytes,
            outstanding: u32::try_from(under_way.len()).unwrap_or(u32::MAX),
        };
        all.push((served, false));
    }
    all.into_iter().filter(|(_, is_done)| *is_done).map(|(served, _)| served).collect()
}

/// `RA`, `WS`, `FWFS`: reads or writes, after an `F` for a flush before them.
fn direction(rwbs: &str) -> Option<Operation> {
    match rwbs.trim_start_matches('F').chars().next()? {
        'R' => Some(Operation::Read),
        'W' => Some(Operation::Write),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(time_ns: u64, is_issue: bool, sector: u64) -> Moment {
        Moment { time_ns, is_issue, sector, bytes: 4_096, direction: Operation::Read }
    }

    #[test]
    fn an_issue_and_a_completion_of_one_sector_are_a_command() {
        let moments = [
            // Its issue was before the capture.
            moment(5, false, 800),
            moment(10, true, 16),
            moment(20, true, 8),
            moment(30, false, 8),
            moment(40, false, 16),
            moment(50, true, 16),
            moment(70, false, 16),
            // Its completion comes after the capture.
            moment(80, true, 24),
        ];
        let all = of_moments(moments.into_iter());
        let told: Vec<_> = all.iter().map(|s| (s.begin_ns, s.end_ns, s.address_bytes, s.outstanding)).collect();
        assert_eq!(told, [(10, 40, 8_192, 1), (20, 30, 4_096, 2), (50, 70, 8_192, 1)]);
    }

    #[test]
    fn what_is_issued_again_counts_once() {
        let moments = [moment(10, true, 8), moment(20, true, 8), moment(30, false, 8), moment(35, false, 8)];
        let all = of_moments(moments.into_iter());
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].begin_ns, all[0].end_ns), (20, 30));
    }

    #[test]
    fn letters_of_the_kernel_name_the_direction() {
        let of = |text| direction(text);
        assert_eq!([of("R"), of("RA"), of("RSM")], [Some(Operation::Read); 3]);
        assert_eq!([of("WS"), of("FWFS"), of("W")], [Some(Operation::Write); 3]);
        assert_eq!([of("FF"), of("D"), of(""), of("N")], [None; 4]);
    }
}

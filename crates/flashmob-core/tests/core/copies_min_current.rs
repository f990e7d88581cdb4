//! Volumes with copies: changes that need more than one current copy (`min_current`).

use std::time::Duration;

use crate::testing::CopiesBed;
use flashmob_core::copies::Marks;
use flashmob_core::gateway::CopiesSpec;
use flashmob_core::op::{Failure, Op};

const TIMEOUT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(10);

/// Time goes by until calls end, at most so long; the first node answers. Returns how they ended.
fn until_ended(copies: &mut CopiesBed, most: Duration) -> Vec<Result<Vec<u8>, Failure>> {
    let end = copies.bed.now + most;
    while copies.bed.now < end {
        copies.pass(SHORT);
        copies.bed.answer(0);
        let ended = std::mem::take(copies.bed.gateway.completions());
        if !ended.is_empty() {
            return ended.into_iter().map(|completion| completion.result).collect();
        }
    }
    Vec::new()
}

#[test]
fn a_flush_that_is_asked_for_once_a_change_has_failed_waits_for_nothing_more() {
    let set = |spec: &mut CopiesSpec| spec.min_current = 2;
    let mut copies = CopiesBed::build(2, (1, Marks::default()), set, |config| config.volumes[0].timeout = TIMEOUT);
    for _ in 0..2 {
        copies.bed.submit(copies.client, Op::Write, 0, 512);
        let ended = until_ended(&mut copies, TIMEOUT * 2);
        assert_eq!(ended, [Err(Failure::Io)], "the second node never answers");
        copies.bed.submit(copies.client, Op::Flush, 0, 0);
        let ended = until_ended(&mut copies, TIMEOUT * 2);
        assert_eq!(ended.len(), 1, "the flush is answered");
    }
}

//! The loss of chunks is accepted whose only current copies are gone for good.

use flashmob_core::gateway::{AcceptLossError, AcceptedLoss, MoveError};
use flashmob_core::units::Time;

use super::server::GatewayServer;
use crate::status::replace::Refusal;
use crate::status::volumes::{ACCEPTED_RANGES_MAX, AcceptLossAnswer, AcceptLossRequest, AcceptedRange};

impl GatewayServer {
    /// Returns the answer, and the volume with the number of the record that must be durable.
    pub(super) fn accept_loss(
        &mut self,
        now: Time,
        request: &AcceptLossRequest,
    ) -> Result<(AcceptLossAnswer, (usize, u64)), Refusal> {
        if request.nodes.is_empty() {
            return Err(Refusal::Bad("name a node that is gone for good".to_string()));
        }
        let volume = self.volume_named(&request.volume)?;
        let refused = |error: AcceptLossError| match error {
            AcceptLossError::Undecided(MoveError::NoNode { .. }) => Refusal::Unknown(error.to_string()),
            _ => Refusal::Conflict(error.to_string()),
        };
        let looked = self.gateway.accept_loss(now, volume, &request.nodes, true).map_err(refused)?;
        if let Some(shown) = request.chunks.filter(|&shown| shown as usize != looked.chunks.len()) {
            let found = looked.chunks.len();
            return Err(Refusal::Conflict(format!("it is {found} chunks by now, and not {shown}; look at it again")));
        }
        if request.dry_run {
            return Ok((self.accepted(volume, request, &looked), (volume, 0)));
        }
        let accepted = self.gateway.accept_loss(now, volume, &request.nodes, false).map_err(refused)?;
        let answer = self.accepted(volume, request, &accepted);
        log_accepted(&request.volume, &answer.ranges, answer.chunks);
        Ok((answer, (volume, accepted.number)))
    }

    fn accepted(&self, volume: usize, request: &AcceptLossRequest, accepted: &AcceptedLoss) -> AcceptLossAnswer {
        let (ranges, unlisted_chunks) = self.ranges_of(volume, accepted);
        AcceptLossAnswer {
            volume: request.volume.clone(),
            nodes: request.nodes.clone(),
            chunks: accepted.chunks.len() as u32,
            ranges,
            unlisted_chunks,
            chunks_without_copy: accepted.without_copy.clone(),
        }
    }

    /// Where the chunks lie in a volume, and how many found no room in the list.
    pub(super) fn ranges_of(&self, volume: usize, accepted: &AcceptedLoss) -> (Vec<AcceptedRange>, u32) {
        let chunk_bytes = self.gateway.map(volume).map_or(0, |map| map.chunk_bytes());
        ranges_of(chunk_bytes, &accepted.chunks)
    }
}

/// Tells the log what was accepted.
pub(super) fn log_accepted(volume: &str, ranges: &[AcceptedRange], chunks: u32) {
    let first = ranges.first().map_or(0, |range| range.offset_bytes);
    log::warn!(
        "volume {volume}: the loss of changes of {chunks} chunks is accepted (the first is at byte {first}); copies that lacked them are current"
    );
}

fn ranges_of(chunk_bytes: u64, chunks: &[(u32, u16)]) -> (Vec<AcceptedRange>, u32) {
    let mut ranges: Vec<AcceptedRange> = Vec::new();
    for (at, &(chunk, member)) in chunks.iter().enumerate() {
        let (offset_bytes, node) = (u64::from(chunk) * chunk_bytes, usize::from(member));
        let follows =
            |range: &&mut AcceptedRange| range.node == node && range.offset_bytes + range.bytes == offset_bytes;
        let is_full = ranges.len() >= ACCEPTED_RANGES_MAX;
        match ranges.last_mut().filter(follows) {
            Some(range) => range.bytes += chunk_bytes,
            None if !is_full => {
                ranges.push(AcceptedRange { offset_bytes, bytes: chunk_bytes, node });
            }
            None => return (ranges, (chunks.len() - at) as u32),
        }
    }
    (ranges, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_on_one_node_are_one_range() {
        let (ranges, unlisted) = ranges_of(4, &[(0, 1), (1, 1), (2, 0), (5, 0), (6, 0)]);
        let ranges: Vec<_> = ranges.iter().map(|range| (range.offset_bytes, range.bytes, range.node)).collect();
        assert_eq!((ranges, unlisted), (vec![(0, 8, 1), (8, 4, 0), (20, 8, 0)], 0));
    }

    #[test]
    fn the_list_has_a_limit() {
        for (more, listed, unlisted) in
            [(-1, ACCEPTED_RANGES_MAX - 1, 0), (0, ACCEPTED_RANGES_MAX, 0), (1, ACCEPTED_RANGES_MAX, 1)]
        {
            let count = (ACCEPTED_RANGES_MAX as i64 + more) as u32;
            let chunks: Vec<_> = (0..count).map(|n| (2 * n, 0)).collect();
            let (ranges, left) = ranges_of(4, &chunks);
            assert_eq!((ranges.len(), left), (listed, unlisted), "{count} ranges");
        }
    }
}

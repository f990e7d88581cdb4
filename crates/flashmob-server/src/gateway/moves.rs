//! Copies are moved: nodes are drained, and volumes are balanced.

use std::sync::mpsc::SyncSender;

use flashmob_core::gateway::{MoveError, MovesStatus, Outlook};
use flashmob_core::units::Time;
use flashmob_core::wire::digest::{DIGEST_BLOCK_BYTES, DIGEST_BYTES};

use super::server::GatewayServer;
use crate::status::change::Change;
use crate::status::replace::Refusal;
use crate::status::volumes::{MoveAnswer, MoveRequest, MovesDetails};

/// Bytes that are hashed for each byte of hashes.
const HASHED_PER_HASH: u64 = DIGEST_BLOCK_BYTES as u64 / DIGEST_BYTES as u64;

/// What was decided about moves, and the map does not have durably yet.
#[derive(Debug)]
pub(super) struct UnrecordedMove {
    volume: usize,
    /// The number of its record.
    number: u64,
    to: SyncSender<Result<MoveAnswer, Refusal>>,
    answer: MoveAnswer,
}

impl GatewayServer {
    /// Has copies moved, and answers once that is on record.
    pub(super) fn move_copies(&mut self, now: Time, asked: Change<MoveRequest, MoveAnswer>) {
        let MoveRequest { ref volume, node, cancel, dry_run } = asked.request;
        let answer = self.volume_named(volume).and_then(|place| {
            let outlook = match node {
                Some(number) => self.gateway.drain_node(now, place, number, !cancel, dry_run),
                None => self.gateway.balance(now, place, !cancel, dry_run),
            };
            let Outlook { copies, bytes, number } = outlook.map_err(|error| match error {
                MoveError::NoNode { .. } => Refusal::Unknown(error.to_string()),
                _ => Refusal::Conflict(error.to_string()),
            })?;
            let air_bytes = 2 * (bytes + bytes / HASHED_PER_HASH);
            Ok((MoveAnswer { volume: volume.clone(), node, copies, bytes, air_bytes }, place, number))
        });
        match answer {
            Ok((answer, volume, number)) if !dry_run => {
                let what = asked
                    .request
                    .node
                    .map_or("its nodes are filled evenly".to_string(), |node| format!("node {node} is drained"));
                let no_longer = if cancel { ": cancelled" } else { "" };
                log::info!("volume {}: {what}{no_longer}", asked.request.volume);
                self.unrecorded_moves.push(UnrecordedMove { volume, number, to: asked.answer, answer });
                self.tell_recorded_moves();
            }
            // The receiver may have timed out.
            Ok((answer, ..)) => drop(asked.answer.try_send(Ok(answer))),
            Err(refusal) => drop(asked.answer.try_send(Err(refusal))),
        }
    }

    /// Answers those who wait until it is on record.
    pub(super) fn tell_recorded_moves(&mut self) {
        let is_recorded = |asked: &mut UnrecordedMove| self.gateway.is_recorded(asked.volume, asked.number);
        for UnrecordedMove { to, answer, .. } in self.unrecorded_moves.extract_if(.., is_recorded) {
            // The receiver may have timed out.
            let _ = to.try_send(Ok(answer));
        }
        let now = self.clock.now();
        let why_not =
            |asked: &UnrecordedMove| self.gateway.copies_status(now, asked.volume).and_then(|status| status.deposed);
        for asked in self.unrecorded_moves.extract_if(.., |asked| why_not(asked).is_some()) {
            let text = "another gateway is in charge of the volume".to_string();
            let _ = asked.to.try_send(Err(Refusal::Conflict(text)));
        }
    }
}

/// What moves, for the report.
pub(super) fn details(moves: &MovesStatus, chunk_bytes: u64) -> MovesDetails {
    let left_bytes = moves.left * chunk_bytes;
    let bytes_per_second = moves.bytes_per_s.filter(|rate| moves.left > 0 && *rate > 0.0);
    MovesDetails {
        is_balancing: moves.is_balancing,
        left_copies: moves.left,
        left_bytes,
        stranded_copies: moves.stranded,
        unreadable_chunks: moves.unreadable,
        without_source_chunks: moves.without_source,
        waits_for_node: moves.waits_for.map(usize::from),
        was_cancelled: moves.was_cancelled,
        bytes_per_second,
        eta_seconds: bytes_per_second.map(|rate| left_bytes as f64 / rate),
    }
}

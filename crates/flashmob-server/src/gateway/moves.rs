//! Copies are moved: nodes are drained, and volumes are balanced.

use flashmob_core::gateway::{MoveError, MovesStatus, Outlook};
use flashmob_core::units::Time;
use flashmob_core::wire::digest::{DIGEST_BLOCK_BYTES, DIGEST_BYTES};

use super::server::GatewayServer;
use crate::status::change::Change;
use crate::status::replace::Refusal;
use crate::status::volumes::{MoveAnswer, MoveRequest, MovesDetails};

/// Bytes that are hashed for each byte of hashes.
const HASHED_PER_HASH: u64 = DIGEST_BLOCK_BYTES as u64 / DIGEST_BYTES as u64;

impl GatewayServer {
    /// Has copies moved, and answers once that is on record.
    pub(super) fn move_copies(&mut self, now: Time, asked: Change<MoveRequest, MoveAnswer>) {
        let MoveRequest { ref volume, node, cancel, dry_run } = asked.request;
        let answer = self.volume_named(volume).and_then(|place| {
            let outlook = match node {
                Some(number) => self.gateway.drain_node(now, place, number, !cancel, dry_run),
                None => self.gateway.balance(now, place, !cancel, dry_run),
            };
            let Outlook { copies, bytes, bytes_per_s, number } = outlook.map_err(|error| match error {
                MoveError::NoNode { .. } => Refusal::Unknown(error.to_string()),
                _ => Refusal::Conflict(error.to_string()),
            })?;
            let air_bytes = 2 * (bytes + bytes / HASHED_PER_HASH);
            let bytes_per_second = bytes_per_s.filter(|rate| *rate > 0.0);
            let eta_seconds = bytes_per_second.map(|rate| bytes as f64 / rate);
            let volume = volume.clone();
            Ok((MoveAnswer { volume, node, copies, bytes, air_bytes, bytes_per_second, eta_seconds }, place, number))
        });
        match answer {
            Ok((answer, volume, number)) if !dry_run => {
                let what = asked
                    .request
                    .node
                    .map_or("its nodes are filled evenly".to_string(), |node| format!("node {node} is drained"));
                let no_longer = if cancel { ": cancelled" } else { "" };
                log::info!("volume {}: {what}{no_longer}", asked.request.volume);
                self.answer_recorded(Ok((answer, (volume, number))), asked.answer);
            }
            // The receiver may have timed out.
            Ok((answer, ..)) => drop(asked.answer.try_send(Ok(answer))),
            Err(refusal) => drop(asked.answer.try_send(Err(refusal))),
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

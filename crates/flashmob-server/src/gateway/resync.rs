//! A node's copies are compared with others, and made equal to them.

use flashmob_core::gateway::{MoveError, ResyncError};
use flashmob_core::units::Time;

use super::server::GatewayServer;
use crate::status::replace::Refusal;
use crate::status::volumes::{ResyncAnswer, ResyncRequest};

impl GatewayServer {
    /// Returns the answer, and the volume with the number of the record that must be durable; of a refusal also whether it may be another soon.
    pub(super) fn resync(
        &mut self,
        now: Time,
        request: &ResyncRequest,
    ) -> Result<(ResyncAnswer, (usize, u64)), (Refusal, bool)> {
        let volume = self.volume_named(&request.volume).map_err(|refusal| (refusal, false))?;
        let resynced = self.gateway.resync_node(now, volume, request.node).map_err(|error| match error {
            ResyncError::Undecided(MoveError::NoNode { .. }) => (Refusal::Unknown(error.to_string()), false),
            ResyncError::NotHeard(_) => (Refusal::Conflict(error.to_string()), true),
            _ => (Refusal::Conflict(error.to_string()), false),
        })?;
        log::warn!(
            "volume {}: the {} copies on node {} are compared with others and made equal to them",
            request.volume,
            resynced.copies,
            request.node
        );
        let answer = ResyncAnswer { volume: request.volume.clone(), node: request.node, copies: resynced.copies };
        Ok((answer, (volume, resynced.number)))
    }
}

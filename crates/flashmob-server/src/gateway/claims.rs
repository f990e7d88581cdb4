//! Claims of nodes that another gateway is in charge: their mirrors are got and verified, on a thread for each.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use flashmob_core::copies::{Found, Terms, Verify, verified};
use flashmob_core::gateway::Proof;
use flashmob_core::units::Time;

use super::from_nodes::{Asking, Told, ask};
use super::links::NodePlace;
use super::server::GatewayServer;
use crate::config::NodeSource;
use crate::keys::GatewayKeys;

/// Answers to claims.
#[derive(Debug)]
pub(super) struct Claims {
    answers: Receiver<(usize, Proof)>,
    answer_to: Sender<(usize, Proof)>,
}

impl Default for Claims {
    fn default() -> Claims {
        let (answer_to, answers) = channel();
        Claims { answers, answer_to }
    }
}

impl GatewayServer {
    /// Begins to verify what a node says.
    pub(super) fn verify_claim(&mut self, node: usize, within: Duration) {
        let (answer_to, wake) = (self.claims.answer_to.clone(), self.wake.clone());
        let address = match self.links.places.get(node) {
            Some(NodePlace::Remote(place, ..)) => place.likeliest().to_string(),
            Some(NodePlace::Local(_)) | None => {
                let _ = answer_to.send((node, Proof::Trusted));
                return wake.wake();
            }
        };
        let Some(Ok(keys)) = self.links.keys().map(GatewayKeys::again) else {
            let _ = answer_to.send((node, Proof::Nothing));
            return wake.wake();
        };
        let verifying = std::thread::Builder::new().name("claim".to_string()).spawn({
            let (answer_to, wake) = (answer_to.clone(), wake.clone());
            move || {
                let asking = Asking { keys: Some(&keys), within: Some(within), ..Asking::default() };
                let proof =
                    ask(&NodeSource::Remote { address }, &asking).map_or(Proof::Nothing, |told| shown(&told, &keys));
                // The loop may have ended.
                let _ = answer_to.send((node, proof));
                wake.wake();
            }
        });
        if let Err(error) = verifying {
            log::warn!("a node's mirror cannot be verified: {error}");
            let _ = answer_to.send((node, Proof::Nothing));
            wake.wake();
        }
    }

    /// Takes the answers.
    pub(super) fn take_claims(&mut self, now: Time) {
        while let Ok((node, proof)) = self.claims.answers.try_recv() {
            self.gateway.claim_answered(now, node, proof);
        }
    }
}

/// The proof in a node's mirror.
fn shown(told: &Told, keys: &GatewayKeys) -> Proof {
    let verifier = keys.mirror_verifier();
    let terms = Terms { generation: keys.generation(), keys: Some(&verifier as &dyn Verify), ..Terms::default() };
    let found = Found { extent_id: told.extent_id, charge: told.charge, mirror: &told.mirror };
    verified(&found, &terms).map_or(Proof::Nothing, |(map_id, state)| Proof::Shown(map_id, state))
}

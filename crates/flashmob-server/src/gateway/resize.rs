//! Volumes with copies get another size.

use std::collections::HashMap;

use flashmob_core::gateway::{ResizeError, Resized};
use flashmob_core::units::{Bytes, Time};

use super::server::GatewayServer;
use crate::status::change::Change;
use crate::status::replace::Refusal;
use crate::status::volumes::{ResizeAnswer, ResizeRequest, UnderWay};

/// The answer, and the volume with the number of the record that must be durable.
type Decided = (ResizeAnswer, (usize, u64));

/// What was to be made smaller last, by volume.
#[derive(Debug, Default)]
pub(super) struct Shrinks {
    last: u64,
    of: HashMap<usize, Asked>,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    request: ResizeRequest,
    /// What came of it. Whoever asked may not have got the answer.
    outcome: Option<Result<Resized, ResizeError>>,
}

impl Asked {
    /// Whether somebody means this one. A gateway that was started again counts anew.
    fn is(&self, number: u64, request: &ResizeRequest) -> bool {
        let of = |request: &ResizeRequest| (request.size_bytes, request.give_up, request.dry_run);
        self.number == number && of(&self.request) == of(request)
    }
}

impl GatewayServer {
    pub(super) fn resize(&mut self, now: Time, asked: Change<ResizeRequest, ResizeAnswer>) {
        let request = &asked.request;
        let place = match self.volume_named(&request.volume) {
            Ok(place) => place,
            // The receiver may have timed out.
            Err(refusal) => return drop(asked.answer.try_send(Err(refusal))),
        };
        let has_bytes = self.gateway.map(place).map_or(0, |map| map.size_bytes());
        if let Some(number) = request.follows {
            let followed = self.follow_shrink(place, request, number);
            self.answer_recorded(followed, asked.answer);
        } else if request.size_bytes < has_bytes {
            let begun = self.begin_shrink(now, place, request);
            self.answer_recorded(begun, asked.answer);
        } else {
            let resized = self.gateway.resize(now, place, request.size_bytes, request.dry_run);
            let grown = resized.map(|resized| decided(place, request, resized)).map_err(refusal);
            let size_bytes = if request.dry_run { 0 } else { request.size_bytes };
            self.answer_with_size(grown, size_bytes, asked.answer);
        }
    }

    fn begin_shrink(&mut self, now: Time, place: usize, request: &ResizeRequest) -> Result<Decided, Refusal> {
        let ResizeRequest { size_bytes, give_up, dry_run, .. } = *request;
        self.gateway.shrink(now, place, size_bytes, give_up, dry_run).map_err(refusal)?;
        self.shrinks.last += 1;
        self.shrinks.of.insert(place, Asked { number: self.shrinks.last, request: request.clone(), outcome: None });
        if !dry_run {
            let (volume, to) = (&request.volume, Bytes(size_bytes));
            let given_up = if give_up { "; what lies behind that is given up" } else { "" };
            log::warn!("volume {volume}: it is to be cut to {to} ({size_bytes} bytes){given_up}");
        }
        Ok(self.shrink_under_way(place, request, self.shrinks.last))
    }

    fn shrink_under_way(&self, place: usize, request: &ResizeRequest, number: u64) -> Decided {
        let from_bytes = self.gateway.map(place).map_or(0, |map| map.size_bytes());
        let resized = Resized { from_bytes, to_bytes: request.size_bytes, number: 0 };
        let (answer, recorded) = decided(place, request, resized);
        let (done_bytes, total_bytes) =
            self.gateway.shrink_status(place).map_or((0, 0), |status| (status.done_bytes, status.total_bytes));
        (ResizeAnswer { under_way: Some(UnderWay { number, done_bytes, total_bytes }), ..answer }, recorded)
    }

    /// How far it is, or what came of it.
    fn follow_shrink(&mut self, place: usize, request: &ResizeRequest, number: u64) -> Result<Decided, Refusal> {
        let Some(asked) = self.shrinks.of.get_mut(&place).filter(|asked| asked.is(number, request)) else {
            return Err(Refusal::Conflict(
                "that is not under way; see what size the volume has, and ask again".to_string(),
            ));
        };
        if asked.outcome.is_none() {
            asked.outcome = self.gateway.take_shrunk(place);
            if let Some(Err(error)) = &asked.outcome {
                log::warn!("volume {}: it is not cut: {error}", request.volume);
            }
        }
        match asked.outcome.clone() {
            Some(outcome) => Ok(decided(place, request, outcome.map_err(refusal)?)),
            None => Ok(self.shrink_under_way(place, request, number)),
        }
    }
}

fn decided(place: usize, request: &ResizeRequest, resized: Resized) -> Decided {
    let Resized { from_bytes, to_bytes, number } = resized;
    let volume = request.volume.clone();
    (ResizeAnswer { volume, from_bytes, size_bytes: to_bytes, under_way: None }, (place, number))
}

fn refusal(error: ResizeError) -> Refusal {
    match error {
        ResizeError::PartOfChunk { .. } => Refusal::Bad(error.to_string()),
        _ => Refusal::Conflict(error.to_string()),
    }
}

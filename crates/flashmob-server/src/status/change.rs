//! A request to scrub a volume, on its way from the thread that answers HTTP to the event loop.
//!
//! As with the replacement of an extent, one that was given up before the loop took it is never carried out.

use std::sync::mpsc::{SyncSender, sync_channel};

use super::replace::{Claim, Refusal};
use super::volumes::{ScrubAnswer, ScrubRequest};
use super::{ANSWER_TIMEOUT, Reporter, VolumeQuestion};

/// A request that the loop has to answer.
#[derive(Debug)]
pub struct Scrubbing {
    /// What is asked for.
    pub request: ScrubRequest,
    /// To be taken before anything is changed.
    pub claim: Claim,
    /// Room for the answer.
    pub answer: SyncSender<Result<ScrubAnswer, Refusal>>,
}

impl Reporter {
    /// Has a volume scrubbed, or that stopped. `claim` is for whoever may give the request up meanwhile. `None` if the loop did not take it
    /// in time, and never will.
    #[must_use]
    pub fn scrub(&self, request: ScrubRequest, claim: Claim) -> Option<Result<ScrubAnswer, Refusal>> {
        let (answer, answers) = sync_channel(1);
        let question = VolumeQuestion::Scrub(Scrubbing { request, claim: claim.clone(), answer });
        self.volumes.as_ref()?.try_send(question).ok()?;
        self.wake.wake();
        match answers.recv_timeout(ANSWER_TIMEOUT) {
            Ok(answer) => Some(answer),
            Err(_) if claim.take() => None,
            // The loop has it in hand.
            Err(_) => answers.recv_timeout(ANSWER_TIMEOUT).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::net::Wake;
    use crate::status::reporter;

    fn request() -> ScrubRequest {
        ScrubRequest { volume: "pool".to_string(), now: true, stop: false }
    }

    #[test]
    fn the_loop_answers_whoever_asked() {
        let (reporter, questions) = reporter(Wake::nobody()).0.with_volumes();
        for expected in
            [Ok(ScrubAnswer { volume: "pool".to_string(), is_running: true }), Err(Refusal::Conflict("no".to_string()))]
        {
            let asked = thread::spawn({
                let reporter = reporter.clone();
                move || reporter.scrub(request(), Claim::default())
            });
            let Ok(VolumeQuestion::Scrub(Scrubbing { request: asked_for, claim, answer })) = questions.recv() else {
                panic!("it was asked for something else");
            };
            assert!(claim.take() && asked_for == request());
            answer.send(expected.clone()).unwrap();
            assert_eq!(asked.join().unwrap(), Some(expected));
        }
    }

    #[test]
    fn without_a_loop_nothing_is_asked() {
        let (of_a_node, _questions) = reporter(Wake::nobody());
        assert_eq!(of_a_node.scrub(request(), Claim::default()), None);
        let (reporter, questions) = reporter(Wake::nobody()).0.with_volumes();
        drop(questions);
        assert_eq!(reporter.scrub(request(), Claim::default()), None);
    }
}

//! A request to change something about a volume or a node, on its way from the thread that answers HTTP to the event loop.
//!
//! As with the replacement of an extent, one that was given up before the loop took it is never carried out.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use super::replace::{Claim, Refusal};
use super::{ANSWER_TIMEOUT, Reporter, VolumeQuestion};

/// How long the loop may take for what it has in hand: the map has to have it, and mirrors. Whoever asks waits a little longer.
const IN_HAND_TIMEOUT: Duration = Duration::from_secs(7);

/// A request that the loop has to answer.
#[derive(Debug)]
pub struct Change<Q, A> {
    /// What is asked for.
    pub request: Q,
    /// To be taken before anything is changed.
    pub claim: Claim,
    /// Room for the answer.
    pub answer: SyncSender<Result<A, Refusal>>,
}

impl<Q, A> Change<Q, A> {
    /// Lets `work` carry it out, unless it was given up.
    pub fn carry_out(self, work: impl FnOnce(&Q) -> Result<A, Refusal>) {
        if self.claim.take() {
            // The receiver may have timed out.
            let _ = self.answer.try_send(work(&self.request));
        }
    }
}

/// How a request for a change ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<A> {
    /// The loop carried it out, or refused it.
    Given(Result<A, Refusal>),
    /// The loop did not take it in time, and never will.
    NotTaken,
    /// The loop took it, and ended or did not answer in time: it may have been carried out.
    Unknown,
}

impl Reporter {
    /// Asks the loop for a change: `question` says which. `claim` is for whoever may give the request up meanwhile.
    #[must_use]
    pub fn change<Q, A>(
        &self,
        question: impl FnOnce(Change<Q, A>) -> VolumeQuestion,
        request: Q,
        claim: Claim,
    ) -> Answer<A> {
        self.change_within(question, request, claim, (ANSWER_TIMEOUT, IN_HAND_TIMEOUT))
    }

    /// Asks for a change with other times: until the loop has taken the request, and from then until the answer.
    fn change_within<Q, A>(
        &self,
        question: impl FnOnce(Change<Q, A>) -> VolumeQuestion,
        request: Q,
        claim: Claim,
        (taken, answered): (Duration, Duration),
    ) -> Answer<A> {
        let (answer, answers) = sync_channel(1);
        let question = question(Change { request, claim: claim.clone(), answer });
        let is_taken = self.volumes.as_ref().is_some_and(|volumes| volumes.try_send(question).is_ok());
        if !is_taken {
            return Answer::NotTaken;
        }
        self.wake.wake();
        match answers.recv_timeout(taken) {
            Ok(answer) => Answer::Given(answer),
            Err(_) if claim.take() => Answer::NotTaken,
            // The loop has it in hand.
            Err(_) => answers.recv_timeout(answered).map_or(Answer::Unknown, Answer::Given),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::net::Wake;
    use crate::status::reporter;
    use crate::status::volumes::{ScrubAnswer, ScrubRequest};

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
                move || reporter.change(VolumeQuestion::Scrub, request(), Claim::default())
            });
            let Ok(VolumeQuestion::Scrub(Change { request: asked_for, claim, answer })) = questions.recv() else {
                panic!("it was asked for something else");
            };
            assert!(claim.take() && asked_for == request());
            answer.send(expected.clone()).unwrap();
            assert_eq!(asked.join().unwrap(), Answer::Given(expected));
        }
    }

    #[test]
    fn without_a_loop_nothing_is_asked() {
        let (of_a_node, _questions) = reporter(Wake::nobody());
        assert_eq!(of_a_node.change(VolumeQuestion::Scrub, request(), Claim::default()), Answer::NotTaken);
        let (reporter, questions) = reporter(Wake::nobody()).0.with_volumes();
        drop(questions);
        assert_eq!(reporter.change(VolumeQuestion::Scrub, request(), Claim::default()), Answer::NotTaken);
    }

    #[test]
    fn a_request_that_the_loop_has_taken_may_have_been_carried_out() {
        let (reporter, questions) = reporter(Wake::nobody()).0.with_volumes();
        let (never, long) = (Duration::ZERO, Duration::from_secs(600));
        let ask = |claim: Claim, times| reporter.change_within(VolumeQuestion::Scrub, request(), claim, times);
        // Nobody takes it.
        assert_eq!(ask(Claim::default(), (never, long)), Answer::NotTaken);
        let Ok(VolumeQuestion::Scrub(late)) = questions.recv() else { panic!("nothing was asked") };
        assert!(!late.claim.take(), "it was given up");
        // It is taken, and there is no answer in time.
        let claim = Claim::default();
        assert!(claim.take());
        assert_eq!(ask(claim, (never, never)), Answer::Unknown);
        // It is taken, and the loop ends.
        let taken = Claim::default();
        assert!(taken.take());
        let the_loop = thread::spawn(move || questions.iter().take(2).for_each(drop));
        assert_eq!(ask(taken, (long, long)), Answer::Unknown);
        the_loop.join().unwrap();
    }
}

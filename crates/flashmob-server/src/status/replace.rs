//! A request to give up an extent, on its way from the thread that answers HTTP to the event loop.
//!
//! Whoever asked learns what became of it. A request that was given up before the loop took it is never carried out; one that the loop took is
//! answered once the map has it durably, or the answer says that it has not yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::volumes::{ReplaceAnswer, ReplaceRequest};
use super::{ANSWER_TIMEOUT, Reporter, VolumeQuestion};

/// How long the map may take to record it. With the time to be taken by the loop, less than a client waits.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// Decides between the loop, which carries a request out, and whoever gives it up: the first has it.
#[derive(Debug, Clone, Default)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// True for the first who calls it.
    #[must_use]
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// Gives a request up when it is dropped: nobody waits for its answer any more.
#[derive(Debug)]
pub struct Asking(pub Claim);

impl Drop for Asking {
    fn drop(&mut self) {
        let _ = self.0.take();
    }
}

/// A request that the loop has to answer.
#[derive(Debug)]
pub struct Replacement {
    /// What is asked for.
    pub request: ReplaceRequest,
    /// To be taken before anything is changed.
    pub claim: Claim,
    /// Room for all that is told.
    pub news: SyncSender<News>,
}

/// What the loop tells of a request.
#[derive(Debug)]
pub enum News {
    /// Nothing was changed.
    Refused(Refusal),
    /// It is decided; nothing else is told before it is durable.
    Decided(ReplaceAnswer),
    /// The map has it durably.
    Recorded,
}

/// Why a request is refused. The text is for who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It makes no sense.
    Bad(String),
    /// There is no such volume or node.
    Unknown(String),
    /// It cannot be done as things are.
    Conflict(String),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was changed.
    Refused(Refusal),
    /// It was carried out; [`ReplaceAnswer::is_recorded`] says whether durably.
    Replaced(ReplaceAnswer),
    /// The loop did not take it in time, and never will: nothing was changed.
    NotTaken,
    /// The loop took it and did not answer.
    Unknown,
}

impl Reporter {
    /// Gives up the extent of a node. `claim` is for whoever may give the request up meanwhile.
    #[must_use]
    pub fn replace(&self, request: ReplaceRequest, claim: Claim) -> Outcome {
        self.replace_within(request, claim, ANSWER_TIMEOUT, RECORD_TIMEOUT)
    }

    fn replace_within(&self, request: ReplaceRequest, claim: Claim, taken: Duration, recorded: Duration) -> Outcome {
        let (sender, news) = sync_channel(2);
        let question = VolumeQuestion::Replace(Replacement { request, claim: claim.clone(), news: sender });
        if self.volumes.as_ref().is_none_or(|asks| asks.try_send(question).is_err()) {
            return Outcome::NotTaken;
        }
        self.wake.wake();
        let first = match news.recv_timeout(taken) {
            Err(_) if claim.take() => return Outcome::NotTaken,
            Err(RecvTimeoutError::Timeout) => news.recv_timeout(recorded),
            first => first,
        };
        match first {
            Ok(News::Refused(why)) => Outcome::Refused(why),
            Ok(News::Decided(answer)) => {
                let is_recorded = matches!(news.recv_timeout(recorded), Ok(News::Recorded));
                Outcome::Replaced(ReplaceAnswer { is_recorded, ..answer })
            }
            Ok(News::Recorded) | Err(_) => Outcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::thread;

    use super::*;
    use crate::net::Wake;
    use crate::status::reporter;

    /// For what never comes.
    const NEVER: Duration = Duration::ZERO;
    /// For what comes for certain.
    const LONG: Duration = Duration::from_secs(60);

    fn request() -> ReplaceRequest {
        ReplaceRequest { volume: "pool".to_string(), node: 2, extent: "0".repeat(32), accept_loss: false }
    }

    fn answer() -> ReplaceAnswer {
        ReplaceAnswer {
            given_up: "1".repeat(32),
            taken: "0".repeat(32),
            copies: 8,
            is_named_in_configuration: false,
            is_recorded: false,
            accepted_chunks: 0,
            accepted_ranges: Vec::new(),
            unlisted_chunks: 0,
        }
    }

    fn asked() -> (Reporter, Receiver<VolumeQuestion>) {
        reporter(Wake::nobody()).0.with_volumes()
    }

    fn next(questions: &Receiver<VolumeQuestion>) -> Replacement {
        match questions.recv() {
            Ok(VolumeQuestion::Replace(replacement)) => replacement,
            other => panic!("{other:?}"),
        }
    }

    /// What becomes of a request that a loop takes and tells `news` of; `recorded` is the patience for the second.
    fn outcome(recorded: Duration, news: Vec<News>) -> Outcome {
        let (reporter, questions) = asked();
        let the_loop = thread::spawn(move || {
            let replacement = next(&questions);
            assert!(replacement.claim.take());
            for news in news {
                replacement.news.send(news).unwrap();
            }
        });
        let outcome = reporter.replace_within(request(), Claim::default(), LONG, recorded);
        the_loop.join().unwrap();
        outcome
    }

    #[test]
    fn what_is_durable_says_so_and_what_is_not_does_not() {
        let decided = || News::Decided(answer());
        let recorded = ReplaceAnswer { is_recorded: true, ..answer() };
        assert_eq!(outcome(LONG, vec![decided(), News::Recorded]), Outcome::Replaced(recorded));
        assert_eq!(outcome(NEVER, vec![decided()]), Outcome::Replaced(answer()));
        let why = Refusal::Conflict("no".to_string());
        assert_eq!(outcome(NEVER, vec![News::Refused(why.clone())]), Outcome::Refused(why));
        assert_eq!(outcome(NEVER, vec![]), Outcome::Unknown, "a loop that ended with the request in hand");
    }

    #[test]
    fn a_request_that_was_given_up_is_never_carried_out() {
        let (reporter, questions) = asked();
        assert_eq!(reporter.replace_within(request(), Claim::default(), NEVER, LONG), Outcome::NotTaken);
        assert!(!next(&questions).claim.take(), "the loop must not carry it out");
        let claim = Claim::default();
        drop(Asking(claim.clone()));
        assert!(!claim.take(), "nor one whose asker has left");
    }

    #[test]
    fn without_a_loop_or_with_a_full_queue_nothing_is_asked() {
        let (reporter, questions) = asked();
        for _ in 0..super::super::ASKS_MAX {
            assert_eq!(reporter.replace_within(request(), Claim::default(), NEVER, NEVER), Outcome::NotTaken);
        }
        assert_eq!(questions.try_iter().count(), super::super::ASKS_MAX);
        drop(questions);
        assert_eq!(reporter.replace(request(), Claim::default()), Outcome::NotTaken);
        let (of_a_node, _questions) = crate::status::reporter(Wake::nobody());
        assert_eq!(of_a_node.replace(request(), Claim::default()), Outcome::NotTaken);
    }
}

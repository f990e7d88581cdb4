//! What the answer of an endpoint means, and the error after several endpoints were tried.

use super::answer::BadAnswer;
use super::error::EtcdError;
use super::refusal::{Refusal, refusal};

/// The value or the error in an answer.
pub(super) fn understood<T>(
    status: u16,
    body: &[u8],
    parse: impl Fn(&[u8]) -> Result<T, BadAnswer>,
) -> Result<T, Refusal> {
    if status != 200 {
        return Err(refusal(status, body));
    }
    // An error in a stream comes with status 200.
    parse(body).map_err(|bad| match refusal(status, body) {
        Refusal::Malformed(_) => Refusal::Malformed(bad.0),
        refused => refused,
    })
}

/// The endpoints that were tried, and how they failed.
#[derive(Debug, Default)]
pub(super) struct Tried {
    words: Vec<String>,
    is_unknown: bool,
    is_denied: bool,
}

impl Tried {
    /// Adds one. An error that every endpoint would give ends the call.
    pub fn add(&mut self, endpoint: &str, path: &str, why: Refusal) -> Result<(), EtcdError> {
        let (endpoint, path) = (endpoint.to_string(), path.to_string());
        let words = match why {
            Refusal::NoSpace => return Err(EtcdError::NoSpace),
            Refusal::NoLease => return Err(EtcdError::NoLease),
            Refusal::TooLarge => return Err(EtcdError::TooLarge),
            Refusal::Malformed(reason) => return Err(EtcdError::Malformed { endpoint, path, reason }),
            Refusal::Rejected(message) => return Err(EtcdError::Rejected { endpoint, path, message }),
            Refusal::NotSent(words) => words,
            Refusal::Unknown(words) => {
                self.is_unknown = true;
                words
            }
            Refusal::Denied(words) => {
                self.is_denied = true;
                words
            }
        };
        self.words.push(format!("{endpoint}: {words}"));
        Ok(())
    }

    /// The error of all: if one of them may have executed the request, that counts.
    pub fn error(self) -> EtcdError {
        let tried = self.words.join("; ");
        match (self.is_unknown, self.is_denied) {
            (true, _) => EtcdError::Unknown { tried },
            (false, true) => EtcdError::Denied { tried },
            (false, false) => EtcdError::NotSent { tried },
        }
    }
}

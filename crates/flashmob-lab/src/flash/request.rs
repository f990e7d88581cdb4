//! Requests to a modelled device, and their completions.

use flashmob_core::units::Time;

/// Maximum size of a request in bytes: 128 MiB, four times the common limit of NBD servers.
pub const REQUEST_BYTES_MAX: u64 = 128 << 20;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes into the device's cache.
    Write,
    /// Flushes the device's cache. Offset and length must be 0.
    Flush,
}

/// One request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's id, returned in its [`Completion`]. The model does not interpret it.
    pub id: u64,
    /// The submitting thread, for schedulers that share the device between submitters.
    pub submitter: u32,
    /// The operation.
    pub op: Op,
    /// Offset in bytes.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's `id`.
    pub id: u64,
    /// The time of submission.
    pub submitted: Time,
    /// The begin of service.
    pub started: Time,
    /// The time of completion.
    pub at: Time,
}

/// Why a request is refused. A refused request has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request extends beyond the end of the device: length, offset and device size, in bytes.
    #[error("{0} bytes at {1} reach beyond the end of the modelled device of {2} bytes")]
    BeyondEnd(u64, u64, u64),
    /// A read or write has no bytes.
    #[error("a read or write of 0 bytes; give it at least one")]
    Empty,
    /// A flush has an offset or a length.
    #[error("a flush has no place; leave its offset and length 0")]
    FlushWithPlace,
    /// The length exceeds [`REQUEST_BYTES_MAX`].
    #[error("{0} bytes in one request; cut it into pieces of at most {REQUEST_BYTES_MAX}")]
    TooLong(u64),
    /// Too many requests are waiting: this many, [`super::model::WAITING_MAX`].
    #[error("{0} requests wait for the modelled device already; wait for some to finish")]
    TooMany(usize),
}

impl Request {
    /// Validates the request for a device of `size_bytes`.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn check(&self, size_bytes: u64) -> Result<(), RequestError> {
        let Request { offset_bytes, len_bytes, .. } = *self;
        if self.op == Op::Flush {
            return if (offset_bytes, len_bytes) == (0, 0) { Ok(()) } else { Err(RequestError::FlushWithPlace) };
        }
        if len_bytes == 0 {
            return Err(RequestError::Empty);
        }
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > size_bytes) {
            return Err(RequestError::BeyondEnd(len_bytes, offset_bytes, size_bytes));
        }
        if len_bytes > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLong(len_bytes));
        }
        Ok(())
    }
}

//! Requests to a modelled device, and their completions.

use flashmob_core::units::Time;

/// The longest single request in bytes: 128 MiB, four times what NBD servers commonly allow.
pub const REQUEST_BYTES_MAX: u64 = 128 << 20;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes, until the device has the bytes in its cache.
    Write,
    /// Brings what has been written out of the device's cache. It has no place: offset and length must be 0.
    Flush,
}

/// One request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it, given back in its [`Completion`]. The model never looks at it.
    pub id: u64,
    /// Who asks: the thread. Schedulers that share between askers tell them apart by it.
    pub submitter: u32,
    /// The operation.
    pub op: Op,
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's `id`.
    pub id: u64,
    /// When it came.
    pub submitted: Time,
    /// When a slot began to serve it.
    pub started: Time,
    /// When it was done.
    pub at: Time,
}

/// Why a request is refused. Nothing of it has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Length, offset and the size of the device, in bytes: the request reaches beyond the end.
    #[error("{0} bytes at {1} reach beyond the end of the modelled device of {2} bytes")]
    BeyondEnd(u64, u64, u64),
    /// A read or write of no bytes.
    #[error("a read or write of 0 bytes; give it at least one")]
    Empty,
    /// A flush with an offset or a length.
    #[error("a flush has no place; leave its offset and length 0")]
    FlushWithPlace,
    /// More bytes than [`REQUEST_BYTES_MAX`].
    #[error("{0} bytes in one request; cut it into pieces of at most {REQUEST_BYTES_MAX}")]
    TooLong(u64),
    /// This many requests wait already, [`super::model::WAITING_MAX`].
    #[error("{0} requests wait for the modelled device already; wait for some to finish")]
    TooMany(usize),
}

impl Request {
    /// Whether a device of `size_bytes` can do it.
    ///
    /// # Errors
    /// The first rule that it breaks.
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

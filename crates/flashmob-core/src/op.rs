//! What a request asks for, and how it can end.

/// What a request, and each of its pieces, asks for. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Bytes out of the volume.
    Read = 1,
    /// Bytes into the volume.
    Write = 2,
    /// Everything acknowledged so far onto the flash.
    Flush = 3,
    /// The bytes are no longer needed; they read as zeros or as before until written again.
    Trim = 4,
    /// Zeros into the volume, without sending them.
    WriteZeroes = 5,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes];

    /// The operation with that number on the wire.
    #[must_use]
    pub fn from_wire(byte: u8) -> Option<Op> {
        Op::ALL.into_iter().find(|&op| op as u8 == byte)
    }

    /// Whether it changes what the volume holds.
    #[must_use]
    pub fn mutates(self) -> bool {
        matches!(self, Op::Write | Op::Trim | Op::WriteZeroes)
    }

    /// Its name in metrics and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Trim => "trim",
            Op::WriteZeroes => "write_zeroes",
        }
    }
}

/// Modifiers of an operation, as bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpFlags(pub u8);

impl OpFlags {
    /// No modifier.
    pub const NONE: OpFlags = OpFlags(0);
    /// Force unit access: on the flash before the answer.
    pub const FUA: OpFlags = OpFlags(1);
    /// Write zeroes without making a hole: the space stays allocated.
    pub const NO_HOLE: OpFlags = OpFlags(2);
    /// All bits that have a meaning.
    pub const KNOWN: u8 = 3;

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: OpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: OpFlags) -> OpFlags {
        OpFlags(self.0 | other.0)
    }
}

/// How an operation ended badly. The numbers are those of the wire; 0 there means success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Failure {
    /// The store failed, or the node did not answer in time.
    #[error("input/output error")]
    Io = 1,
    /// The device under the node is full.
    #[error("no space left on the node's device")]
    NoSpace = 2,
    /// The request does not fit the volume or has no meaning.
    #[error("invalid request")]
    Invalid = 3,
    /// The volume is read-only.
    #[error("the volume is read-only")]
    NotPermitted = 4,
    /// A limit on memory does not allow it.
    #[error("not enough memory")]
    NoMemory = 5,
    /// The operation is not supported by the store.
    #[error("not supported")]
    NotSupported = 6,
    /// The gateway or node is shutting down.
    #[error("shutting down")]
    ShuttingDown = 7,
    /// More bytes than a request may have.
    #[error("request too large")]
    TooLarge = 8,
}

impl Failure {
    /// All of them, in the order of their numbers.
    pub const ALL: [Failure; 8] = [
        Failure::Io,
        Failure::NoSpace,
        Failure::Invalid,
        Failure::NotPermitted,
        Failure::NoMemory,
        Failure::NotSupported,
        Failure::ShuttingDown,
        Failure::TooLarge,
    ];

    /// The failure with that number on the wire.
    #[must_use]
    pub fn from_wire(byte: u8) -> Option<Failure> {
        Failure::ALL.into_iter().find(|&f| f as u8 == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_numbers_round_trip_and_others_are_unknown() {
        for op in Op::ALL {
            assert_eq!(Op::from_wire(op as u8), Some(op));
        }
        for f in Failure::ALL {
            assert_eq!(Failure::from_wire(f as u8), Some(f));
        }
        assert_eq!(Op::from_wire(0), None);
        assert_eq!(Op::from_wire(6), None);
        assert_eq!(Failure::from_wire(0), None);
        assert_eq!(Failure::from_wire(9), None);
    }
}

//! Operations of requests, and their failures.

use crate::enums::listed;
use crate::wire::digest;
use crate::wire::map::MAP_BYTES;

listed! {
    /// The operation of a request and of its pieces. The numbers are those of the wire.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Op {
        /// Read bytes.
        Read = 1 => "read",
        /// Write bytes.
        Write = 2 => "write",
        /// Make everything acknowledged so far permanent.
        Flush = 3 => "flush",
        /// Discard bytes; they read as zeros or as before until written again.
        Trim = 4 => "trim",
        /// Write zeros without sending them.
        WriteZeroes = 5 => "write_zeroes",
        /// Tell which bytes are holes: [`wire::map`](crate::wire::map).
        Map = 6 => "map",
        /// Tell a hash of each block, to compare copies of a volume: [`wire::digest`](crate::wire::digest). Clients cannot ask for it.
        Digest = 7 => "digest",
    }
}

impl Op {
    /// Whether it changes what the volume holds.
    #[must_use]
    pub fn mutates(self) -> bool {
        matches!(self, Op::Write | Op::Trim | Op::WriteZeroes)
    }

    /// Whether its answer has a payload.
    #[must_use]
    pub fn returns_data(self) -> bool {
        matches!(self, Op::Read | Op::Map | Op::Digest)
    }

    /// Whether it must not be executed beside an overlapping change: changes keep their order, and a map or a digest shows those before
    /// it, unless it is done in the background.
    #[must_use]
    pub fn excludes_changes(self, flags: OpFlags) -> bool {
        self.mutates() || matches!(self, Op::Map | Op::Digest) && !self.is_background(flags)
    }

    /// Whether it is done after all else: see [`OpFlags::BACKGROUND`].
    #[inline]
    #[must_use]
    pub fn is_background(self, flags: OpFlags) -> bool {
        self == Op::Digest && flags.has(OpFlags::BACKGROUND)
    }

    /// Whether it is done before all else that waits: see [`OpFlags::URGENT`].
    #[inline]
    #[must_use]
    pub fn is_urgent(self, flags: OpFlags) -> bool {
        self == Op::Read && flags.has(OpFlags::URGENT)
    }

    /// Bytes of payload of the answer to a piece of `len_bytes`.
    #[inline]
    #[must_use]
    pub fn reply_bytes(self, len_bytes: u32) -> u32 {
        match self {
            Op::Read => len_bytes,
            Op::Map => MAP_BYTES as u32,
            Op::Digest => digest::answer_bytes(len_bytes),
            Op::Write | Op::Flush | Op::Trim | Op::WriteZeroes => 0,
        }
    }
}

/// Modifiers of an operation, as bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpFlags(pub u8);

impl OpFlags {
    /// No modifier.
    pub const NONE: OpFlags = OpFlags(0);
    /// Force unit access: permanent before the answer.
    pub const FUA: OpFlags = OpFlags(1);
    /// Write zeroes without punching a hole: the space stays allocated.
    pub const NO_HOLE: OpFlags = OpFlags(2);
    /// The bits that clients may set, and that every operation may have on the wire.
    pub const KNOWN: u8 = 3;
    /// Tell one run only, of a map. For the gateway; nodes are not told.
    pub const ONE_RUN: OpFlags = OpFlags(4);
    /// Read bytes although their checksums do not match, and make the checksums match. For gateways of volumes with copies, which
    /// have decided that these bytes are the right ones; clients cannot ask for it.
    pub const UNVERIFIED: OpFlags = OpFlags(8);
    /// Tell corrupt blocks with the checksum that they should have ([`digest::Corrupt`]), in a digest. The bit is that of UNVERIFIED; only
    /// for nodes that know it ([`Welcome::knows_marks`](crate::wire::hello::Welcome::knows_marks)).
    pub const EXPECTED: OpFlags = OpFlags::UNVERIFIED;
    /// Mark the blocks of a write as unreadable: their bytes are lost, and each has a checksum in the place of its bytes
    /// ([`digest::unreadable_payload`]). Reads of them fail until they are written whole. The bit is that of UNVERIFIED;
    /// only for nodes that know it. Clients cannot ask for it.
    pub const UNREADABLE: OpFlags = OpFlags::UNVERIFIED;
    /// Of a digest: hash what the flash has, past the page cache. The bit is that of FUA, which means nothing else there: a node of an earlier
    /// build hashes what the page cache has.
    pub const FROM_FLASH: OpFlags = OpFlags::FUA;
    /// Of a digest: it comes after all that waits at the node, one at a time, and neither waits for changes of the same bytes nor delays
    /// them: its hashes may be from before, between or after them. The bit is that of NO_HOLE, and means nothing to a node of an earlier
    /// build.
    pub const BACKGROUND: OpFlags = OpFlags::NO_HOLE;
    /// Of a read: before all others that wait at the node, for a client that has few requests outstanding beside one with many. The bit is
    /// that of NO_HOLE, and means nothing to a node of an earlier build. Clients cannot ask for it.
    pub const URGENT: OpFlags = OpFlags::NO_HOLE;

    /// Do not merge a read with its neighbours, at a node. Never on the wire.
    pub const ALONE: OpFlags = OpFlags(128);

    /// The bits that have a meaning on the wire for an operation.
    #[must_use]
    pub fn known_of(op: Op) -> u8 {
        let has_fourth = matches!(op, Op::Read | Op::Write | Op::Digest);
        if has_fourth { OpFlags::KNOWN | OpFlags::UNVERIFIED.0 } else { OpFlags::KNOWN }
    }

    /// Whether it marks blocks as unreadable: see [`OpFlags::UNREADABLE`].
    #[inline]
    #[must_use]
    pub fn marks_unreadable(self, op: Op) -> bool {
        op == Op::Write && self.has(OpFlags::UNREADABLE)
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: OpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These bits without those of `other`.
    #[must_use]
    pub fn without(self, other: OpFlags) -> OpFlags {
        OpFlags(self.0 & !other.0)
    }

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: OpFlags) -> OpFlags {
        OpFlags(self.0 | other.0)
    }
}

listed! {
    /// Why an operation failed. The numbers are those of the wire, where 0 means success.
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
        /// The volume is read-only; of a node, its device.
        #[error("the volume, or the node's device, is read-only")]
        NotPermitted = 4,
        /// A memory limit forbids it.
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
        /// Bytes do not match their checksum. Only of extents of volumes with copies: another copy has the bytes.
        #[error("checksum mismatch: the flash returned other bytes than were written")]
        Corrupt = 9,
    }
}

impl Failure {
    /// The failure that a client is told, where a node or the volume's map failed its request.
    ///
    /// The other reasons would speak of the client: that it may not write to this volume, or asked for what there is not. Programs take them for their own
    /// fault, or for settled; what a device does is an I/O error.
    #[must_use]
    pub fn behind_the_gateway(self) -> Failure {
        match self {
            Failure::NoSpace => Failure::NoSpace,
            _ => Failure::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_kind() {
        let of = |is: fn(Op) -> bool| Op::ALL.into_iter().filter(|&op| is(op)).map(Op::name).collect::<Vec<_>>();
        assert_eq!(of(Op::mutates), ["write", "trim", "write_zeroes"]);
        assert_eq!(of(Op::returns_data), ["read", "map", "digest"]);
        assert_eq!(of(|op| op.excludes_changes(OpFlags::NONE)), ["write", "trim", "write_zeroes", "map", "digest"]);
        assert_eq!(of(|op| op.excludes_changes(OpFlags::BACKGROUND)), ["write", "trim", "write_zeroes", "map"]);
        assert_eq!(of(|op| op.is_background(OpFlags::BACKGROUND.with(OpFlags::FROM_FLASH))), ["digest"]);
        assert_eq!(of(|op| op.is_background(OpFlags::FROM_FLASH)), [""; 0]);
        assert_eq!(Op::ALL.map(|op| op.reply_bytes(8192)), [8192, 0, 0, 0, 0, 512, 16]);
    }

    #[test]
    fn a_client_is_told_of_no_other_failures_of_nodes_than_these() {
        for failure in Failure::ALL {
            let expected = if failure == Failure::NoSpace { failure } else { Failure::Io };
            assert_eq!(failure.behind_the_gateway(), expected);
        }
    }

    #[test]
    fn wire_numbers_round_trip_and_others_are_unknown() {
        for op in Op::ALL {
            assert_eq!(Op::from_wire(op as u8), Some(op));
        }
        for f in Failure::ALL {
            assert_eq!(Failure::from_wire(f as u8), Some(f));
        }
        assert_eq!(Op::from_wire(0), None);
        assert_eq!(Op::from_wire(8), None);
        assert_eq!(Failure::from_wire(0), None);
        assert_eq!((Failure::from_wire(9), Failure::from_wire(10)), (Some(Failure::Corrupt), None));
    }

    #[test]
    fn reads_alone_may_be_unverified() {
        for op in Op::ALL {
            let known = OpFlags(OpFlags::known_of(op));
            assert!(known.has(OpFlags::FUA.with(OpFlags::NO_HOLE)) && !known.has(OpFlags::ONE_RUN));
            assert_eq!(known.has(OpFlags::UNVERIFIED), matches!(op, Op::Read | Op::Write | Op::Digest));
            assert_eq!(OpFlags(15).marks_unreadable(op), op == Op::Write);
            assert!(!OpFlags(7).marks_unreadable(op));
        }
    }
}

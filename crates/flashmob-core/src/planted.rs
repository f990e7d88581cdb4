//! Bugs that are planted to prove that a check finds them.
//!
//! Without the feature `planted`, [`is`] is `false` at compile time and no code of a bug is left. No released binary has the feature.
//! With it, one bug at a time is chosen at run time for the whole process ([`plant`]).

use std::sync::atomic::{AtomicU8, Ordering};

use crate::enums::listed;

listed! {
    /// A bug that can be planted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Bug {
        /// The node drops the reply to the third piece of a batch.
        NodeLosesReply = 1 => "node-loses-reply",
        /// The gateway drops the answer to one piece in 61.
        GatewayLosesReply => "gateway-loses-reply",
        /// The node answers each part of a merged read with the bytes of the first.
        AnswerToWrongRequest => "answer-to-wrong-request",
        /// Pieces of a linear volume may end one byte behind their extent.
        ExtentEndOffByOne => "extent-end-off-by-one",
        /// Pieces of a striped volume may end one byte behind their stripe.
        StripeEndOffByOne => "stripe-end-off-by-one",
        /// The bytes of a request's second piece are placed one byte too early in its buffer.
        BufferPlaceOffByOne => "buffer-place-off-by-one",
        /// A flush does not wait for the writes that it covers.
        FlushOvertakesWrite => "flush-overtakes-write",
        /// A flush is answered without the store.
        FlushWithoutStore => "flush-without-store",
        /// The node ignores FUA.
        FuaDropped => "fua-dropped",
        /// Changes of a broken link are resent at once instead of after the next welcome.
        ChangesResentAtOnce => "changes-resent-at-once",
        /// The node welcomes a link before the operations of its earlier attempts have ended.
        NodeDoesNotFence => "node-does-not-fence",
        /// A welcome from another start of the node, or from a copy of it, replaces links that are alive.
        NewestStartWins => "newest-start-wins",
        /// A welcome that is held counts as that of a living device without an answer to a probe.
        LateWelcomeIsADevice => "late-welcome-is-a-device",
        /// A map of holes is taken while earlier writes to its range are under way.
        MapOvertakesWrite => "map-overtakes-write",
        /// A node that has no room for more runs in a map shows the rest as a hole.
        MapEndsInHole => "map-ends-in-hole",
        /// The gateway takes the runs of a map one byte too late on all extents but the first.
        MapShifted => "map-shifted",
        /// What a process of a node recorded of syncs that failed is ignored when the next one starts.
        FailedSyncLaundered => "failed-sync-laundered",
        /// A file system that was mounted anew is taken for the one before: what it had in memory counts as kept.
        RemountUnseen => "remount-unseen",
        /// A process that was killed counts as followed by one of the same start, though nothing tells whether the page cache stayed.
        UnknownCacheTrusted => "unknown-cache-trusted",
        /// A token that was in the page cache, and was written back, counts as proof that younger bytes were.
        TokenForProof => "token-for-proof",
        /// The record of an end in order counts for more than the next start.
        EndCountsTwice => "end-counts-twice",
        /// A node's progress with a flush does not count.
        SlowFlushEvicts => "slow-flush-evicts",
        /// Writes count as done at once when the first of their batch is.
        AnsweredUnwritten => "answered-unwritten",
        // Of volumes with copies.
        /// A change is acknowledged when the first copy has it.
        AckAfterFirstCopy => "ack-after-first-copy",
        /// A change is acknowledged before the copies that lack it are durably behind.
        AckBeforeBehind => "ack-before-behind",
        /// A change is sent before its chunk is durably open.
        SentBeforeOpen => "sent-before-open",
        /// A chunk is settled while a change of it is under way.
        SettledInFlight => "settled-in-flight",
        /// A chunk is settled before its copies are synced.
        SettledWithoutSync => "settled-without-sync",
        /// A copy becomes current before the last range of its chunk is proven equal.
        BehindClearedUnproven => "behind-cleared-unproven",
        /// A copy that is made from another gets changes of what is not hashed yet.
        JoinedChangedUnhashed => "joined-changed-unhashed",
        /// Requests that need a block which no current copy has fail at once, though a copy that is behind may have it.
        CorruptNotHeld => "corrupt-not-held",
        /// A late part of a read counts although another copy has answered it.
        LatePartCounted => "late-part-counted",
        /// A read may go to a copy that is behind.
        ReadFromBehind => "read-from-behind",
        /// A restart of a node's device is not noticed.
        BootUnchecked => "boot-unchecked",
        /// An answer that may show a change under way is not held.
        AnswerNotHeld => "answer-not-held",
        /// The changes of a client that leaves are dropped, though some copies may have them.
        LeavingClientDropsChange => "leaving-client-drops-change",
        /// Changes go on in a range while it is copied.
        ResyncOverwritesNewer => "resync-overwrites-newer",
        /// A failed flush of one copy counts as done.
        FailedSyncIgnored => "failed-sync-ignored",
        /// The copies on a fresh extent are taken for current.
        FreshExtentCurrent => "fresh-extent-current",
        /// Changes are acknowledged before it is durable that an extent was replaced.
        AckBeforeReplaced => "ack-before-replaced",
        /// An older copy of an extent is taken for the extent.
        RestoredBelieved => "restored-believed",
        /// An older state of an extent is taken for the extent if it remembers the last charge.
        AgeBelieved => "age-believed",
        /// Extents grow older only where a decision waits for mirrors.
        AgeNotKept => "age-not-kept",
        /// All copies of a chunk lost power, and no flush fails for it.
        LossUntold => "loss-untold",
        /// Chunks that were settled before a device restarted are not compared, however short that was before.
        SettledLatelyTrusted => "settled-lately-trusted",
        /// A node that changes a part of a block does not verify the rest of it, and gives it the checksum of what is there.
        PartialWriteLaundersRot => "partial-write-launders-rot",
        /// A gateway takes decisions for durable that the map of its successor refused.
        RefusedCommitBelieved => "refused-commit-believed",
        /// A node accepts a gateway that is not in charge any more, and mirrors tell nothing.
        EarlierEpochAccepted => "earlier-epoch-accepted",
        /// The links of the former gateway go on when the second is welcomed.
        EarlierLinksSurvive => "earlier-links-survive",
        /// A node forgets which gateway is in charge when it is started again, and does not look at its mirror.
        EpochForgotten => "epoch-forgotten",
        /// A node takes a charge that it cannot record.
        ChargeUnrecorded => "charge-unrecorded",
        /// Chunks that were open when the gateway was killed are taken for equal.
        InheritedOpenTrusted => "inherited-open-trusted",
        /// Copies are compared only where the first of them holds data.
        SourceHolesBelieved => "source-holes-believed",
        /// A copy that failed a change while it is made equal counts as equal once the rest is done.
        FailedTargetEqual => "failed-target-equal",
        /// Changes of a run may go on before its bytes are in the queues of the copies that are made equal.
        RunFreeTooEarly => "run-free-too-early",
        /// A range whose comparison gave way to changes counts as compared.
        GaveWayProven => "gave-way-proven",
        /// A trim is sent to the copies as advice.
        TrimIsAdvice => "trim-is-advice",
        /// A scrub makes copies that differ equal to the first of them, though each matches its checksum.
        ScrubMendsByGuess => "scrub-mends-by-guess",
        /// A scrub verifies what the page cache has.
        ScrubTrustsCache => "scrub-trusts-cache",
        /// A decision takes effect before any mirror of the map has it.
        MirrorNotAwaited => "mirror-not-awaited",
        /// A recovered map takes chunks for settled that it does not know to be open.
        RecoveredTrusted => "recovered-trusted",
        /// A gateway is accepted, and goes on, whose map lacks what a node's mirror has.
        OlderMapBelieved => "older-map-believed",
        /// A map is recovered from the first mirror that is found.
        FirstMirrorRecovered => "first-mirror-recovered",
        /// A gateway may use numbers of any generation, whatever its key.
        GenerationUnchecked => "generation-unchecked",
        /// A mirror is believed that claims more than the gateway in charge may have decided.
        FalseMirrorBelieved => "false-mirror-believed",
        /// A mirror is believed that no gateway of the cluster has signed.
        UnsignedMirrorBelieved => "unsigned-mirror-believed",
        /// A part of a map in a store is believed though its signature is of other bytes.
        ForgedPartBelieved => "forged-part-believed",
        /// A part of a map in a store is believed wherever it belongs.
        ChainUnchecked => "chain-unchecked",
        /// A part of a map in a store is believed that a key has signed which was replaced before.
        ReplacedKeyBelieved => "replaced-key-believed",
        /// A gateway believes the key that it knows to have signed the map in a store, though its own is a later one.
        KeptGenerationBelieved => "kept-generation-believed",
        /// A gateway that has left a map in a store believes any other that the replaced key has signed.
        LeftStateUnchecked => "left-state-unchecked",
        /// The map of another volume is believed.
        OtherVolumeBelieved => "other-volume-believed",
        /// The slot that a copy has left is free before its new place is durable.
        SlotFreedBeforeCommit => "slot-freed-before-commit",
        /// The slot that a copy has left is free while answers from there are under way.
        SlotReusedEarly => "slot-reused-early",
        /// A node that was added gets copies, whatever its extent holds.
        JoinedUnsearched => "joined-unsearched",
        /// A new chunk gets a slot that is in quarantine.
        GrownIntoQuarantine => "grown-into-quarantine",
        /// Clients may use new chunks before it is permanent that their slots were cleared.
        GrownUnsynced => "grown-unsynced",
        /// Clients may use new chunks before these are on record.
        GrownToldEarly => "grown-told-early",
        /// A volume is made smaller without a look at what lies behind its new end.
        ShrinkUnlooked => "shrink-unlooked",
        /// Changes behind the new end of a volume are taken while it is looked there.
        ShrinkTakesChanges => "shrink-takes-changes",
        /// What a former gateway may still change is given up.
        ShrinkUnfenced => "shrink-unfenced",
        /// Slots of chunks that are cut off are used before that is on record.
        ShrunkFreedEarly => "shrunk-freed-early",
        /// Answers to reads are passed on though the gateway's lease is over.
        LeaseIgnored => "lease-ignored",
        /// A lease is counted from when it was granted, not from when it was asked for.
        LeaseFromReceipt => "lease-from-receipt",
        /// A node that was added gets copies before it is on record that it may.
        GuestBeforeJoined => "guest-before-joined",
        /// Changes are sent to the new place of a copy, and not to the old one, before that is durable.
        MovedNotAwaited => "moved-not-awaited",
        /// A copy moves without the last digest.
        MovedUnproven => "moved-unproven",
        /// A copy moves without a flush of its new place.
        MovedUnflushed => "moved-unflushed",
        /// A chunk counts as unchanged since it was settled once a copy of it has moved, which was proven and flushed.
        MovedTakenForSettled => "moved-taken-for-settled",
        /// A chunk is not copied at all if one block of its source does not match its checksum.
        RottenChunkGivenUp => "rotten-chunk-given-up",
        /// A block is healed with what a copy has that is behind, whatever checksum it should have.
        HealedUnproven => "healed-unproven",
        /// A copy becomes current without a mark on a block that its source has lost.
        LostBlockUnmarked => "lost-block-unmarked",
        /// The copy that is made on another member gets no changes meanwhile.
        GuestMissesChanges => "guest-misses-changes",
        /// Clients are not told of a loss that somebody accepted.
        AcceptedLossUntold => "accepted-loss-untold",
        /// Copies on a node that was given up count as current though another copy of their chunks became so.
        ReturnedCopyCurrent => "returned-copy-current",
        /// The only current copy of a chunk is made equal to one that lacks something.
        LastCopyResynced => "last-copy-resynced",
        /// The copy that becomes current as a loss is accepted is used before that is durable.
        AcceptedEarly => "accepted-early",
        /// A map whose end was dropped is served at once, as if that had never had effect.
        CutMapTrusted => "cut-map-trusted",
        /// A copy whose node restarted is declared behind another, by a map whose end was dropped.
        JudgedWhileCut => "judged-while-cut",
        /// A node's mirror shows that another gateway is in charge, and this one goes on.
        ProofIgnored => "proof-ignored",
        /// The decisions that a map lacks are not taken from a mirror that continues it.
        LaterMirrorRefused => "later-mirror-refused",
        /// A change that came after a flush counts as flushed when the node's device restarts.
        LateChangeFlushed => "late-change-flushed",
        /// A loss is told after all copies lost power, though everything was flushed.
        FlushedLossTold => "flushed-loss-told",
        /// A map that was written anew counts as permanent before its directory was flushed.
        RenameTrusted => "rename-trusted",
        /// A change is acknowledged once one current copy has it, though more are needed.
        MinCurrentIgnored => "min-current-ignored",
        /// Chunks that settle early, as too many are open, are not flushed before.
        SettledEarlyUnsynced => "settled-early-unsynced",
        /// No chunk settles early, however many are open.
        OpenUnbounded => "open-unbounded",
        // From here on: for the canaries of slow end-to-end tests, which judge time and memory. The simulator does not find them.
        /// A client's share of a turn or a batch is not limited, and all reads wait in one lane.
        FairnessOff => "fairness-off",
        /// While one node does not answer, nothing is sent to the others.
        SilentNodeHoldsOthers => "silent-node-holds-others",
        /// Late reads are not asked of another copy.
        LateReadsWait => "late-reads-wait",
        /// Reads go to the home of their chunk, however slow it is, and to one copy only.
        SlowNodesRead => "slow-nodes-read",
        /// The gateway leaks a part of each request's memory.
        GatewayLeaks => "gateway-leaks",
        /// The node leaks a part of each reply's memory.
        NodeLeaks => "node-leaks",
        /// The gateway leaks a part of the memory of each client that disconnects.
        ClientLeaks => "client-leaks",
        /// A socket buffer that limits a link is never enlarged.
        BufferNeverSet => "buffer-never-set",
        /// A node takes twice the service time of the flash that it models.
        ServiceTimeDoubled => "service-time-doubled",
        /// A modelled flash serves descending addresses as fast as ascending ones.
        OrderCostsNothing => "order-costs-nothing",
        /// A lab does not count the frames that it moved late.
        LatenessUntold => "lateness-untold",
        /// `bench net` counts 5 % too many bytes.
        BytesOvercounted => "bytes-overcounted",
        /// A modelled host has this machine's maximum receive buffer, whatever was asked for.
        ReceiveMaxNeverSet => "receive-max-never-set",
        /// Tracing omits requests of the block layer and the journal's work, so that waits stay unexplained.
        RequestsUntraced => "requests-untraced",
    }
}

impl Bug {
    /// The last one that the simulator can find; those of volumes with copies are its last ones.
    const LAST_OF_COPIES: Bug = Bug::OpenUnbounded;

    /// Whether the fault simulator (`make faults`) can find it. The others are for tests with real processes.
    #[must_use]
    pub fn is_for_simulator(self) -> bool {
        self as u8 <= Bug::LAST_OF_COPIES as u8
    }

    /// Whether it is one of volumes with copies.
    #[must_use]
    pub fn is_of_copies(self) -> bool {
        (Bug::AckAfterFirstCopy as u8..=Bug::LAST_OF_COPIES as u8).contains(&(self as u8))
    }

    /// Whether it harms volumes with copies and others.
    #[must_use]
    pub fn is_of_both(self) -> bool {
        matches!(
            self,
            Bug::NodeDoesNotFence
                | Bug::ChangesResentAtOnce
                | Bug::FlushWithoutStore
                | Bug::FuaDropped
                | Bug::FlushOvertakesWrite
                | Bug::FailedSyncLaundered
                | Bug::RemountUnseen
                | Bug::UnknownCacheTrusted
                | Bug::TokenForProof
                | Bug::EndCountsTwice
                | Bug::SlowFlushEvicts
        )
    }

    /// The bug with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| bug.name() == name)
    }
}

/// The planted bug's number; 0: none.
static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Plants a bug in this process in place of the last one, or none. Without the feature `planted` it has no effect.
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
}

/// Whether this bug is planted.
#[inline(always)]
#[must_use]
pub fn is(bug: Bug) -> bool {
    cfg!(feature = "planted") && PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// Leaks this many bytes if the bug is planted.
#[inline(always)]
pub fn leak(bug: Bug, bytes: usize) {
    if is(bug) {
        // Ones, since zeros would not be allocated; the black box keeps the compiler from removing the vector.
        std::mem::forget(std::hint::black_box(vec![1_u8; bytes]));
    }
}

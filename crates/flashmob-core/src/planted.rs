//! Bugs planted on purpose, to show that a check finds them: a check that no bug fails shows nothing.
//!
//! Without the feature `planted` every question is answered `false` at compile time, and no code of a bug is left. No released
//! binary has the feature. With it, one bug at a time is chosen for the whole process at run time ([`plant`]).

use std::sync::atomic::{AtomicU8, Ordering};

/// A bug that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The node forgets the reply to the third piece of a batch.
    NodeLosesReply = 1,
    /// The gateway does not pass on the answer to one piece in 61.
    GatewayLosesReply,
    /// The node gives each part of a merged read the bytes of the first.
    AnswerToWrongRequest,
    /// Pieces of a linear volume end one byte behind the end of their extent.
    ExtentEndOffByOne,
    /// Pieces of a striped volume end one byte behind the end of their stripe.
    StripeEndOffByOne,
    /// The bytes of a request's second piece lie one byte before their place in its buffer.
    BufferPlaceOffByOne,
    /// A flush does not wait for the writes that it covers.
    FlushOvertakesWrite,
    /// A flush is answered without the store.
    FlushWithoutStore,
    /// The node does not write through for FUA.
    FuaDropped,
    /// Changes of a broken link are sent again at once, not after the next welcome.
    ChangesResentAtOnce,
    /// The node welcomes a link before what came over its earlier attempts is over.
    NodeDoesNotFence,
    /// A welcome from another start of the node, or from a copy of it, wins over links that live.
    NewestStartWins,
    // From here on: for the canaries of slow end-to-end tests, which judge time and memory. In virtual time they are not seen.
    /// Nobody bounds what one client has of a turn or a batch while another asks for little, and all reads wait in one lane.
    FairnessOff,
    /// While one node does not answer, nothing is sent to the others.
    SilentNodeHoldsOthers,
    /// The gateway gives back only a part of what a request held.
    GatewayLeaks,
    /// The node gives back only a part of what a reply held.
    NodeLeaks,
    /// Not all is given back of what a client held that goes.
    ClientLeaks,
    /// A buffer that holds a link back is never made larger.
    BufferNeverSet,
    /// A node answers twice as slowly as the flash that it is to resemble.
    ServiceTimeDoubled,
    /// A modelled flash takes as long downward as upward.
    OrderCostsNothing,
    /// A lab does not count frames that it moved late.
    LatenessUntold,
    /// `bench net` counts a twentieth more bytes than there were.
    BytesOvercounted,
    /// A modelled host has the receive maximum of this machine, whatever was asked for.
    ReceiveMaxNeverSet,
    /// Tracing leaves requests of the block layer and the journal's work out, so that nobody knows what a thread waits for.
    RequestsUntraced,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 24] = [
        Bug::NodeLosesReply,
        Bug::GatewayLosesReply,
        Bug::AnswerToWrongRequest,
        Bug::ExtentEndOffByOne,
        Bug::StripeEndOffByOne,
        Bug::BufferPlaceOffByOne,
        Bug::FlushOvertakesWrite,
        Bug::FlushWithoutStore,
        Bug::FuaDropped,
        Bug::ChangesResentAtOnce,
        Bug::NodeDoesNotFence,
        Bug::NewestStartWins,
        Bug::FairnessOff,
        Bug::SilentNodeHoldsOthers,
        Bug::GatewayLeaks,
        Bug::NodeLeaks,
        Bug::ClientLeaks,
        Bug::BufferNeverSet,
        Bug::ServiceTimeDoubled,
        Bug::OrderCostsNothing,
        Bug::LatenessUntold,
        Bug::BytesOvercounted,
        Bug::ReceiveMaxNeverSet,
        Bug::RequestsUntraced,
    ];

    /// Its name on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bug::NodeLosesReply => "node-loses-reply",
            Bug::GatewayLosesReply => "gateway-loses-reply",
            Bug::AnswerToWrongRequest => "answer-to-wrong-request",
            Bug::ExtentEndOffByOne => "extent-end-off-by-one",
            Bug::StripeEndOffByOne => "stripe-end-off-by-one",
            Bug::BufferPlaceOffByOne => "buffer-place-off-by-one",
            Bug::FlushOvertakesWrite => "flush-overtakes-write",
            Bug::FlushWithoutStore => "flush-without-store",
            Bug::FuaDropped => "fua-dropped",
            Bug::ChangesResentAtOnce => "changes-resent-at-once",
            Bug::NodeDoesNotFence => "node-does-not-fence",
            Bug::NewestStartWins => "newest-start-wins",
            Bug::FairnessOff => "fairness-off",
            Bug::SilentNodeHoldsOthers => "silent-node-holds-others",
            Bug::GatewayLeaks => "gateway-leaks",
            Bug::NodeLeaks => "node-leaks",
            Bug::ClientLeaks => "client-leaks",
            Bug::BufferNeverSet => "buffer-never-set",
            Bug::ServiceTimeDoubled => "service-time-doubled",
            Bug::OrderCostsNothing => "order-costs-nothing",
            Bug::LatenessUntold => "lateness-untold",
            Bug::BytesOvercounted => "bytes-overcounted",
            Bug::ReceiveMaxNeverSet => "receive-max-never-set",
            Bug::RequestsUntraced => "requests-untraced",
        }
    }

    /// Whether the fault simulator (`make faults`) can find it. The others are for canaries of tests with real processes.
    #[must_use]
    pub fn is_for_simulator(self) -> bool {
        self as u8 <= Bug::NewestStartWins as u8
    }

    /// The bug of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| bug.name() == name)
    }
}

/// The one that is planted; 0: none.
static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Plants a bug in this process in place of the last one, or none. Without the feature `planted` nothing comes of it.
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
}

/// Whether this bug is planted.
#[inline(always)]
#[must_use]
pub fn is(bug: Bug) -> bool {
    cfg!(feature = "planted") && PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// Loses so many bytes of memory if this bug is planted.
#[inline(always)]
pub fn leak(bug: Bug, bytes: usize) {
    if is(bug) {
        // Written to, or it would never be there; and seen, or the compiler would leave the writing out.
        std::mem::forget(std::hint::black_box(vec![1_u8; bytes]));
    }
}

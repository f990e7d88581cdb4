//! The events of a run, in order: kept as numbers, formatted only when they are printed.

use std::collections::VecDeque;
use std::fmt;

use flashmob_core::op::Op;
use flashmob_core::units::Time;

use super::fault::Fault;

/// How many events are kept for the report of a failure.
const KEPT: usize = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Asked {
        client: u8,
        cookie: u64,
        op: Op,
        offset: u64,
        len: u32,
        fua: bool,
    },
    Answered {
        client: u8,
        cookie: u64,
        errno: u32,
    },
    Opened {
        client: u8,
    },
    Left {
        client: u8,
    },
    LinkConnecting {
        link: u8,
        node: u8,
    },
    LinkEnded {
        link: u8,
    },
    Welcomed {
        node: u8,
    },
    StoreOp {
        node: u8,
        op: Op,
        offset: u64,
        len: u32,
    },
    NodeStarted {
        node: u8,
    },
    NodeStopped {
        node: u8,
        power: bool,
    },
    Struck(Fault),
    Phase(&'static str),
    /// The marks of a chunk of a volume with copies, as the gateway decided.
    Marked {
        chunk: u32,
        is_open: bool,
        is_torn: bool,
        behind: u8,
        doubtful: u8,
    },
    /// A copy has another place, as the gateway decided.
    Moved {
        chunk: u32,
        copy: usize,
        member: u16,
        slot: u32,
    },
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Asked { client, cookie, op, offset, len, fua } => {
                let fua = if *fua { " FUA" } else { "" };
                write!(f, "client {client} asks #{cookie}: {}{fua} {offset}+{len}", op.name())
            }
            What::Answered { client, cookie, errno: 0 } => write!(f, "client {client} is answered #{cookie}"),
            What::Answered { client, cookie, errno } => {
                write!(f, "client {client} is answered #{cookie}: error {errno}")
            }
            What::Opened { client } => write!(f, "client {client} opened the volume"),
            What::Left { client } => write!(f, "client {client} has no connection any more"),
            What::LinkConnecting { link, node } => write!(f, "gateway connects link {link} to node {node}"),
            What::LinkEnded { link } => write!(f, "gateway has lost or closed link {link}"),
            What::Welcomed { node } => write!(f, "node {node} welcomes a link"),
            What::StoreOp { node, op, offset, len } => write!(f, "node {node} begins {} {offset}+{len}", op.name()),
            What::NodeStarted { node } => write!(f, "node {node} starts"),
            What::NodeStopped { node, power: true } => write!(f, "node {node} loses power"),
            What::NodeStopped { node, power: false } => write!(f, "node {node} is killed"),
            What::Struck(fault) => write!(f, "fault: {fault:?}"),
            What::Phase(text) => f.write_str(text),
            What::Moved { chunk, copy, member, slot } => {
                write!(f, "copy {copy} of chunk {chunk} is in slot {slot} of node {member}")
            }
            What::Marked { chunk, is_open, is_torn, behind, doubtful } => {
                let open = if *is_open { "open" } else { "settled" };
                let torn = if *is_torn { " and perhaps torn" } else { "" };
                write!(f, "chunk {chunk} is {open}{torn}; copies behind: {behind:b}, doubtful: {doubtful:b}")
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Trace {
    last: VecDeque<(Time, What)>,
    /// Told at once, one line each.
    pub is_told: bool,
    pub hash: u64,
    pub events: u64,
}

impl Trace {
    pub fn new(is_told: bool) -> Trace {
        Trace { last: VecDeque::with_capacity(KEPT), is_told, hash: 0xcbf2_9ce4_8422_2325, events: 0 }
    }

    pub fn push(&mut self, now: Time, what: What) {
        if self.is_told {
            println!("{}", line(now, &what));
        }
        self.events += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((now, what));
    }

    /// Mixes a number into the hash of all that happened (FNV-1a, by words).
    pub fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    pub fn last(&self) -> Vec<String> {
        self.last.iter().map(|(now, what)| line(*now, what)).collect()
    }
}

fn line(now: Time, what: &What) -> String {
    format!("{:>13.6} s  {what}", now.as_nanos() as f64 / 1e9)
}

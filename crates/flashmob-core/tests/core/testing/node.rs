//! A node whose gateway and store are played by the test.

use super::frames::{Frame, bytes_of, frames};
use super::host::{FakeHost, Reads};
use super::spec::{NOW, hello};
use flashmob_core::node::{LinkId, Node, NodeConfig, NodeEvent, StoreDone, StoreOp};
use flashmob_core::units::Time;
use flashmob_core::wire::hello::{Charge, Hello};

/// A node with one link that is welcome.
#[derive(Debug)]
pub struct NodeBed {
    /// The node.
    pub node: Node,
    /// Its first link.
    pub link: LinkId,
    /// The time.
    pub now: Time,
    /// What becomes of reads.
    pub reads: Reads,
    /// What the store was given and has not ended.
    pub ops: Vec<StoreOp>,
    /// The charge that the extent remembers.
    pub charge: Option<Charge>,
    /// Those that it accepted.
    pub accepted: Vec<(u64, u64)>,
    /// It cannot remember another.
    pub is_full: bool,
    /// How many writes are taken without waiting.
    pub takes_writes: usize,
    /// Those that were: where they begin, and their bytes.
    pub written: Vec<(u64, Vec<u8>)>,
}

impl NodeBed {
    /// Its link has said [`hello`], and its welcome is read.
    #[must_use]
    pub fn new(config: NodeConfig, reads: Reads) -> NodeBed {
        NodeBed::greeted(config, reads, &hello())
    }

    /// The same with another hello.
    #[must_use]
    pub fn greeted(config: NodeConfig, reads: Reads, hello: &Hello) -> NodeBed {
        let mut node = Node::new(config);
        let link = node.link_opened();
        let mut bed = NodeBed {
            node,
            link,
            now: NOW,
            reads,
            ops: Vec::new(),
            charge: None,
            accepted: Vec::new(),
            is_full: false,
            takes_writes: 0,
            written: Vec::new(),
        };
        bed.receive(link, &bytes_of(|out| hello.encode(out)));
        bed
    }

    /// Another link says hello.
    pub fn open_link(&mut self, hello: &Hello) -> LinkId {
        let link = self.node.link_opened();
        self.receive(link, &bytes_of(|out| hello.encode(out)));
        link
    }

    /// Bytes come on a link and are decoded.
    pub fn decode(&mut self, link: LinkId, bytes: &[u8]) {
        self.node.rx(link).expect("a link").extend(bytes);
        self.with_host(|node, now, host| node.process(now, link, host));
    }

    fn with_host(&mut self, act: impl FnOnce(&mut Node, Time, &mut FakeHost)) {
        let (charge, accepted, is_full) = (self.charge, std::mem::take(&mut self.accepted), self.is_full);
        let takes_writes = self.takes_writes;
        let mut host = FakeHost { charge, accepted, is_full, takes_writes, ..FakeHost::new(self.now, self.reads) };
        act(&mut self.node, self.now, &mut host);
        self.takes_writes = host.takes_writes;
        self.written.append(&mut host.written);
        (self.charge, self.accepted) = (host.charge, host.accepted);
    }

    /// Bytes come on a link, and the loop turns.
    pub fn receive(&mut self, link: LinkId, bytes: &[u8]) {
        self.decode(link, bytes);
        self.turn();
    }

    /// The loop turns; the store is given what there is for it.
    pub fn turn(&mut self) {
        self.with_host(|node, now, host| node.turn(now, host));
        self.ops.append(self.node.store_ops());
    }

    /// The store ends the operation that it was given first.
    pub fn end_one(&mut self) {
        let op = self.ops.remove(0);
        let done = StoreDone { id: op.id, result: Ok(()), data: op.data, started: self.now, finished: self.now };
        self.node.store_done(done);
        self.turn();
    }

    /// What a link was sent since this was last asked.
    pub fn sent(&mut self, link: LinkId) -> Vec<Frame> {
        let bytes = self.node.out(link).expect("a link").take_all();
        self.node.wrote(link, 0);
        frames(&bytes)
    }

    /// Why the node has closed a link, if it has.
    pub fn closed(&mut self) -> Option<String> {
        std::iter::from_fn(|| self.node.poll_event()).find_map(|event| match event {
            NodeEvent::Close { reason, .. } => Some(reason),
            NodeEvent::Linked { .. } => None,
        })
    }
}

/// A node with a link on which nothing was said yet.
#[must_use]
pub fn node_with_link(config: NodeConfig) -> (Node, LinkId) {
    let mut node = Node::new(config);
    let link = node.link_opened();
    (node, link)
}

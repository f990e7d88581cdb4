//! The mirror of the volume's map that the extent keeps: bytes from the gateway in charge for the shell to store, and what is told of them.
//!
//! The shell does one operation of a link at a time, and in their order over all links. A welcome waits for those of the links that it fences which
//! make a new mirror.

use super::Node;
use super::link::{LinkId, LinkState};
use crate::wire::frame::WireError;
use crate::wire::hello::{Charge, Hello};
use crate::wire::mirror::{MirrorPut, MirrorState, PutMirror, Recall, Recalled};

/// A link with more bytes than this to write is not asked for more of a mirror.
const OUT_BYTES_MAX: usize = 256 * 1024;

/// What the shell is to do with the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorOp {
    /// Store bytes. If they have to be durable, the state that the mirror has with them is the extent's [age](super::Host::age) once they are, which
    /// has to be durable as well. Answer with [`MirrorDone::Put`] then.
    Put {
        /// The link to answer on.
        link: LinkId,
        /// Where they belong.
        put: PutMirror,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Read bytes. Answer with [`MirrorDone::Recalled`].
    Recall {
        /// The link to answer on.
        link: LinkId,
        /// The first byte.
        offset_bytes: u64,
    },
}

/// What the shell has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorDone {
    /// Bytes are stored, or the mirror is lost with them.
    Put {
        /// Of the operation.
        link: LinkId,
        /// Of the operation.
        put: PutMirror,
        /// Whether they are.
        is_kept: bool,
    },
    /// A part of the mirror was read.
    Recalled {
        /// Of the operation.
        link: LinkId,
        /// Which extent this is. Whether a gateway is linked is found out here.
        recalled: Recalled,
        /// At most [`MIRROR_FRAME_BYTES_MAX`](crate::wire::mirror::MIRROR_FRAME_BYTES_MAX) bytes of its mirror.
        bytes: Vec<u8>,
    },
}

/// What a link does with the mirror.
#[derive(Debug, Default)]
pub(super) struct LinkMirror {
    /// The charge of its gateway, whose map it keeps here; `None` if it keeps none.
    charge: Option<Charge>,
    /// The shell has an operation of it.
    pub is_busy: bool,
    /// That makes a new mirror.
    is_new: bool,
}

impl LinkMirror {
    /// That of a welcomed link.
    pub fn of(hello: &Hello, keeps_mirror: bool) -> LinkMirror {
        let is_wanted = keeps_mirror && hello.keeps_mirror;
        LinkMirror { charge: hello.charge.filter(|_| is_wanted), ..LinkMirror::default() }
    }

    /// Whether a welcome has to wait for its operation. What a link appends late is written over by what comes behind the welcome; a new mirror
    /// would take the place of the one that the welcome tells of.
    pub fn is_fencing(&self) -> bool {
        self.is_busy && self.is_new
    }
}

impl Node {
    /// Sets what the extent's mirror was found to have: the map's identity, and how much of it. `charge` is the one that the extent remembers. A
    /// mirror that claims more than a gateway with it may have decided is none.
    pub fn set_mirror(&mut self, mirror: Option<([u8; 16], MirrorState)>, charge: Option<&Charge>) {
        self.mirror = mirror.filter(|(_, state)| charge.is_none_or(|charge| state.fits(charge)));
    }

    /// Epoch and version of the map that the mirror has.
    #[must_use]
    pub fn mirror_age(&self) -> Option<(u64, u64)> {
        self.mirror.map(|(_, state)| state.age())
    }

    /// What a welcome tells of the mirror.
    pub(super) fn told_mirror(&self, id: LinkId) -> Option<MirrorState> {
        let charge = self.links.get(id.0)?.mirror.charge?;
        Some(self.mirror.filter(|(of, _)| *of == charge.map_id).map(|(_, state)| state).unwrap_or_default())
    }

    /// Operations on the mirror, in this order.
    pub fn mirror_ops(&mut self) -> &mut Vec<MirrorOp> {
        &mut self.mirror_ops
    }

    /// A gateway sends bytes for the mirror.
    #[cold]
    pub(super) fn accept_mirror(&mut self, id: LinkId, meta: &[u8], payload: &[u8]) -> Result<(), WireError> {
        let put = PutMirror::decode(meta, payload.len())?;
        let Some(link) = self.links.get_mut(id.0) else { return Ok(()) };
        let Some(charge) = link.mirror.charge.filter(|_| !link.mirror.is_busy) else {
            return Err(WireError::Malformed("order of bytes for the mirror"));
        };
        if !put.state.fits(&charge) {
            return Err(WireError::Malformed("mirror of a later generation than the gateway's charge"));
        }
        (link.mirror.is_busy, link.mirror.is_new) = (true, put.is_new);
        self.mirror_ops.push(MirrorOp::Put { link: id, put, bytes: payload.to_vec() });
        Ok(())
    }

    /// Somebody who has lost the map asks for the mirror.
    #[cold]
    pub(super) fn accept_recall(&mut self, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let Recall { offset_bytes } = Recall::decode(meta)?;
        let Some(link) = self.links.get_mut(id.0) else { return Ok(()) };
        if link.mirror.is_busy || link.out.len() > OUT_BYTES_MAX {
            return Err(WireError::Malformed("more recalls than answers that were read"));
        }
        link.mirror.is_busy = true;
        self.mirror_ops.push(MirrorOp::Recall { link: id, offset_bytes });
        Ok(())
    }

    /// The shell has ended an operation on the mirror.
    pub fn mirror_done(&mut self, done: MirrorDone) {
        match done {
            MirrorDone::Put { link: id, put, is_kept } => {
                let Some(link) = self.links.get_mut(id.0) else { return };
                link.mirror.is_busy = false;
                if !is_kept {
                    self.mirror = None;
                } else if !put.is_new || put.is_last {
                    self.mirror = link.mirror.charge.map(|charge| (charge.map_id, put.state));
                }
                if matches!(link.state, LinkState::Ready) {
                    link.out.append(|out| MirrorPut { state: put.state, is_kept }.encode(out));
                }
            }
            MirrorDone::Recalled { link: id, recalled, bytes } => {
                let is_linked = self.links.iter().any(|(_, link)| link.peer.is_some() && link.is_open());
                let recalled = Recalled { is_linked, ..recalled };
                let Some(link) = self.links.get_mut(id.0) else { return };
                link.mirror.is_busy = false;
                if link.is_open() {
                    link.out.append(|out| recalled.encode(out, &bytes));
                }
            }
        }
        self.settle_fences();
    }

    /// Whether the mirror is at rest.
    pub(super) fn is_mirror_idle(&self) -> bool {
        self.mirror_ops.is_empty() && self.links.iter().all(|(_, link)| !link.mirror.is_busy)
    }
}

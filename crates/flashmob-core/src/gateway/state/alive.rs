//! What keeps one link alive; when frames go is decided in `gateway/alive.rs`.

use crate::units::Time;

/// What keeps one link alive.
#[derive(Debug, Default)]
pub struct Alive {
    /// The node said that it knows such frames.
    pub is_known: bool,
    /// When it is looked whether a frame is due; `None` while the link is not used.
    pub due: Option<Time>,
    /// When the last such frame was made.
    pub sent: Time,
    /// An answer was asked for and is awaited until then.
    pub probe: Option<Time>,
    /// Something was heard since then.
    pub is_heard: bool,
}

impl Alive {
    /// When the link wants to be looked at for this.
    pub fn deadline(&self) -> Option<Time> {
        self.due.into_iter().chain(self.probe).min()
    }

    /// Bytes came: whoever sends them lives.
    pub fn heard(&mut self) {
        self.is_heard = true;
    }

    /// What was begun ends with the link; the next welcome says anew what the node knows.
    pub fn link_is_lost(&mut self) {
        *self = Alive::default();
    }

    /// Whether nobody looks yet whether a frame is due.
    pub fn is_resting(&self) -> bool {
        self.due.is_none()
    }
}

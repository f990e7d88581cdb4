//! The queues of one station, or of the access point, and its backoff.

use std::collections::VecDeque;

use super::super::Frame;
use super::super::exchange::Load;
use super::super::profile::Dcf;

/// The state of a frame on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// Held back by the receiver, because an earlier frame is missing.
    Arrived,
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    frame: Frame,
    failures: u32,
    state: State,
}

/// Frames to one receiver, in order. The first is always waiting: later ones are released after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    entries: VecDeque<Entry>,
    waiting: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    pub(super) link: usize,
    /// A broadcast is not acknowledged.
    pub(super) is_broadcast: bool,
    /// Indices of the link's entries.
    entries: Vec<usize>,
    pub(super) load: Load,
    /// Frames of the load that are retransmissions.
    pub(super) repeated: u32,
}

/// The result for one frame of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The receiver passes the frame on.
    Released(Frame),
    GivenUp(Frame),
}

/// A station with its only link, or the access point with one for each receiver.
#[derive(Clone, Debug)]
pub(super) struct Station {
    links: Vec<Link>,
    /// Links with waiting frames, in round-robin order.
    turns: VecDeque<usize>,
    waiting: u32,
    link_limit: u32,
    limit: u32,
    /// Contention window.
    pub(super) cw: u32,
    /// The slot in which backoff ends, counted from when the medium was last free; `None` without a backoff.
    pub(super) due: Option<u64>,
    pub(super) is_sending: bool,
    pub(super) flight: Flight,
}

impl Station {
    pub(super) fn new(dcf: &Dcf) -> Station {
        Station {
            links: vec![Link::default()],
            turns: VecDeque::new(),
            waiting: 0,
            link_limit: dcf.queue_frames,
            limit: dcf.queue_frames,
            cw: dcf.cw_min,
            due: None,
            is_sending: false,
            flight: Flight::default(),
        }
    }

    /// The last link is for broadcasts.
    pub(super) fn access_point(dcf: &Dcf, ports: usize) -> Station {
        Station { links: vec![Link::default(); ports + 1], limit: dcf.ap_queue_frames, ..Station::new(dcf) }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Appends `frame` to `link`; false if the queue is full.
    pub(super) fn enqueue(&mut self, link: usize, frame: Frame) -> bool {
        let queue = &mut self.links[link];
        if queue.waiting >= self.link_limit || self.waiting >= self.limit {
            return false;
        }
        queue.entries.push_back(Entry { frame, failures: 0, state: State::Waiting });
        if queue.waiting == 0 {
            self.turns.push_back(link);
        }
        queue.waiting += 1;
        self.waiting += 1;
        true
    }

    /// Assembles the next transmission: the first waiting frame of the link whose turn it is, and those that fit with it.
    pub(super) fn take_off(&mut self, dcf: &Dcf, bytes_max: u64) {
        let Some(&link) = self.turns.front() else { return };
        let flight = &mut self.flight;
        flight.link = link;
        flight.entries.clear();
        flight.load = Load::default();
        flight.repeated = 0;
        flight.is_broadcast = self.links.len() > 1 && link == self.links.len() - 1;
        let frames_max = if flight.is_broadcast { 1 } else { dcf.ampdu_frames };
        for (index, entry) in self.links[link].entries.iter().enumerate().take(dcf.window_frames as usize) {
            if entry.state != State::Waiting {
                continue;
            }
            let load = flight.load.with(dcf.mpdu_bytes(entry.frame.len_bytes));
            if load.frames > 1 && (load.frames > frames_max || load.bytes > bytes_max) {
                break;
            }
            flight.load = load;
            flight.repeated += u32::from(entry.failures > 0);
            flight.entries.push(index);
        }
        self.is_sending = true;
    }

    /// Settles a transmission: `arrives` decides for each frame. Finished frames are appended to `settled`, in order.
    /// Returns whether any frame arrived.
    pub(super) fn land(&mut self, dcf: &Dcf, mut arrives: impl FnMut() -> bool, settled: &mut Vec<Settled>) -> bool {
        let (mut any_arrived, mut any_given_up) = (false, false);
        let link = &mut self.links[self.flight.link];
        for &index in &self.flight.entries {
            let entry = &mut link.entries[index];
            if arrives() {
                entry.state = State::Arrived;
                any_arrived = true;
            } else {
                entry.failures += 1;
                if entry.failures <= dcf.retries {
                    continue;
                }
                entry.state = State::GivenUp;
                settled.push(Settled::GivenUp(entry.frame));
                any_given_up = true;
            }
            link.waiting -= 1;
            self.waiting -= 1;
        }
        while let Some(entry) = link.entries.pop_front_if(|entry| entry.state != State::Waiting) {
            if entry.state == State::Arrived {
                settled.push(Settled::Released(entry.frame));
            }
        }
        self.is_sending = false;
        let doubled = self.cw.saturating_mul(2).saturating_add(1).min(dcf.cw_max);
        let is_through = any_arrived || any_given_up;
        self.cw = if is_through { dcf.cw_min } else { doubled };
        // A link with failed frames keeps its turn until they arrive or are given up.
        if link.waiting == 0 {
            self.turns.pop_front();
        } else if is_through {
            self.turns.rotate_left(1);
        }
        any_arrived
    }
}

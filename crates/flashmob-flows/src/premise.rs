//! Premises of figures that a capture breaks, in the form of results. Which figures rest on which premise is in
//! [`flashmob_results::capture::Premise`].

use flashmob_results::capture::{self, Doubt, Premise};
use flashmob_text::{Bytes, bits_per_second};

use crate::clock::Steps;

/// The packets that break a premise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// Number of the first.
    pub first: Option<u64>,
    /// How many.
    pub count: u64,
}

impl Broken {
    /// Adds packet `number` of the capture.
    pub fn by(&mut self, number: u64) {
        self.first.get_or_insert(number);
        self.count += 1;
    }

    fn doubt(&self, premise: Premise, message: String) -> Doubt {
        let figures = premise.figures().iter().map(|name| (*name).to_string()).collect();
        Doubt { premise, packet: self.first, count: self.count, figures, message }
    }
}

/// A doubt about a direction, as one about the figures of its connection.
pub fn of_flow(doubt: &Doubt) -> Doubt {
    let figures = doubt.premise.flow_figures().iter().map(|name| (*name).to_string()).collect();
    Doubt { figures, ..doubt.clone() }
}

/// The clock stepped.
pub fn clock(broken: &Broken, largest_ns: i64) -> Doubt {
    let ms = largest_ns as f64 / 1e6;
    let message = format!(
        "The clock of the capture stepped back {}, by up to {ms:.1} ms: times continue from there, and the time that passed \
         meanwhile is not known.",
        times(broken.count)
    );
    broken.doubt(Premise::Clock, message)
}

/// A second SYN-ACK.
pub fn second_server(broken: &Broken) -> Doubt {
    let message =
        "A second SYN-ACK with another sequence number was captured: the one that the client acknowledged counts.";
    broken.doubt(Premise::OneConnection, message.into())
}

/// Data were not captured; `seconds` is the time of the direction.
pub fn missing(counts: &capture::Way, broken: &Broken, seconds: f64) -> Doubt {
    let all = counts.unique_bytes.saturating_add(counts.missing_bytes).max(1);
    let percent = 100.0 * counts.missing_bytes as f64 / all as f64;
    let rate = if seconds > 0.0 {
        format!("; with them the rate is {}", bits_per_second(all as f64 * 8.0 / seconds))
    } else {
        String::new()
    };
    let message = format!(
        "{} ({percent:.1} %) were acknowledged and never captured: the capture lost packets{rate}. Retransmissions and \
         acknowledgements may be among the lost ones.",
        Bytes(counts.missing_bytes)
    );
    broken.doubt(Premise::Complete, message)
}

/// Packets were captured more than once.
pub fn copies(count: u64, broken: &Broken) -> Doubt {
    let message = format!(
        "{count} packets were captured more than once (several interfaces, a bridge): the first of each counts."
    );
    broken.doubt(Premise::Once, message)
}

/// Nothing came back.
pub fn one_direction() -> Doubt {
    Broken::default().doubt(Premise::BothDirections, "No acknowledgement of its data was captured.".into())
}

/// The handshake was not captured.
pub fn no_handshake() -> Doubt {
    let message = "The handshake was not captured: the scale of windows is not known.";
    Broken::default().doubt(Premise::Handshake, message.into())
}

/// Doubts about a whole capture.
pub fn of_capture(steps: &Steps, unreadable: &Broken) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if steps.count > 0 {
        doubts.push(clock(&Broken { first: Some(steps.first_packet), count: steps.count }, steps.largest_ns));
    }
    if unreadable.count > 0 {
        let message = format!("{} packets could not be read; TCP may be among them.", unreadable.count);
        doubts.push(unreadable.doubt(Premise::Readable, message));
    }
    doubts.iter_mut().for_each(|doubt| doubt.figures.clear());
    doubts
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

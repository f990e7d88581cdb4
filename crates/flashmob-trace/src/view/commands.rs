//! The driver's commands: the distance of each from the previous one, and its service time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use flashmob_results::disk::Operation as Direction;
use flashmob_results::trace::{Command, Commands, Layer, Span, Steps, Timeline};

use super::{median, seconds, thinned};

/// The state of a device during the pass over its commands.
#[derive(Default)]
struct Device {
    /// End address of the command issued last.
    end_bytes: Option<u64>,
    /// End times of the outstanding commands, earliest first.
    under_way: BinaryHeap<Reverse<u64>>,
}

/// All commands with an address and a size, in order of issue; flushes have no address and are ignored. `None` if there are none.
///
/// A step is the distance from the end of the previous command at the same place ([`flashmob_results::trace::Thread::place`]) to the
/// begin of this one: 0 is sequential.
#[must_use]
pub fn commands(timeline: &Timeline) -> Option<Commands> {
    let is_command = |span: &&Span| span.layer == Layer::Driver && span.address_bytes.is_some() && span.bytes > 0;
    let spans: Vec<&Span> = timeline.spans.iter().filter(is_command).collect();
    let first_ns = spans.first()?.begin_ns;
    let mut devices: HashMap<&str, Device> = HashMap::new();
    let mut all: Vec<Command> = Vec::with_capacity(spans.len());
    for span in spans {
        let place = timeline.threads.get(span.thread as usize).map_or("", |thread| &thread.place);
        let device = devices.entry(place).or_default();
        let address_bytes = span.address_bytes.unwrap_or_default();
        let step_bytes = device.end_bytes.map(|end| step(end, address_bytes));
        device.end_bytes = Some(address_bytes.saturating_add(span.bytes));
        while device.under_way.peek().is_some_and(|Reverse(end_ns)| *end_ns <= span.begin_ns) {
            device.under_way.pop();
        }
        device.under_way.push(Reverse(span.end_ns));
        all.push(Command {
            begin_s: seconds(span.begin_ns.saturating_sub(first_ns)),
            direction: direction(timeline.name(span.name)),
            address_bytes,
            bytes: span.bytes,
            step_bytes,
            service_us: span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e3,
            outstanding: u32::try_from(device.under_way.len()).unwrap_or(u32::MAX),
        });
    }
    Some(Commands {
        count: all.len() as u64,
        forward: steps(&all, |step| step >= 0),
        backward: steps(&all, |step| step < 0),
        list: thinned(all.len()).map(|at| all[at]).collect(),
    })
}

fn step(from: u64, to: u64) -> i64 {
    let distance = i64::try_from(from.abs_diff(to)).unwrap_or(i64::MAX);
    if to >= from { distance } else { -distance }
}

/// Derived from the command's name: the kernel's flags begin with `R` for reads, after an `F` for a preceding flush.
fn direction(name: &str) -> Direction {
    let name = name.trim_start_matches('F');
    let is_read = name.starts_with('R') || name.to_ascii_lowercase().contains("read");
    if is_read { Direction::Read } else { Direction::Write }
}

fn steps(all: &[Command], belongs: fn(i64) -> bool) -> Option<Steps> {
    let of_direction = all.iter().filter(|command| command.step_bytes.is_some_and(belongs));
    let mut times_us: Vec<f64> = of_direction.map(|command| command.service_us).collect();
    times_us.sort_unstable_by(f64::total_cmp);
    Some(Steps {
        count: times_us.len() as u64,
        p50_us: median(&times_us)?,
        mean_us: times_us.iter().sum::<f64>() / times_us.len() as f64,
    })
}

//! Commands of a device, collected in the order of their issue: exact counts and times of all, a list of some, in bounded memory.
//!
//! The step of a command is from the end of the previously issued one to its own begin, whoever issued either. A command without a known
//! predecessor (the first of all, or of a stretch of time) has no step and counts in no direction. Flushes have no address and are omitted.

use hdrhistogram::Histogram;

use crate::disk::Operation;
use crate::latency;
use crate::trace::{Command, Commands, Steps};

/// Most commands in the list.
pub const LIST_MAX: usize = 4_096;

/// One command with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Time of its issue, in nanoseconds of a clock common to all commands.
    pub begin_ns: u64,
    /// Time of its completion.
    pub end_ns: u64,
    /// Reads or writes.
    pub direction: Operation,
    /// Where it begins.
    pub address_bytes: u64,
    /// How long it is.
    pub bytes: u64,
    /// Outstanding commands when it was issued, including itself.
    pub outstanding: u32,
}

/// The commands collected so far.
#[derive(Clone, Debug)]
pub struct Gatherer {
    count: u64,
    first_ns: Option<u64>,
    previous_end_bytes: Option<u64>,
    forward: StepTimes,
    backward: StepTimes,
    list: Vec<Command>,
    /// One in this many commands is in the list.
    stride: u64,
}

#[derive(Clone, Debug)]
struct StepTimes {
    sum_ns: u128,
    times_ns: Histogram<u64>,
}

impl StepTimes {
    fn add(&mut self, service_ns: u64) {
        self.sum_ns += u128::from(service_ns);
        self.times_ns.saturating_record(service_ns.max(1));
    }

    fn steps(&self) -> Option<Steps> {
        let count = self.times_ns.len();
        (count > 0).then(|| Steps {
            count,
            p50_us: self.times_ns.value_at_quantile(0.5) as f64 / 1e3,
            mean_us: self.sum_ns as f64 / count as f64 / 1e3,
        })
    }
}

impl Default for Gatherer {
    fn default() -> Self {
        let way = || StepTimes { sum_ns: 0, times_ns: latency::histogram() };
        Gatherer {
            count: 0,
            first_ns: None,
            previous_end_bytes: None,
            forward: way(),
            backward: way(),
            list: Vec::new(),
            stride: 1,
        }
    }
}

impl Gatherer {
    /// A collection without commands.
    #[must_use]
    pub fn new() -> Gatherer {
        Gatherer::default()
    }

    /// The next command has no step, because others may have used the device since the last one.
    pub fn begin_apart(&mut self) {
        self.previous_end_bytes = None;
    }

    /// Adds the next command, in the order of issue.
    pub fn add(&mut self, served: &Served) {
        let service_ns = served.end_ns.saturating_sub(served.begin_ns);
        let step = self.previous_end_bytes.map(|end| i128::from(served.address_bytes) - i128::from(end));
        match step {
            Some(step) if step >= 0 => self.forward.add(service_ns),
            Some(_) => self.backward.add(service_ns),
            None => {}
        }
        self.previous_end_bytes = Some(served.address_bytes.saturating_add(served.bytes));
        let first_ns = *self.first_ns.get_or_insert(served.begin_ns);
        if self.count.is_multiple_of(self.stride) {
            if self.list.len() == LIST_MAX {
                self.thin();
            }
            // After thinning it may not be due any more.
            if self.count.is_multiple_of(self.stride) {
                self.list.push(Command {
                    begin_s: served.begin_ns.saturating_sub(first_ns) as f64 / 1e9,
                    direction: served.direction,
                    address_bytes: served.address_bytes,
                    bytes: served.bytes,
                    step_bytes: step.and_then(|step| i64::try_from(step).ok()),
                    service_us: service_ns as f64 / 1e3,
                    outstanding: served.outstanding,
                });
            }
        }
        self.count += 1;
    }

    /// Keeps every second one.
    fn thin(&mut self) {
        let mut nth = 0;
        self.list.retain(|_| {
            nth += 1;
            nth % 2 == 1
        });
        self.stride *= 2;
    }

    /// All of them; `None` if there are none.
    #[must_use]
    pub fn commands(&self) -> Option<Commands> {
        (self.count > 0).then(|| Commands {
            count: self.count,
            forward: self.forward.steps(),
            backward: self.backward.steps(),
            list: self.list.clone(),
        })
    }
}

impl Commands {
    /// The fraction of steps that did not go down; `None` without steps.
    #[must_use]
    pub fn upward_fraction(&self) -> Option<f64> {
        let of = |steps: Option<Steps>| steps.map_or(0, |steps| steps.count);
        let (up, down) = (of(self.forward), of(self.backward));
        let all = up.saturating_add(down);
        (all > 0).then(|| up as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(begin_ns: u64, address_bytes: u64, service_ns: u64) -> Served {
        let end_ns = begin_ns + service_ns;
        Served { begin_ns, end_ns, direction: Operation::Read, address_bytes, bytes: 4_096, outstanding: 1 }
    }

    #[test]
    fn steps_go_from_the_end_of_one_to_the_begin_of_the_next() {
        let mut gatherer = Gatherer::new();
        assert_eq!(gatherer.commands(), None);
        // Steps of 0 (upward), of twice the size downward, and of one block upward.
        for (nth, address) in [8_192, 12_288, 8_192, 16_384].into_iter().enumerate() {
            gatherer.add(&read(nth as u64 * 1_000, address, 1_000 * (nth as u64 + 1)));
        }
        let commands = gatherer.commands().unwrap();
        let steps: Vec<_> = commands.list.iter().map(|c| c.step_bytes).collect();
        assert_eq!(steps, [None, Some(0), Some(-8_192), Some(4_096)]);
        assert_eq!((commands.forward.unwrap().count, commands.backward.unwrap().count), (2, 1));
        assert_eq!((commands.forward.unwrap().mean_us, commands.backward.unwrap().mean_us), (3.0, 3.0));
        // The histogram has three significant digits.
        assert!((commands.backward.unwrap().p50_us - 3.0).abs() < 0.003, "{commands:?}");
        assert!((commands.upward_fraction().unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(commands.list[3].begin_s, 3e-6);
    }

    #[test]
    fn what_begins_apart_has_no_step() {
        let mut gatherer = Gatherer::new();
        gatherer.add(&read(0, 0, 1));
        gatherer.begin_apart();
        gatherer.add(&read(5, 1 << 40, 1));
        let commands = gatherer.commands().unwrap();
        assert_eq!((commands.count, commands.forward, commands.backward), (2, None, None));
        assert_eq!(commands.upward_fraction(), None);
    }

    #[test]
    fn of_many_commands_all_are_counted_and_an_even_part_is_kept() {
        for many in [LIST_MAX as u64, LIST_MAX as u64 + 1, 100_000] {
            let mut gatherer = Gatherer::new();
            for n in 0..many {
                gatherer.add(&read(n * 1_000, (n % 2) * (1 << 30), 1_000 + n % 2 * 1_000));
            }
            let commands = gatherer.commands().unwrap();
            assert_eq!((commands.count, commands.forward.unwrap().count), (many, many / 2));
            assert_eq!(commands.backward.unwrap().mean_us, 1.0);
            assert!((LIST_MAX / 2..=LIST_MAX).contains(&commands.list.len()), "{many}: {}", commands.list.len());
            let gaps: Vec<f64> = commands.list.windows(2).map(|two| two[1].begin_s - two[0].begin_s).collect();
            assert!(gaps.iter().all(|gap| (gap - gaps[0]).abs() < 1e-9), "{many}: not even");
        }
    }

    #[test]
    fn no_numbers_make_it_panic() {
        let mut gatherer = Gatherer::new();
        for (address, bytes) in [(u64::MAX, u64::MAX), (0, 0), (u64::MAX, 1), (1, u64::MAX)] {
            gatherer.add(&Served {
                begin_ns: u64::MAX,
                end_ns: 0,
                direction: Operation::Write,
                address_bytes: address,
                bytes,
                outstanding: u32::MAX,
            });
        }
        assert_eq!(gatherer.commands().unwrap().count, 4);
    }
}

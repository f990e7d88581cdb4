//! The elevator against a model that knows the rules and nothing of how they are kept.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const LINKS: u32 = 3;

#[derive(Clone, Debug)]
enum Action {
    Push {
        op: Op,
        flags: OpFlags,
        offset_bytes: u64,
        len_bytes: u32,
    },
    Next,
    /// Completes one of those in flight: which one, as a share of their number.
    Complete(usize),
    /// Takes back what the link with that number has not had issued.
    RemoveLink(u32),
}

fn pushes() -> impl Strategy<Value = Action> {
    let op = prop_oneof![
        6 => Just(Op::Read),
        6 => Just(Op::Write),
        1 => Just(Op::Trim),
        1 => Just(Op::WriteZeroes),
        1 => Just(Op::Flush),
        2 => Just(Op::Digest),
    ];
    let flags = prop_oneof![5 => Just(OpFlags::NONE), 1 => Just(FUA), 2 => Just(OpFlags::BACKGROUND)];
    (op, flags, 0u64..64, 0u32..12).prop_map(|(op, flags, offset_bytes, len_bytes)| Action::Push {
        op,
        flags,
        offset_bytes,
        len_bytes,
    })
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        30 => pushes(),
        15 => Just(Action::Next),
        10 => any::<usize>().prop_map(Action::Complete),
        1 => (0..LINKS).prop_map(Action::RemoveLink),
    ];
    prop::collection::vec(action, 1..200)
}

fn config() -> impl Strategy<Value = ElevatorConfig> {
    let order = prop_oneof![3 => Just(IssueOrder::Sorted), 1 => Just(IssueOrder::Arrival)];
    (order, prop_oneof![Just(0u64), Just(1), Just(3), Just(8)], 0u32..40, 0usize..6).prop_map(
        |(order, align_bytes, merge_bytes_max, merge_parts_max)| ElevatorConfig {
            order,
            align_bytes,
            merge_bytes_max,
            merge_parts_max,
        },
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    InFlight(u64),
    Over,
}

/// What is known of an entry; its number is its tag and its arrival.
#[derive(Clone, Debug)]
struct Known {
    entry: Entry<u32>,
    state: State,
    /// How often it was issued.
    issued: usize,
    removed: bool,
    /// Entries that may at most go before it, from the moment at which it was ready.
    before_max: Option<usize>,
}

struct Model {
    config: ElevatorConfig,
    all: Vec<Known>,
    /// The rest of the sweep and what gathers: place and arrival of each entry.
    sweep: BTreeSet<(u64, u32)>,
    gathered: BTreeSet<(u64, u32)>,
    /// The urgent ones that are ready, and how many of them were issued since one of the others was.
    urgent: BTreeSet<u32>,
    urgent_run: u32,
    /// How many issues have passed the first one that is done in the background.
    passed: u32,
}

impl Model {
    fn new(config: ElevatorConfig) -> Model {
        Model {
            config,
            all: Vec::new(),
            sweep: BTreeSet::new(),
            gathered: BTreeSet::new(),
            urgent: BTreeSet::new(),
            urgent_run: 0,
            passed: 0,
        }
    }

    fn overlap(&self, a: &Entry<u32>, b: &Entry<u32>) -> bool {
        let align = self.config.align_bytes.max(1);
        let blocks = |e: &Entry<u32>| {
            (e.offset_bytes / align, (e.offset_bytes + u64::from(e.len_bytes)).div_ceil(align), e.len_bytes > 0)
        };
        let ((a_from, a_to, a_any), (b_from, b_to, b_any)) = (blocks(a), blocks(b));
        a_any && b_any && a_from < b_to && b_from < a_to
    }

    fn is_background(&self, arrival: u32) -> bool {
        let entry = &self.all[arrival as usize].entry;
        entry.op.is_background(entry.flags)
    }

    /// Whether one waits that is done in the background.
    fn has_background(&self) -> bool {
        (0..self.all.len() as u32).any(|n| self.is_background(n) && self.all[n as usize].state == State::Waiting)
    }

    fn is_urgent(&self, arrival: u32) -> bool {
        let entry = &self.all[arrival as usize].entry;
        entry.op.is_urgent(entry.flags)
    }

    /// The rules, word for word.
    fn is_blocked(&self, arrival: u32) -> bool {
        if self.is_background(arrival) {
            return false;
        }
        let entry = &self.all[arrival as usize].entry;
        self.all[..arrival as usize].iter().any(|earlier| {
            let unfinished_mutation = earlier.entry.op.mutates() && earlier.state != State::Over;
            unfinished_mutation && (entry.op == Op::Flush || self.overlap(&earlier.entry, entry))
        })
    }

    fn place(&self, arrival: u32) -> (u64, u32) {
        let entry = &self.all[arrival as usize].entry;
        let is_placed = entry.op != Op::Flush && self.config.order == IssueOrder::Sorted;
        (if is_placed { entry.offset_bytes } else { 0 }, arrival)
    }

    /// Gathers what has become ready.
    fn gather(&mut self) {
        for arrival in 0..self.all.len() as u32 {
            let known = &self.all[arrival as usize];
            let is_new = known.state == State::Waiting && known.before_max.is_none();
            if is_new && !self.is_background(arrival) && !self.is_blocked(arrival) {
                if self.is_urgent(arrival) {
                    self.all[arrival as usize].before_max = Some(usize::MAX);
                    self.urgent.insert(arrival);
                    continue;
                }
                let others = self.sweep.len() + self.gathered.len();
                // Who is ready before the next sweep begins may come before it too.
                for &(_, other) in &self.gathered {
                    *self.all[other as usize].before_max.as_mut().expect("ready") += 1;
                }
                self.all[arrival as usize].before_max = Some(others);
                self.gathered.insert(self.place(arrival));
            }
        }
    }

    /// The entries of the next issue, by the rules of sweeps and of merging.
    fn next(&mut self) -> Vec<u32> {
        if self.sweep.is_empty() {
            std::mem::swap(&mut self.sweep, &mut self.gathered);
        }
        if self.urgent_run < URGENT_RUN
            && let Some(first) = self.urgent.pop_first()
        {
            self.urgent_run += 1;
            self.passed += u32::from(self.has_background());
            return vec![first];
        }
        let of_background = |state: fn(&State) -> bool| {
            (0..self.all.len() as u32).find(|&n| self.is_background(n) && state(&self.all[n as usize].state))
        };
        if let Some(first) = of_background(|state| *state == State::Waiting) {
            let is_out = of_background(|state| matches!(state, State::InFlight(_))).is_some();
            let is_idle = self.sweep.is_empty() && self.urgent.is_empty();
            if !is_out && (is_idle || self.passed >= BACKGROUND_AFTER) {
                (self.passed, self.urgent_run) = (0, 0);
                return vec![first];
            }
            self.passed += u32::from(!self.sweep.is_empty());
        }
        if self.sweep.is_empty() {
            let first = self.urgent.pop_first();
            self.urgent_run += u32::from(first.is_some());
            self.passed += u32::from(first.is_some() && self.has_background());
            return first.into_iter().collect();
        }
        self.urgent_run = 0;
        let mut parts: Vec<u32> = Vec::new();
        let (mut from, mut to) = (0, 0);
        for &(_, arrival) in &self.sweep {
            let entry = &self.all[arrival as usize].entry;
            let (start, end) = (entry.offset_bytes, entry.offset_bytes + u64::from(entry.len_bytes));
            if let Some(&first) = parts.first() {
                let first = &self.all[first as usize].entry;
                let kind =
                    first.op == entry.op && first.flags == entry.flags && self.config.order == IssueOrder::Sorted;
                let touches = match entry.op {
                    Op::Read => start <= to,
                    Op::Write => start == to,
                    _ => false,
                };
                let fits = to.max(end) - from <= u64::from(self.config.merge_bytes_max)
                    && parts.len() < self.config.merge_parts_max;
                if !(kind && touches && fits) {
                    break;
                }
                to = to.max(end);
            } else {
                (from, to) = (start, end);
            }
            parts.push(arrival);
        }
        for &arrival in &parts {
            let place = self.place(arrival);
            self.sweep.remove(&place);
        }
        parts
    }

    fn complete(&mut self, ticket: u64) {
        for known in self.all.iter_mut().filter(|known| known.state == State::InFlight(ticket)) {
            known.state = State::Over;
        }
    }

    fn in_flight(&self) -> Vec<u64> {
        let tickets: BTreeSet<u64> = self
            .all
            .iter()
            .filter_map(|known| match known.state {
                State::InFlight(ticket) => Some(ticket),
                _ => None,
            })
            .collect();
        tickets.into_iter().collect()
    }

    fn waiting(&self) -> impl Iterator<Item = &Known> {
        self.all.iter().filter(|known| known.state == State::Waiting)
    }
}

/// An elevator and its model side by side.
struct Pair {
    elevator: Elevator<u32>,
    model: Model,
}

impl Pair {
    fn new(config: ElevatorConfig) -> Pair {
        Pair { elevator: Elevator::new(config.clone()), model: Model::new(config) }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Push { op, flags, offset_bytes, len_bytes } => {
                let tag = self.model.all.len() as u32;
                let entry = Entry { op, flags, offset_bytes, len_bytes, tag };
                self.elevator.push(entry.clone());
                self.model.all.push(Known {
                    entry,
                    state: State::Waiting,
                    issued: 0,
                    removed: false,
                    before_max: None,
                });
            }
            Action::Next => {
                self.next();
            }
            Action::Complete(which) => {
                let tickets = self.model.in_flight();
                if !tickets.is_empty() {
                    let ticket = tickets[which % tickets.len()];
                    assert!(self.elevator.complete(ticket));
                    self.model.complete(ticket);
                }
            }
            Action::RemoveLink(link) => self.remove_link(link),
        }
        self.model.gather();
        assert_eq!(self.elevator.len(), self.model.waiting().count());
        assert_eq!(self.elevator.in_flight(), self.model.in_flight().len());
    }

    /// Takes one issue and checks it; false if there was none.
    fn next(&mut self) -> bool {
        let mut parts = Vec::new();
        let issue = self.elevator.next(&mut parts);
        let arrivals: Vec<u32> = parts.iter().map(|part| part.tag).collect();
        assert_eq!(arrivals, self.model.next());
        self.check_wait(&arrivals);
        let Some(issue) = issue else {
            assert!(parts.is_empty());
            return false;
        };
        for &arrival in &arrivals {
            assert!(!self.model.is_blocked(arrival), "{arrival} was issued too early");
        }
        for part in &parts {
            let known = &mut self.model.all[part.tag as usize];
            assert_eq!((&known.entry, known.state), (part, State::Waiting));
            assert_eq!((part.op, part.flags), (issue.op, issue.flags));
            known.issued += 1;
            known.state = State::InFlight(issue.ticket);
        }
        check_union(&issue, &parts);
        true
    }

    /// Nobody starves: while an entry was ready, no more went before it than its bound allows.
    fn check_wait(&mut self, issued: &[u32]) {
        if issued.iter().any(|&arrival| self.model.is_background(arrival) || self.model.is_urgent(arrival)) {
            return;
        }
        for (i, &arrival) in issued.iter().enumerate() {
            let before_max = self.model.all[arrival as usize].before_max.expect("ready");
            assert!(before_max >= i, "{arrival} was overtaken too often");
        }
        let places: Vec<u32> = self.model.sweep.iter().chain(&self.model.gathered).map(|&(_, a)| a).collect();
        for arrival in places {
            let before_max = self.model.all[arrival as usize].before_max.as_mut().expect("ready");
            *before_max = before_max.checked_sub(issued.len()).expect("overtaken too often");
        }
    }

    fn remove_link(&mut self, link: u32) {
        let mut removed: Vec<u32> =
            self.elevator.remove_where(|tag| tag % LINKS == link).iter().map(|entry| entry.tag).collect();
        removed.sort_unstable();
        let expected: Vec<u32> =
            self.model.waiting().map(|known| known.entry.tag).filter(|tag| tag % LINKS == link).collect();
        assert_eq!(removed, expected);
        for tag in removed {
            self.model.all[tag as usize].state = State::Over;
            self.model.all[tag as usize].removed = true;
            let place = self.model.place(tag);
            self.model.sweep.remove(&place);
            self.model.gathered.remove(&place);
            self.model.urgent.remove(&tag);
        }
    }

    /// Serves everything; `pick` says in which order issues complete.
    fn finish(mut self, pick: usize) {
        loop {
            while self.next() {}
            match self.model.in_flight().len() {
                0 => break,
                n => self.act(Action::Complete(pick % n)),
            }
        }
        assert!(self.elevator.is_empty(), "{} entries are never served", self.elevator.len());
        assert!(self.elevator.order.is_blank());
        for known in &self.model.all {
            assert_eq!(known.issued, usize::from(!known.removed), "{known:?}");
        }
    }
}

/// The range of an issue is the union of its parts, which ascend and leave no gap.
fn check_union(issue: &Issue, parts: &[Entry<u32>]) {
    assert_eq!(issue.offset_bytes, parts[0].offset_bytes);
    let mut end = issue.offset_bytes;
    for pair in parts.windows(2) {
        assert!(pair[0].offset_bytes <= pair[1].offset_bytes);
    }
    for part in parts {
        assert!(part.offset_bytes <= end, "a gap");
        end = end.max(part.offset_bytes + u64::from(part.len_bytes));
    }
    assert_eq!(u64::from(issue.len_bytes), end - issue.offset_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Each entry exactly once, in sweeps, merged where allowed, never before what it must wait for,
    /// and never later than its bound; what is taken back leaves no trace.
    #[test]
    fn every_issue_is_the_one_that_the_rules_foretell(config in config(), actions in actions(), pick in any::<usize>()) {
        let mut pair = Pair::new(config);
        actions.into_iter().for_each(|action| pair.act(action));
        pair.finish(pick);
    }
}

/// What the bytes come to be, whatever the order of completion: as if served in order of arrival.
#[test]
fn bytes_end_as_if_served_one_by_one() {
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    for seed in 0..200 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut elevator = elevator(if seed % 2 == 0 { 1 } else { 8 }, 64, 8);
        let (mut expected, mut bytes) = ([0u32; 256], [0u32; 256]);
        let mut in_flight: Vec<(Issue, Vec<Entry<u32>>)> = Vec::new();
        let write = |bytes: &mut [u32; 256], e: &Entry<u32>| {
            bytes[e.offset_bytes as usize..][..e.len_bytes as usize].fill(e.tag);
        };
        for tag in 1..400 {
            let e = entry(Op::Write, rng.random_range(0..240), rng.random_range(0..16), tag);
            write(&mut expected, &e);
            elevator.push(e);
            while rng.random_bool(0.6) {
                let mut parts = Vec::new();
                if let Some(issue) = elevator.next(&mut parts) {
                    in_flight.push((issue, parts));
                } else if !in_flight.is_empty() {
                    let (issue, parts) = in_flight.swap_remove(rng.random_range(0..in_flight.len()));
                    parts.iter().for_each(|part| write(&mut bytes, part));
                    assert!(elevator.complete(issue.ticket));
                }
            }
        }
        loop {
            let mut parts = Vec::new();
            if let Some(issue) = elevator.next(&mut parts) {
                in_flight.push((issue, parts));
            } else if let Some((issue, parts)) = in_flight.pop() {
                parts.iter().for_each(|part| write(&mut bytes, part));
                assert!(elevator.complete(issue.ticket));
            } else {
                break;
            }
        }
        assert_eq!(bytes, expected, "seed {seed}");
    }
}

/// Reads that wait for very many writes are held in another way: the rules stay, and all are served.
#[test]
fn very_large_reads_keep_the_rules_too() {
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    for seed in 0..100 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let config =
            ElevatorConfig { align_bytes: 1, merge_bytes_max: 8, merge_parts_max: 4, ..ElevatorConfig::default() };
        let mut elevator = Elevator::new(config.clone());
        let mut model = Model::new(config);
        let (mut served, mut removed, total) = (0, 0, 500);
        while served + removed < total {
            if model.all.len() < total && rng.random_bool(0.6) {
                let tag = model.all.len() as u32;
                let e = match rng.random_range(0..8) {
                    0 => entry(Op::Read, rng.random_range(0..50), rng.random_range(100..200), tag),
                    1 => entry(Op::Trim, rng.random_range(0..200), rng.random_range(0..50), tag),
                    2 => entry(Op::Flush, 0, 0, tag),
                    _ => entry(Op::Write, rng.random_range(0..250), rng.random_range(0..3), tag),
                };
                elevator.push(e.clone());
                model.all.push(Known { entry: e, state: State::Waiting, issued: 0, removed: false, before_max: None });
            } else if rng.random_bool(0.02) {
                let link = rng.random_range(0..LINKS);
                for entry in elevator.remove_where(|tag| tag % LINKS == link) {
                    model.all[entry.tag as usize].state = State::Over;
                    removed += 1;
                }
            } else if rng.random_bool(0.5) && !model.in_flight().is_empty() {
                let tickets = model.in_flight();
                let ticket = tickets[rng.random_range(0..tickets.len())];
                assert!(elevator.complete(ticket));
                model.complete(ticket);
            } else {
                let mut parts = Vec::new();
                let issue = elevator.next(&mut parts);
                assert!(issue.is_some() || elevator.is_empty() || elevator.in_flight() > 0, "stuck, seed {seed}");
                for part in &parts {
                    assert!(!model.is_blocked(part.tag), "seed {seed}");
                    model.all[part.tag as usize].state = State::InFlight(issue.expect("an issue").ticket);
                    served += 1;
                }
            }
        }
        model.in_flight().into_iter().for_each(|ticket| assert!(elevator.complete(ticket)));
        assert!(elevator.is_empty() && elevator.order.is_blank());
    }
}

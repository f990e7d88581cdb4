//! A few operations in full.

use std::collections::{HashMap, HashSet};

use flashmob_results::trace::{Operation, Span, Timeline};

use super::owned::Owned;

/// Maximum spans of the chosen operations, with what was done meanwhile. Operations that do not fit are left out, except the first: its figure needs all spans.
const SPANS_MAX: usize = 20_000;
/// Maximum spans of the neighbours, and of what was done meanwhile, beside those.
const SPANS_OF_NEIGHBOURS_MAX: usize = 20_000;

/// The operations with these numbers and these neighbours, all work for them, and unattributed work during them; for neighbours, which follow each other, also
/// between them. Only names, files and threads that occur are kept.
#[must_use]
pub fn excerpt(timeline: &Timeline, operations: &[u64], neighbours: &[u64]) -> Timeline {
    let owned = Owned::new(timeline);
    // The places of those that fit, in the order of time, and the room that is left.
    let fit = |wanted: &HashSet<u64>, most: usize, others: &[usize]| {
        let (mut room, mut chosen) = (most, Vec::new());
        for (at, _) in timeline.operations.iter().enumerate().filter(|(_, o)| wanted.contains(&o.number)) {
            if others.contains(&at) {
                continue;
            }
            let many = owned.of(at).len();
            if many > room && !chosen.is_empty() {
                break;
            }
            room = room.saturating_sub(many);
            chosen.push(at);
        }
        (chosen, room)
    };
    let (chosen, mut room) = fit(&operations.iter().copied().collect(), SPANS_MAX, &[]);
    let (beside, mut room_beside) = fit(&neighbours.iter().copied().collect(), SPANS_OF_NEIGHBOURS_MAX, &chosen);
    let time = |at: &usize| (timeline.operations[*at].begin_ns, timeline.operations[*at].end_ns);
    let times = merged(chosen.iter().map(time).collect());
    let whole = beside.iter().map(time).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let times_beside: Vec<(u64, u64)> = whole.into_iter().collect();
    let mut all: Vec<usize> = chosen.into_iter().chain(beside).collect();
    all.sort_unstable();
    let mut kept = Kept::empty(timeline);
    let mut numbers = HashSet::new();
    for operation in all.into_iter().map(|at| &timeline.operations[at]) {
        numbers.insert(operation.number);
        let (name, thread) = (kept.name(operation.name), kept.thread(operation.thread));
        kept.to.operations.push(Operation { name, thread, ..operation.clone() });
    }
    for span in &timeline.spans {
        let is_wanted = match span.operation {
            Some(number) => numbers.contains(&number),
            None => take(&mut room, overlaps(&times, span)) || take(&mut room_beside, overlaps(&times_beside, span)),
        };
        if is_wanted {
            kept.span(span);
        }
    }
    kept.to
}

/// Takes one from `room` if it is wanted and there is one.
fn take(room: &mut usize, is_wanted: bool) -> bool {
    let is_taken = is_wanted && *room > 0;
    *room -= usize::from(is_taken);
    is_taken
}

/// Intervals sorted by begin and by end, although operations may overlap.
fn merged(mut times: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    times.sort_unstable();
    let mut latest_end_ns = 0;
    for (_, end_ns) in &mut times {
        latest_end_ns = latest_end_ns.max(*end_ns);
        *end_ns = latest_end_ns;
    }
    times
}

/// The numbers of operations one after the other for this time, at most so many, from the middle of the run: its begin is not typical.
#[must_use]
pub fn neighbours(timeline: &Timeline, time_ns: u64, most: usize) -> Vec<u64> {
    let all = &timeline.operations;
    let enough = |from: usize| {
        all.last().zip(all.get(from)).is_some_and(|(last, o)| last.end_ns.saturating_sub(o.begin_ns) >= time_ns)
    };
    let middle = all.len() / 2;
    let from = (0..=middle).rev().find(|from| enough(*from)).unwrap_or(0);
    let Some(first) = all.get(from) else { return Vec::new() };
    let within = all[from..].iter().take_while(|o| o.begin_ns.saturating_sub(first.begin_ns) < time_ns);
    within.take(most).map(|o| o.number).collect()
}

/// Whether the span overlaps one of these intervals, which are sorted by begin and by end.
fn overlaps(times: &[(u64, u64)], span: &Span) -> bool {
    let at = times.partition_point(|(_, end_ns)| *end_ns <= span.begin_ns);
    times.get(at).is_some_and(|(begin_ns, _)| *begin_ns <= span.end_ns)
}

/// The excerpt under construction, and its new indices by old index.
struct Kept<'a> {
    from: &'a Timeline,
    to: Timeline,
    names: HashMap<u32, u32>,
    files: HashMap<u32, u32>,
    threads: HashMap<u32, u32>,
}

impl<'a> Kept<'a> {
    fn empty(from: &'a Timeline) -> Kept<'a> {
        Kept { from, to: Timeline::default(), names: HashMap::new(), files: HashMap::new(), threads: HashMap::new() }
    }

    fn name(&mut self, index: u32) -> u32 {
        again(&mut self.names, &mut self.to.names, &self.from.names, index)
    }

    fn thread(&mut self, index: u32) -> u32 {
        again(&mut self.threads, &mut self.to.threads, &self.from.threads, index)
    }

    fn span(&mut self, span: &Span) {
        let (name, thread) = (self.name(span.name), self.thread(span.thread));
        let file = span.file.map(|index| again(&mut self.files, &mut self.to.files, &self.from.files, index));
        self.to.spans.push(Span { name, thread, file, ..*span });
    }
}

/// The new index of an item, which is kept if it was not yet. An index out of range stays out of range.
fn again<T: Clone>(places: &mut HashMap<u32, u32>, kept: &mut Vec<T>, all: &[T], index: u32) -> u32 {
    if let Some(place) = places.get(&index) {
        return *place;
    }
    let Some(thing) = all.get(index as usize) else { return u32::MAX };
    // Cannot overflow: the source list is indexed with 32 bits as well.
    let place = kept.len() as u32;
    kept.push(thing.clone());
    places.insert(index, place);
    place
}

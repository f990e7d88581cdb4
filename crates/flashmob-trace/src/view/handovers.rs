//! Time between the work of one layer and of the next.

use flashmob_results::trace::{Handover, Layer, Operation, Span, Timeline};

use super::layers::place;
use super::owned::Owned;

const LAYERS: usize = Layer::ALL.len();

/// Begin or end of a span, in sort order: by time; ends before begins; of simultaneous ends
/// the lower layer's first; of simultaneous begins the upper layer's first.
type Event = (u64, bool, usize);

/// The time from one layer to another, for each pair that occurred, top layer first.
///
/// The begins and ends of all spans that were done for an operation, and lie within it, are sorted by time. The time between two
/// consecutive events of the same layer is work of that layer. Between events of different layers it is a hand-over from the first
/// one's layer to the second one's: from the entry of a system call to the file system's first event, or from a command's completion
/// to the return of the system call that waited for it. Hand-overs and work within layers thus add up to the time from an operation's
/// first event to its last, and nothing counts twice.
#[must_use]
pub fn handovers(timeline: &Timeline) -> Vec<Handover> {
    let owned = Owned::new(timeline);
    let mut totals = vec![(0_u64, 0_u64, 0_u64); LAYERS * LAYERS];
    let mut events: Vec<Event> = Vec::new();
    for (at, operation) in timeline.operations.iter().enumerate() {
        events.clear();
        for index in owned.of(at) {
            push(&mut events, &timeline.spans[*index as usize], operation);
        }
        events.sort_unstable();
        for pair in events.windows(2) {
            let ((before_ns, _, _), (after_ns, _, _)) = (pair[0], pair[1]);
            let (from, to) = (layer_of(pair[0]), layer_of(pair[1]));
            if from != to {
                let (count, total_ns, longest_ns) = &mut totals[from * LAYERS + to];
                let time_ns = after_ns - before_ns;
                *count += 1;
                *total_ns = total_ns.saturating_add(time_ns);
                *longest_ns = time_ns.max(*longest_ns);
            }
        }
    }
    let occurred = totals.into_iter().enumerate().filter(|(_, (count, _, _))| *count > 0);
    let told = occurred.map(|(at, (count, total_ns, longest_ns))| Handover {
        from: Layer::ALL[at / LAYERS],
        to: Layer::ALL[at % LAYERS],
        count,
        total_ns,
        longest_ns,
    });
    told.collect()
}

fn push(events: &mut Vec<Event>, span: &Span, operation: &Operation) {
    let is_within = |time_ns: u64| (operation.begin_ns..=operation.end_ns).contains(&time_ns);
    let layer = place(span.layer);
    if is_within(span.begin_ns) {
        events.push((span.begin_ns, true, layer));
    }
    // A span without duration is a single event.
    if is_within(span.end_ns) && span.end_ns > span.begin_ns {
        events.push((span.end_ns, false, LAYERS - 1 - layer));
    }
}

fn layer_of((_, is_begin, order): Event) -> usize {
    if is_begin { order } else { LAYERS - 1 - order }
}

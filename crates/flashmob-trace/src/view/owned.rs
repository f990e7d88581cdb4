//! Spans by the operation that they were done for.

use std::collections::HashMap;

use flashmob_results::trace::Timeline;

/// Which spans are whose, without copying any.
pub(super) struct Owned {
    /// Where each operation's begin in `spans`; one more than there are operations.
    begins: Vec<usize>,
    /// Indices of spans, operation by operation, each in the timeline's order.
    spans: Vec<u32>,
}

impl Owned {
    /// Of all spans that name an operation of this timeline. A timeline has fewer than 2^32 spans: later ones would be left out.
    pub fn new(timeline: &Timeline) -> Owned {
        let numbers = timeline.operations.iter().enumerate().map(|(at, operation)| (operation.number, at));
        let places: HashMap<u64, usize> = numbers.collect();
        let place = |span: &flashmob_results::trace::Span| places.get(&span.operation?).copied();
        // Counted, summed, then filled: two passes and one allocation.
        let mut begins = vec![0; timeline.operations.len() + 1];
        for span in &timeline.spans {
            if let Some(at) = place(span) {
                begins[at + 1] += 1;
            }
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut spans = vec![0; begins.last().copied().unwrap_or(0)];
        let mut next = begins.clone();
        for (index, span) in (0_u32..).zip(&timeline.spans) {
            if let Some(at) = place(span) {
                spans[next[at]] = index;
                next[at] += 1;
            }
        }
        Owned { begins, spans }
    }

    /// Indices of the spans of the operation at this place of the timeline.
    pub fn of(&self, operation: usize) -> &[u32] {
        match (self.begins.get(operation), self.begins.get(operation + 1)) {
            (Some(begin), Some(end)) => &self.spans[*begin..*end],
            _ => &[],
        }
    }
}

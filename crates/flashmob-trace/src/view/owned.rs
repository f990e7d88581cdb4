//! Spans grouped by the operation that they were done for.

use std::collections::HashMap;

use flashmob_results::trace::Timeline;

/// Index of spans by operation, without copies.
pub(super) struct Owned {
    /// Where each operation's range begins in `spans`; one more entry than operations.
    begins: Vec<usize>,
    /// Indices of spans, by operation, each in the timeline's order.
    spans: Vec<u32>,
}

impl Owned {
    /// Indexes all spans that name an operation of this timeline. Spans beyond the first 2^32 would be ignored.
    pub fn new(timeline: &Timeline) -> Owned {
        let numbers = timeline.operations.iter().enumerate().map(|(at, operation)| (operation.number, at));
        let places: HashMap<u64, usize> = numbers.collect();
        let place = |span: &flashmob_results::trace::Span| places.get(&span.operation?).copied();
        // Count, prefix sum, fill: two passes and one allocation.
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

    /// Indices of the spans of the operation at this index of the timeline.
    pub fn of(&self, operation: usize) -> &[u32] {
        match (self.begins.get(operation), self.begins.get(operation + 1)) {
            (Some(begin), Some(end)) => &self.spans[*begin..*end],
            _ => &[],
        }
    }
}

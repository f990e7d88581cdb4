//! Totals of each layer over all operations.

use flashmob_results::trace::{Layer, LayerTotal, Timeline};

use super::owned::Owned;

/// Layers with spans or time, top layer first.
///
/// `time_ns` is the time attributed by the operations. `inclusive_ns` is the time in which the layer had at least one span for
/// the operation, clipped to the operation; overlapping spans count once.
#[must_use]
pub fn layers(timeline: &Timeline) -> Vec<LayerTotal> {
    let mut totals =
        Layer::ALL.map(|layer| LayerTotal { layer, spans: 0, bytes: 0, time_ns: 0, inclusive_ns: 0, unowned_spans: 0 });
    for span in &timeline.spans {
        let total = &mut totals[place(span.layer)];
        total.spans += 1;
        total.bytes = total.bytes.saturating_add(span.bytes);
        total.unowned_spans += u64::from(span.operation.is_none());
    }
    let owned = Owned::new(timeline);
    for (at, operation) in timeline.operations.iter().enumerate() {
        for (layer, time_ns) in &operation.layers_ns {
            let total = &mut totals[place(*layer)];
            total.time_ns = total.time_ns.saturating_add(*time_ns);
        }
        // Spans are sorted by begin, so the end of a layer's covered time suffices to skip overlaps.
        let mut covered_until = [operation.begin_ns; Layer::ALL.len()];
        for index in owned.of(at) {
            let span = &timeline.spans[*index as usize];
            let until = &mut covered_until[place(span.layer)];
            let begin_ns = span.begin_ns.max(*until);
            let end_ns = span.end_ns.min(operation.end_ns);
            if end_ns > begin_ns {
                let total = &mut totals[place(span.layer)];
                total.inclusive_ns = total.inclusive_ns.saturating_add(end_ns - begin_ns);
                *until = end_ns;
            }
        }
    }
    totals.into_iter().filter(|total| total.spans > 0 || total.time_ns > 0).collect()
}

/// Index of a layer, top layer first.
pub(super) fn place(layer: Layer) -> usize {
    // Declared in the order of `ALL`; a test checks it.
    layer as usize
}

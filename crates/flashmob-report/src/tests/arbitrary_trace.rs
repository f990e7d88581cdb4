//! Traces that nobody would write do not make the page panic, and their figures are still XML.

use flashmob_results::Measurement;
use flashmob_results::latency::{Latency, histogram};
use flashmob_results::trace::{
    Cause, Command, Commands, FileTotal, Handover, Layer, LayerTotal, Operation, Role, Run, Span,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::builder::report;
use super::page::figures;
use super::trace_page::sample;

fn number() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![Just(0.0), 1.0..1e5, select(vec![1e300, -1.0, f64::NAN, f64::INFINITY])]
}

fn time() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..2_000_u64, any::<u64>(), Just(u64::MAX)]
}

fn layer() -> impl Strategy<Value = Layer> + Clone {
    select(Layer::ALL.to_vec())
}

fn span() -> impl Strategy<Value = Span> {
    let cause = select(vec![Cause::Direct, Cause::Waited, Cause::Unknown]);
    let indices = (0..4_u32, 0..4_u32, proptest::option::of(0..4_u32));
    (layer(), indices, time(), time(), any::<Option<u64>>(), time(), proptest::option::of(0..3_u64), cause).prop_map(
        |(layer, (name, thread, file), begin_ns, end_ns, address_bytes, bytes, operation, cause)| Span {
            layer,
            name,
            thread,
            begin_ns,
            end_ns,
            file,
            address_bytes,
            bytes,
            operation,
            cause,
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    (0..3_u64, 0..4_u32, time(), time(), vec((layer(), time()), 0..3), time()).prop_map(
        |(number, name, begin_ns, end_ns, layers_ns, unattributed_ns)| Operation {
            number,
            name,
            thread: 0,
            begin_ns,
            end_ns,
            layers_ns,
            unattributed_ns,
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    (number(), any::<Option<i64>>(), number()).prop_map(|(begin_s, step_bytes, service_us)| Command {
        begin_s,
        direction: flashmob_results::disk::Operation::Write,
        address_bytes: 0,
        bytes: 1,
        step_bytes,
        service_us,
        outstanding: 0,
    })
}

fn run() -> impl Strategy<Value = Run> {
    let totals = (layer(), time(), time(), time()).prop_map(|(layer, spans, bytes, time_ns)| LayerTotal {
        layer,
        spans,
        bytes,
        time_ns,
        inclusive_ns: time_ns,
        unowned_spans: spans,
    });
    let handovers = (layer(), layer(), time(), time()).prop_map(|(from, to, count, total_ns)| Handover {
        from,
        to,
        count,
        total_ns,
        longest_ns: total_ns,
    });
    let roles = select(vec![Role::Journal, Role::Other, Role::Unknown]);
    let files = (roles, any::<String>(), layer(), any::<String>(), time(), time()).prop_map(
        |(role, file, layer, work, count, bytes)| FileTotal { role, file, layer, work, count, bytes, time_ns: bytes },
    );
    let texts = (any::<String>(), vec(any::<String>(), 0..4), vec(any::<String>(), 0..4));
    let lists = (vec(totals, 0..5), vec(handovers, 0..4), vec(files, 0..6), vec(command(), 0..9));
    let amounts = (time(), number(), time(), time(), vec(number(), 0..5), number());
    (texts, lists, vec(operation(), 0..3), vec(span(), 0..30), amounts).prop_map(
        |((name, names, files_named), (layers, handovers, files, list), operations, spans, amounts)| {
            let Measurement::Trace(trace) = sample().measurement else { panic!("a trace") };
            let mut run = trace.runs[0].clone();
            let (count, per_second, total_ns, unattributed_ns, durations_ms, slowdown_percent) = amounts;
            (run.name, run.layers, run.handovers, run.files) = (name.clone(), layers, handovers, files);
            run.operations.name = name;
            (run.operations.count, run.operations.per_second) = (count, per_second);
            (run.operations.total_ns, run.operations.unattributed_ns) = (total_ns, unattributed_ns);
            run.operations.begins_s = durations_ms.iter().rev().copied().collect();
            run.operations.durations_ms = durations_ms;
            run.operations.latency_ns = Latency::new(&histogram());
            run.overhead.as_mut().unwrap().slowdown_percent = slowdown_percent;
            run.commands = Some(Commands { count, forward: None, backward: None, list });
            run.timeline.names = names;
            run.timeline.files.truncate(2);
            run.timeline.files.iter_mut().zip(files_named).for_each(|(file, name)| file.name = name);
            (run.timeline.operations, run.timeline.spans) = (operations, spans);
            run
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_trace_makes_it_panic(runs in vec(run(), 0..4), label in any::<String>()) {
        let mut document = sample();
        document.label = Some(label);
        document.measurement = Measurement::Trace(flashmob_results::trace::Trace { runs });
        let html = report(vec![document, sample()]).html().unwrap();
        figures(&html);
    }
}

use super::*;
use flashmob_server::status::trace::AtOnceReport;

fn nodes() -> Vec<NodeClockReport> {
    let node = |name: &str| NodeClockReport {
        volume: "v".into(),
        name: name.into(),
        clock_offset_ns: Some(5),
        clock_error_ns: Some(700),
    };
    vec![node("a:1"), node("b:2")]
}

fn piece(node: usize, at_ns: u64) -> PieceReport {
    PieceReport {
        node,
        offset_bytes: 4096,
        len_bytes: 4096,
        batched_ns: at_ns + 20,
        batch_pieces: 3,
        retries: 0,
        failure: None,
        way: Some(WayReport {
            answered: "store".into(),
            sent_ns: at_ns + 30,
            node_received_ns: at_ns + 100,
            scheduled_ns: at_ns + 110,
            flash_start_ns: at_ns + 150,
            flash_done_ns: at_ns + 600,
            node_replied_ns: at_ns + 620,
            returned_ns: at_ns + 700,
            clock_offset_ns: 5,
            clock_error_ns: 650 + node as u64,
            node_clock_ns: 9,
            store_offset_bytes: 4096,
            store_bytes: 8192,
        }),
    }
}

fn sample(pieces: Vec<PieceReport>) -> SampleReport {
    SampleReport {
        number: 7,
        op: "read".into(),
        volume: "v".into(),
        offset_bytes: 4096,
        len_bytes: 4096,
        received_ns: 1_000,
        queued_ns: 1_010,
        replied_ns: 1_720,
        failure: None,
        at_once: None,
        pieces_in_all: pieces.len() as u32,
        pieces,
    }
}

fn of(timeline: &Timeline, layer: Layer) -> u64 {
    timeline.operations[0].layers_ns.iter().find(|(other, _)| *other == layer).map_or(0, |(_, ns)| *ns)
}

#[test]
fn the_layers_of_a_read_are_its_latency() {
    let timeline = timeline(&nodes(), &[sample(vec![piece(1, 1_000)])], &Blocks::default());
    assert_eq!(timeline.check(), Ok(()));
    let operation = &timeline.operations[0];
    let sum: u64 = operation.layers_ns.iter().map(|(_, ns)| ns).sum();
    assert_eq!((sum, operation.unattributed_ns), (720, 0));
    let found = [Layer::Gateway, Layer::Link, Layer::Node, Layer::Store].map(|layer| of(&timeline, layer));
    assert_eq!(found, [30 + 20, 70 + 80, 50 + 20, 450]);
    let store = timeline.threads.iter().find(|thread| thread.name == "store").expect("a store");
    assert_eq!((&*store.place, store.clock_error_ns), ("node 1, b:2", Some(651)));
    assert_eq!(timeline.threads[0].clock_error_ns, None, "the gateway's clock is the one that counts");
}

#[test]
fn pieces_side_by_side_do_not_count_twice() {
    let mut late = piece(0, 1_000);
    if let Some(way) = &mut late.way {
        (way.flash_done_ns, way.node_replied_ns, way.returned_ns) = (1_610, 1_630, 1_710);
    }
    let timeline = timeline(&nodes(), &[sample(vec![piece(1, 1_000), late])], &Blocks::default());
    let sum: u64 = timeline.operations[0].layers_ns.iter().map(|(_, ns)| ns).sum();
    assert_eq!((sum, of(&timeline, Layer::Store)), (720, 460));
}

#[test]
fn what_never_came_back_and_what_was_there_at_once_have_their_time_too() {
    let mut lost = piece(0, 1_000);
    lost.way = None;
    let mut failed = sample(vec![lost]);
    failed.failure = Some("input/output error".into());
    let failed = timeline(&nodes(), &[failed], &Blocks::default());
    assert_eq!((failed.operations[0].unattributed_ns, of(&failed, Layer::Gateway)), (0, 720));

    let mut local = sample(Vec::new());
    local.at_once = Some(AtOnceReport { node: 0, started_ns: 1_100, finished_ns: 1_300 });
    let local = timeline(&nodes(), &[local], &Blocks::default());
    assert_eq!(local.check(), Ok(()));
    assert_eq!((of(&local, Layer::Store), of(&local, Layer::Gateway)), (200, 520));
}

#[test]
fn whatever_a_gateway_tells_each_operation_has_no_more_than_its_time() {
    let far = |mut piece: PieceReport| {
        if let Some(way) = &mut piece.way {
            (way.node_received_ns, way.flash_done_ns, way.node_clock_ns) = (u64::MAX, 3, u64::MAX);
            (way.store_offset_bytes, way.store_bytes) = (u64::MAX, u32::MAX);
        }
        piece
    };
    let backward = SampleReport { received_ns: u64::MAX, replied_ns: 5, ..sample(vec![far(piece(77, 1_000))]) };
    let forward = SampleReport { received_ns: 0, replied_ns: u64::MAX, ..sample(vec![far(piece(0, 1_000))]) };
    let timeline = timeline(&nodes(), &[backward, forward], &Blocks::default());
    for operation in &timeline.operations {
        let sum: u64 = operation.layers_ns.iter().map(|(_, ns)| ns).sum();
        assert_eq!(sum + operation.unattributed_ns, operation.end_ns - operation.begin_ns);
    }
}

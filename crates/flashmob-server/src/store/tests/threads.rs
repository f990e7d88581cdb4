//! Who takes what, and who is woken for it.

use std::time::Instant;

use flashmob_core::op::OpFlags;

use super::super::writeback::Writeback;
use super::*;

fn write(id: u64) -> StoreOp {
    StoreOp { id, op: Op::Write, flags: OpFlags::NONE, offset_bytes: 0, len_bytes: 1, data: vec![0] }
}

fn state(light: u64, others: u64, sleeping: usize) -> State {
    State {
        light: (0..light).map(write).collect(),
        others: (1000..1000 + others).map(|id| Work::Op(write(id))).collect(),
        sleeping,
        ..State::default()
    }
}

fn id_of((work, is_light): (Work, bool)) -> (u64, bool) {
    match work {
        Work::Op(op) => (op.id, is_light),
        other => panic!("{other:?}"),
    }
}

fn flush(id: u64) -> StoreOp {
    StoreOp { op: Op::Flush, len_bytes: 0, data: Vec::new(), ..write(id) }
}

#[test]
fn all_flushes_that_wait_have_one_worker_and_others_their_turn() {
    let mut state = state(0, 1, 4);
    (0..3).for_each(|id| state.push(flush(id)));
    assert_eq!(state.others.len(), 2, "one sync for all");
    state.push(write(7));
    assert_eq!(state.take(0).map(id_of), Some((1000, false)), "in the order of their submission");
    let Some((Work::Flushes(flushes), false)) = state.take(0) else { panic!("{state:?}") };
    assert_eq!(flushes.iter().map(|op| op.id).collect::<Vec<_>>(), [0, 1, 2]);
    (3..5).for_each(|id| state.push(flush(id)));
    assert_eq!(state.take(0).map(id_of), Some((7, false)));
    assert!(state.take(0).is_none(), "no other worker syncs meanwhile");
    state.is_sync_taken = false;
    state.push(write(8));
    state.want_sync();
    assert_eq!(state.take(0).map(id_of), Some((8, false)));
    assert!(matches!(state.take(0), Some((Work::Flushes(flushes), false)) if flushes.len() == 2));
    state.is_sync_taken = false;
    state.want_sync();
    assert!(state.take(0).is_none(), "nothing is left to flush");
}

#[test]
fn one_worker_is_woken_for_all_light_operations_and_one_for_each_other() {
    for (light, others, sleeping, expected) in
        [(0, 0, 4, 0), (50, 0, 4, 1), (1, 0, 4, 1), (0, 3, 4, 3), (50, 2, 4, 3), (50, 9, 4, 4), (50, 9, 0, 0)]
    {
        let mut state = state(light, others, sleeping);
        assert_eq!(state.call(), expected, "{light} light, {others} others, {sleeping} sleeping");
        assert_eq!(state.call(), 0, "who is called already is not called again");
    }
}

#[test]
fn light_operations_have_one_worker_at_a_time() {
    let mut state = state(3, 1, 4);
    assert_eq!(state.take(0).map(id_of), Some((0, true)));
    assert_eq!(state.take(0).map(id_of), Some((1000, false)), "a second worker takes another");
    assert!(state.take(0).is_none(), "and a third nothing, though light ones wait");
    assert_eq!(state.call(), 0, "nobody is woken for them either");
    assert_eq!(state.take(1).map(id_of), Some((1, true)), "the first goes on");
    assert_eq!(state.take(2).map(id_of), Some((2, true)));
    assert!(state.take(3).is_none());
    state.light.push_back(write(7));
    assert_eq!(state.take(0).map(id_of), Some((7, true)), "then anyone may begin anew");
}

#[test]
fn after_many_light_operations_others_have_their_turn() {
    let mut state = state(200, 1, 0);
    assert!(state.take(0).is_some_and(|(_, light)| light));
    assert!(state.take(LIGHT_IN_A_ROW - 1).is_some_and(|(_, light)| light));
    assert!(state.take(LIGHT_IN_A_ROW).is_some_and(|(_, light)| !light));
    assert!(state.take(0).is_some_and(|(_, light)| light), "the light ones were given up, to be taken again");
}

#[test]
fn writeback_begins_by_itself_beside_the_operations() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("extent");
    let mut medium = Medium::new(
        &path,
        super::super::open::open(&super::super::StoreConfig {
            size_bytes: Some(64 << 20),
            ..super::super::StoreConfig::new(&path)
        })
        .unwrap(),
    );
    let completions = Arc::new(Completions::new(Instant::now(), || ()));
    medium.write_back_with(Writeback::new(64 << 20, 8 << 20, Arc::clone(&completions)));
    let medium = Arc::new(medium);
    let pool = Pool::start(Arc::clone(&medium), Arc::clone(&completions), 1).unwrap();
    let write_all = |mib: std::ops::Range<u64>| {
        let large =
            |at: u64| StoreOp { offset_bytes: at << 20, len_bytes: 1 << 20, data: vec![7; 1 << 20], ..write(at) };
        let count = mib.end - mib.start;
        pool.submit(&mut mib.map(large).collect());
        let mut done = Vec::new();
        while (done.len() as u64) < count {
            completions.take(&mut done);
            std::thread::yield_now();
        }
    };
    write_all(0..7);
    assert_eq!(medium.regions_to_begin(), 2, "little is left to the flush");
    write_all(7..40);
    let begun = Instant::now();
    while medium.regions_to_begin() > 2 {
        assert!(begun.elapsed().as_secs() < 60, "{} regions", medium.regions_to_begin());
        std::thread::yield_now();
    }
}

#[test]
fn a_panic_fails_its_own_operation_and_loses_no_result_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("extent");
    let mut medium = Medium::new(
        &path,
        super::super::open::open(&super::super::StoreConfig {
            size_bytes: Some(1 << 16),
            ..super::super::StoreConfig::new(&path)
        })
        .unwrap(),
    );
    medium.panics_at_len_bytes = Some(2);
    let completions = Arc::new(Completions::new(Instant::now(), || ()));
    let pool = Pool::start(Arc::new(medium), Arc::clone(&completions), 1).unwrap();
    let mut ops: Vec<StoreOp> = (0..20).map(write).collect();
    ops[10] = StoreOp { len_bytes: 2, data: vec![0; 2], ..write(10) };
    pool.submit(&mut ops);
    // Closing does all that was submitted.
    drop(pool);
    let mut done = Vec::new();
    completions.take(&mut done);
    let failed: Vec<u64> = done.iter().filter(|d| d.result.is_err()).map(|d| d.id).collect();
    assert_eq!((done.len(), failed), (20, vec![10]));
}

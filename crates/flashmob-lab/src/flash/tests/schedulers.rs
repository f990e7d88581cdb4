//! The order in which each scheduler gives requests to the device.

use super::*;

/// The order in which a device with one slot serves `requests`, all of which wait behind a first read at 100 MiB.
fn order(scheduler: Scheduler, requests: &[Request]) -> Vec<u64> {
    let mut model = FlashModel::new(&plain(1), scheduler, GIB, 0).unwrap();
    model.submit(Time::default(), read(1000, 99, 100 * MIB, 4096)).unwrap();
    for request in requests {
        model.submit(Time::default(), *request).unwrap();
    }
    finish(&mut model).iter().skip(1).map(|completion| completion.id).collect()
}

fn reads(places_mib: &[u64]) -> Vec<Request> {
    places_mib.iter().map(|&mib| read(mib, 0, mib * MIB, 4096)).collect()
}

#[test]
fn none_keeps_the_order_of_arrival() {
    assert_eq!(order(Scheduler::None, &reads(&[300, 5, 200, 150])), [300, 5, 200, 150]);
}

#[test]
fn deadline_goes_up_from_where_it_is_and_then_on_from_the_oldest() {
    assert_eq!(order(Scheduler::MqDeadline, &reads(&[300, 7, 5, 200, 150])), [150, 200, 300, 7, 5]);
}

#[test]
fn deadline_serves_writes_after_two_batches_of_reads() {
    let mut requests: Vec<Request> = (0..80).map(|i| read(i, 0, (200 + i) * MIB, 4096)).collect();
    requests.push(Request { op: Op::Write, ..read(500, 0, MIB, 4096) });
    let order = order(Scheduler::MqDeadline, &requests);
    // The first read was a batch that overtook no write; the rest of it precedes the two.
    let at = order.iter().position(|&id| id == 500).unwrap();
    assert!((32..=48).contains(&at), "{at}");
}

#[test]
fn bfq_gives_slices_in_turn_ascending_within_each() {
    let mut requests: Vec<Request> = (0..12).map(|i| read(i, 1, (200 - i) * MIB, 4096)).collect();
    requests.extend((0..3).map(|i| read(100 + i, 2, (50 + i) * MIB, 4096)));
    let order = order(Scheduler::Bfq, &requests);
    let first_of_two = order.iter().position(|&id| id == 100).unwrap();
    assert_eq!(first_of_two, 8, "{order:?}");
    assert_eq!(order[8..11], [100, 101, 102]);
    assert_eq!(order.len(), 15);
}

#[test]
fn a_flush_passes_what_waits_and_costs_more_after_a_write() {
    let flush = Request { id: 0, submitter: 0, op: Op::Flush, offset_bytes: 0, len_bytes: 0 };
    for scheduler in Scheduler::ALL {
        let mut requests = reads(&[300, 5]);
        requests.push(flush);
        assert_eq!(order(scheduler, &requests)[0], 0, "{scheduler}");
    }
    let mut model = FlashModel::new(&plain(1), Scheduler::None, GIB, 0).unwrap();
    let mut took_us = |request: Request| {
        let before = model.counters().service_ns;
        model.submit(Time(u64::MAX / 2), request).unwrap();
        finish(&mut model);
        (model.counters().service_ns - before) / 1000
    };
    assert_eq!(took_us(flush), 50);
    assert_eq!(took_us(Request { op: Op::Write, ..read(1, 0, 0, 4096) }), 3000);
    assert_eq!(took_us(flush), 5000);
    assert_eq!(took_us(flush), 50);
}

#[test]
fn nothing_starves_under_deadline_where_nearer_reads_never_end() {
    // 31 threads read upward indefinitely in small steps; one reads the begin, which is always behind them.
    let mut model = FlashModel::new(&profile("nexus7-emmc"), Scheduler::MqDeadline, 8 * GIB, 1).unwrap();
    let ran = closed_loop(&mut model, 32, 8_000, 4096, |i| if i == 40 { 0 } else { (i + 1) * MIB });
    // Its deadline, the current batch, and other expired requests: all of the others in the worst case.
    let longest_service = Duration::from_micros(1_587 * 14 / 10 * 12 / 10);
    let bound = Duration::from_millis(500) + longest_service * (16 + 32);
    assert!(ran.slowest <= bound, "{:?} against {bound:?}", ran.slowest);
    assert!(
        ran.slowest >= Duration::from_millis(500),
        "the read behind the others was not passed over: {:?}",
        ran.slowest
    );
}

#[test]
fn nothing_starves_in_a_drive_that_takes_the_nearest_first() {
    let mut model = FlashModel::new(&profile("hdd"), Scheduler::None, 1 << 40, 1).unwrap();
    // One thread reads the far end while the others stay on one track, which is always nearer.
    let far = (1 << 40) - 4096;
    let ran = closed_loop(&mut model, 8, 5_000, 4096, |i| if i == 4 { far } else { i * 97 % 288 * 4096 });
    // Overtaken 32 times at most, each time by a request that took less than the longest seek and a rotation.
    let bound = Duration::from_millis(23) * (32 + 8);
    assert!(ran.slowest <= bound, "{:?} against {bound:?}", ran.slowest);
    assert!(Duration::from_nanos(ran.counters.busy_ns) > bound * 4, "too short to tell");
}

//! Contention, and the interaction of stations and access point.

use super::*;

const WIRELESS: [Attachment; 3] = [Attachment::Wireless; 3];
const SECOND_NS: u64 = 1_000_000_000;

/// The fates and times of all outcomes, by frame id.
fn fates(outcomes: &[Outcome]) -> Vec<(u64, u32, Fate)> {
    outcomes.iter().map(|o| (o.id, o.to.0, o.fate)).collect()
}

#[test]
fn alone_on_an_idle_medium_a_frame_goes_out_in_the_next_slot() {
    let dcf = cell("11a");
    let mut air = Air::new(&profile("11a"), &with_wired_gateway(1), 1);
    for (at_ns, slot_ns) in [(0, 9_000), (1_000_000, 1_008_000), (2_000_000, 2_007_000)] {
        // Slots are counted from when the medium was last free, so later frames are located by their ends.
        air.submit(Time(at_ns), frame(1, 1, 0, 1514));
        let done = finish(&mut air);
        let took_ns = done[0].at.0 - at_ns - 248_000 - dcf.wire_ns;
        assert!(took_ns > 0 && took_ns <= dcf.slot_ns, "{took_ns} ns");
        if at_ns == 0 {
            assert_eq!(done[0].at.0, slot_ns + 248_000 + dcf.wire_ns);
        }
    }
}

#[test]
fn two_that_ask_in_one_slot_collide_and_then_both_get_through() {
    let mut air = Air::new(&profile("11a"), &with_wired_gateway(2), 1);
    air.submit(Time(100), frame(1, 1, 0, 1514));
    air.submit(Time(8_900), frame(2, 2, 0, 1514));
    let done = finish(&mut air);
    assert!(done.iter().all(|o| o.fate == Fate::Delivered));
    let counters = air.counters();
    assert!(counters.collisions >= 1 && counters.retries >= 2 && counters.transmissions >= 3, "{counters:?}");

    let mut air = Air::new(&profile("11a"), &with_wired_gateway(2), 1);
    air.submit(Time(100), frame(1, 1, 0, 1514));
    air.submit(Time(9_100), frame(2, 2, 0, 1514));
    assert_eq!(finish(&mut air).len(), 2);
    assert_eq!(air.counters().retries, 0, "the second heard the first");
}

#[test]
fn after_each_failure_backoff_may_be_twice_as_long_until_the_last_window() {
    let text = "11a,loss=1,cwmin=0,cwmax=15,retries=6";
    let dcf = cell(text);
    let mut longest = [0; 7];
    for seed in 0..400 {
        let mut air = Air::new(&profile(text), &with_wired_gateway(1), seed);
        air.submit(Time(0), frame(1, 1, 0, 100));
        let (mut times, mut outcomes) = (Vec::new(), Vec::new());
        while let Some(at) = air.next_event() {
            times.push(at.0);
            air.advance(at, &mut outcomes);
        }
        assert_eq!(outcomes[0].fate, Fate::RetriesExceeded);
        assert_eq!(air.counters().transmissions, 7);
        // Begins and ends alternate; the time between an end and the next begin is backoff.
        for (i, gap) in times[1..13].chunks(2).enumerate() {
            longest[i] = longest[i].max((gap[1] - gap[0] - dcf.after_failure_ns()) / dcf.slot_ns);
        }
    }
    assert_eq!(longest, [1, 3, 7, 15, 15, 15, 0]);
}

#[test]
fn who_gives_a_frame_up_begins_the_next_one_with_the_first_window() {
    let text = "11a,loss=1,cwmin=0,retries=1";
    let mut air = Air::new(&profile(text), &with_wired_gateway(1), 1);
    (0..40).for_each(|id| air.submit(Time(0), frame(id, 1, 0, 100)));
    let (mut times, mut outcomes) = (Vec::new(), Vec::new());
    while let Some(at) = air.next_event() {
        times.push(at.0);
        air.advance(at, &mut outcomes);
    }
    let slots = |gap: &[u64]| (gap[1] - gap[0] - cell(text).after_failure_ns()) / cell(text).slot_ns;
    let waits: Vec<u64> = times[1..times.len() - 1].chunks(2).map(slots).collect();
    assert_eq!((outcomes.len(), waits.len()), (40, 79));
    assert!(waits.iter().skip(1).step_by(2).all(|&w| w == 0), "before each first time: {waits:?}");
    assert!(waits.iter().step_by(2).all(|&w| w <= 1) && waits.contains(&1), "before each second time: {waits:?}");
}

#[test]
fn from_station_to_station_everything_crosses_the_air_twice() {
    for text in ["11a", "11n", "11n-2014", "11ax"] {
        let mut air = Air::new(&profile(text), &WIRELESS, 1);
        air.submit(Time(0), frame(1, 0, 1, 500));
        assert_eq!(fates(&finish(&mut air)), [(1, 1, Fate::Delivered)]);
        assert_eq!((air.counters().transmissions, air.counters().frames), (2, 2), "{text}");
        let mut air = Air::new(&profile(text), &with_wired_gateway(1), 1);
        air.submit(Time(0), frame(1, 0, 1, 500));
        air.submit(Time(SECOND_NS), frame(2, 1, 0, 500));
        assert_eq!(finish(&mut air).len(), 2);
        assert_eq!(air.counters().transmissions, 2, "{text}");
    }
}

#[test]
fn cables_do_not_touch_the_air() {
    let ports = [Attachment::Wired, Attachment::Wired, Attachment::Wireless];
    let mut air = Air::new(&profile("11n"), &ports, 1);
    (0..1000).for_each(|id| air.submit(Time(0), frame(id, 0, 1, 1514)));
    let done = finish(&mut air);
    let wire_ns = cell("11n").wire_ns;
    assert!(done.len() == 1000 && done.iter().all(|o| o.at == Time(2 * wire_ns) && o.fate == Fate::Delivered));
    assert_eq!(air.counters().transmissions, 0);
}

#[test]
fn what_is_for_everybody_goes_to_the_access_point_and_then_once_to_all() {
    let ports = [Attachment::Wireless, Attachment::Wireless, Attachment::Wireless, Attachment::Wired];
    let broadcast = Frame { to: None, ..frame(1, 0, 0, 500) };
    let mut air = Air::new(&profile("11n"), &ports, 1);
    air.submit(Time(0), broadcast);
    let done = finish(&mut air);
    assert_eq!(fates(&done), [(1, 3, Fate::Delivered), (1, 1, Fate::Delivered), (1, 2, Fate::Delivered)]);
    assert_eq!(air.counters().transmissions, 2);
    // The relayed broadcast is sent at the basic rate: 524 bytes at 6 Mbit/s are 720 us.
    let dcf = cell("11n");
    assert_eq!(dcf.broadcast_ns(dcf.mpdu_bytes(500)), 20_000 + 176 * 4_000);

    let mut air = Air::new(&profile("11n,loss=1,retries=1"), &ports, 1);
    air.submit(Time(0), broadcast);
    let lost = Fate::RetriesExceeded;
    assert_eq!(fates(&finish(&mut air)), [(1, 1, lost), (1, 2, lost), (1, 3, lost)]);
    air.submit(Time(SECOND_NS), Frame { from: Port(3), ..broadcast });
    let lost = Fate::Lost;
    assert_eq!(fates(&finish(&mut air)), [(1, 0, lost), (1, 1, lost), (1, 2, lost)]);
}

#[test]
fn several_broadcasts_are_never_one_transmission() {
    let mut air = Air::new(&profile("11ax"), &with_wired_gateway(2), 1);
    (0..5).for_each(|id| air.submit(Time(0), Frame { to: None, ..frame(id, 0, 0, 100) }));
    assert_eq!(finish(&mut air).len(), 10);
    assert_eq!(air.counters().transmissions, 5);
}

#[test]
fn the_access_point_serves_receivers_in_turn() {
    let mut air = Air::new(&profile("11n,ampdu=4"), &with_wired_gateway(3), 1);
    for to in 1..=3 {
        (0..40).for_each(|id| air.submit(Time(0), frame(id, 0, to, 1514)));
    }
    let mut arrived = [0i32; 4];
    for outcome in finish(&mut air) {
        arrived[outcome.to.0 as usize] += 1;
        let (most, least) = (arrived[1..].iter().max().unwrap(), arrived[1..].iter().min().unwrap());
        assert!(most - least <= 4, "{arrived:?}");
    }
    assert_eq!(arrived, [0, 40, 40, 40]);
    assert_eq!(air.counters().transmissions, 30);
}

#[test]
fn a_receiver_that_hears_nothing_does_not_keep_the_others_waiting_for_ever() {
    let mut air = Air::new(&profile("11n,loss=1,retries=2,ampdu=1"), &with_wired_gateway(2), 1);
    for to in 1..=2 {
        (0..10).for_each(|id| air.submit(Time(0), frame(id, 0, to, 100)));
    }
    let order: Vec<u32> = finish(&mut air).iter().map(|o| o.to.0).collect();
    assert_eq!(order, [1, 2].repeat(10));
}

#[test]
fn frames_lost_one_by_one_are_sent_again_with_the_next_ones_and_released_in_order() {
    let mut air = Air::new(&profile("11n,loss=20%"), &with_wired_gateway(1), 3);
    (0..400).for_each(|id| air.submit(Time(0), frame(id, 1, 0, 1000)));
    let done = finish(&mut air);
    let ids: Vec<u64> = done.iter().map(|o| o.id).collect();
    assert_eq!(ids, (0..400).collect::<Vec<_>>());
    let counters = air.counters();
    assert!((60..=160).contains(&counters.retries), "{counters:?}");
    assert_eq!((counters.frames, counters.collisions), (400 + counters.retries, 0));
    // A lost frame blocks the window: without losses these would be 8.
    assert!((9..=30).contains(&counters.transmissions), "{counters:?}");
}

#[test]
fn long_silence_costs_nothing_but_beacons_that_nobody_computes_one_by_one() {
    let dcf = cell("11n");
    let mut air = Air::new(&profile("11n"), &with_wired_gateway(2), 1);
    let mut outcomes = Vec::new();
    air.submit(Time(0), frame(1, 1, 0, 100));
    outcomes.extend(finish(&mut air));
    assert_eq!(air.next_event(), None);
    let before = air.counters().busy_ns;
    // Years of virtual time.
    let late = 1_000_000_000 * dcf.beacon_every_ns;
    air.advance(Time(late), &mut outcomes);
    assert_eq!(air.counters().busy_ns - before, 1_000_000_000 * dcf.beacon_ns());
    // A beacon in progress delays a frame until its end.
    air.submit(Time(late + 1), frame(2, 1, 0, 100));
    let at = finish(&mut air)[0].at.0;
    let soonest = late + dcf.beacon_ns() + dcf.aifs_ns() + dcf.data_ns(dcf.mpdu_bytes(100)) + dcf.wire_ns;
    assert!((soonest..=soonest + 15 * dcf.slot_ns).contains(&at), "{at} is not soon after {soonest}");
}

#[test]
fn beacons_keep_their_times_on_a_busy_medium() {
    let dcf = cell("11n");
    let mut air = Air::new(&profile("11n"), &with_wired_gateway(1), 1);
    let (mut outcomes, end) = (Vec::new(), 100 * dcf.beacon_every_ns);
    (0..20).for_each(|id| air.submit(Time(0), frame(id, 1, 0, 1514)));
    let mut data_ns = 0;
    while let Some(at) = air.next_event().filter(|at| at.0 < end) {
        let before = air.counters();
        air.advance(at, &mut outcomes);
        let after = air.counters();
        if after.frames == before.frames && after.busy_ns == before.busy_ns + dcf.beacon_ns() {
            data_ns += dcf.beacon_ns();
        }
        for outcome in outcomes.drain(..) {
            air.submit(outcome.at, frame(outcome.id, 1, 0, 1514));
        }
    }
    assert_eq!(data_ns, 99 * dcf.beacon_ns());
}

#[test]
fn a_port_that_there_is_not_gets_nothing_and_says_so() {
    for text in ["11n", "wan", "ideal"] {
        let mut air = Air::new(&profile(text), &WIRELESS, 1);
        for (id, from, to) in [(1, 0, 3), (2, 3, 0), (3, 1, 1), (4, u32::MAX, u32::MAX)] {
            air.submit(Time(0), frame(id, from, to, 100));
        }
        let lost = Fate::Lost;
        assert_eq!(fates(&finish(&mut air)), [(1, 3, lost), (2, 0, lost), (3, 1, lost), (4, u32::MAX, lost)], "{text}");
    }
}

#[test]
fn time_never_runs_backwards_nor_out_of_its_bounds() {
    for text in ["11n", "wan,rate=1kbit", "ideal"] {
        let mut air = Air::new(&profile(text), &WIRELESS, 1);
        let mut outcomes = Vec::new();
        air.advance(Time(SECOND_NS), &mut outcomes);
        air.submit(Time(5), frame(1, 0, 1, 1514));
        assert!(air.next_event().is_some_and(|at| at > Time(SECOND_NS)), "{text}");
        air.submit(Time(u64::MAX), frame(2, 0, 1, u32::MAX));
        air.advance(Time(u64::MAX), &mut outcomes);
        assert_eq!(fates(&outcomes), [(1, 1, Fate::Delivered)], "{text}");
    }
}

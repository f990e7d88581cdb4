//! Separate lines, and the ideal medium.

use super::*;

const MS: u64 = 1_000_000;

fn sent_at_once(text: &str, ports: &[Attachment], count: u64, from: u32, to: u32) -> Vec<Outcome> {
    let mut air = Air::new(&profile(text), ports, 5);
    (0..count).for_each(|id| air.submit(Time(0), frame(id, from, to, 1250)));
    finish(&mut air)
}

#[test]
fn a_frame_takes_its_bits_and_the_delay_of_each_line_on_its_way() {
    let ports = [Attachment::Wired, Attachment::Wireless, Attachment::Wireless, Attachment::Wired];
    // 1,250 bytes at 10 Mbit/s: 1 ms.
    let text = "wan,rate=10Mbit,delay=20ms";
    for (from, to, expected_ns) in [(1, 0, 21 * MS), (0, 1, 21 * MS + 1), (1, 2, 42 * MS), (0, 3, 1)] {
        let done = sent_at_once(text, &ports, 1, from, to);
        assert_eq!((done[0].at.0, done[0].fate), (expected_ns, Fate::Delivered), "{from} to {to}");
    }
    let ten = sent_at_once(text, &ports, 10, 1, 0);
    assert!(ten.iter().enumerate().all(|(i, o)| o.at.0 == 20 * MS + (i as u64 + 1) * MS), "one after the other");
}

#[test]
fn one_line_may_take_longer_than_the_others_each_way() {
    let mut air = Air::new(&profile("wan,rate=10Mbit,delay=2ms"), &with_wired_gateway(2), 1);
    air.set_delay(Port(2), std::time::Duration::from_millis(30));
    for (id, from, to) in [(0, 0, 1), (1, 1, 0), (2, 0, 2), (3, 2, 0)] {
        air.submit(Time(0), frame(id, from, to, 1250));
    }
    let mut took: Vec<(u64, u64)> = finish(&mut air).iter().map(|o| (o.id, o.at.0 / MS)).collect();
    took.sort_unstable();
    assert_eq!(took, [(0, 3), (1, 3), (2, 33), (3, 33)]);
}

#[test]
fn lines_have_nothing_in_common() {
    let mut air = Air::new(&profile("wan,rate=10Mbit,delay=0s"), &with_wired_gateway(5), 1);
    for node in 1..=5 {
        air.submit(Time(0), frame(0, node, 0, 1250));
        air.submit(Time(0), frame(1, 0, node, 1250));
    }
    let done = finish(&mut air);
    assert!(done.len() == 10 && done.iter().all(|o| (MS..=MS + 1).contains(&o.at.0)), "{done:?}");
}

#[test]
fn jitter_is_spread_over_its_range_and_nothing_overtakes() {
    let mut air = Air::new(&profile("wan,rate=100Gbit,delay=20ms,jitter=4ms"), &with_wired_gateway(1), 5);
    (0..1000).for_each(|id| air.submit(Time(id * 10 * MS), frame(id, 1, 0, 100)));
    let late: Vec<u64> = finish(&mut air).iter().map(|o| o.at.0 - o.id * 10 * MS - 20 * MS).collect();
    let mean = late.iter().sum::<u64>() / 1000;
    assert!(late.iter().all(|&ns| ns <= 4 * MS + 1000) && (MS * 18 / 10..MS * 22 / 10).contains(&mean), "{mean}");
    let close = sent_at_once("wan,jitter=4ms,rate=100Gbit", &with_wired_gateway(1), 100, 1, 0);
    assert!(close.windows(2).all(|pair| pair[0].id < pair[1].id && pair[0].at <= pair[1].at));
}

#[test]
fn a_line_loses_its_share_and_holds_so_many_frames() {
    let lost = |text: &str| {
        let mut air = Air::new(&profile(text), &with_wired_gateway(1), 5);
        (0..20_000).for_each(|id| air.submit(Time(id * MS), frame(id, 1, 0, 100)));
        finish(&mut air).iter().filter(|o| o.fate == Fate::Lost).count()
    };
    assert_eq!((lost("wan,loss=0%"), lost("wan,loss=100%")), (0, 20_000));
    assert!((900..=1100).contains(&lost("wan,loss=5%")));

    let full = |count| {
        let done = sent_at_once("wan,queue=10", &with_wired_gateway(1), count, 1, 0);
        done.iter().filter(|o| o.fate == Fate::QueueFull).count()
    };
    assert_eq!([full(9), full(10), full(11)], [0, 0, 1]);
    // 1,250 bytes at 10 Mbit/s take 1 ms, after which the queue has room again.
    let mut air = Air::new(&profile("wan,queue=1,rate=10Mbit"), &with_wired_gateway(1), 5);
    for (id, at) in [(0, 0), (1, MS - 1), (2, MS)] {
        air.submit(Time(at), frame(id, 1, 0, 1250));
    }
    let mut done = finish(&mut air);
    done.sort_by_key(|o| o.id);
    let fates: Vec<Fate> = done.iter().map(|o| o.fate).collect();
    assert_eq!(fates, [Fate::Delivered, Fate::QueueFull, Fate::Delivered]);
}

#[test]
fn the_ideal_air_delivers_everything_a_microsecond_later() {
    let mut air = Air::new(&profile("ideal"), &[Attachment::Wireless; 100], 1);
    (0..100).for_each(|from| air.submit(Time(7), Frame { to: None, ..frame(u64::from(from), from, 0, u32::MAX) }));
    let done = finish(&mut air);
    assert!(done.len() == 9_900 && done.iter().all(|o| o.at == Time(1_007) && o.fate == Fate::Delivered));
}

//! Each limit: at, below and above it.

use super::*;

/// The number of transmissions and of refused frames if one station submits `count` frames at once.
fn at_once(text: &str, count: u64, len_bytes: u32) -> (u64, usize) {
    let mut air = Air::new(&profile(text), &with_wired_gateway(1), 1);
    (0..count).for_each(|id| air.submit(Time(0), frame(id, 1, 0, len_bytes)));
    let done = finish(&mut air);
    assert_eq!(done.len() as u64, count);
    (air.counters().transmissions, done.iter().filter(|o| o.fate == Fate::QueueFull).count())
}

#[test]
fn so_many_frames_fit_one_transmission() {
    for (text, frames) in [
        ("11a", 1),
        ("11g", 1),
        ("11n-2014", 64),
        ("11n-2014,ampdu=4", 4),
        ("11n,ampdu=1", 1),
        ("11n,ampdu=16", 16),
        ("11n", 64),
        ("11ac", 64),
        ("11ax", 256),
    ] {
        assert_eq!(profile(text).frames_per_access(100), frames as u32, "{text}");
        assert_eq!(at_once(text, frames, 100).0, 1, "{text}");
        assert_eq!(at_once(text, frames + 1, 100).0, 2, "{text}");
    }
}

#[test]
fn so_many_bytes_fit_one_transmission() {
    // 4 of delimiter, 38 of headers and 1,500: padded to 1,544. 42 of them are 64,848; 43 exceed the limit.
    assert_eq!(profile("11n").frames_per_access(1514), 42);
    assert_eq!(at_once("11n", 42, 1514).0, 1);
    assert_eq!(at_once("11n", 43, 1514).0, 2);
    // Two frames: the first is padded to 32,768, the second has 32,767 or more.
    let two = |second: u32| {
        let mut air = Air::new(&profile("11n"), &with_wired_gateway(1), 1);
        air.submit(Time(0), frame(0, 1, 0, 32_768 - 4 - 38 + 14));
        air.submit(Time(0), frame(1, 1, 0, second - 4 - 38 + 14));
        assert_eq!(finish(&mut air).len(), 2);
        air.counters().transmissions
    };
    assert_eq!([two(32_766), two(32_767), two(32_768)], [1, 1, 2]);
    // The limit does not apply to a single frame.
    assert_eq!(at_once("11n", 1, 200_000).0, 1);
}

#[test]
fn so_long_a_transmission_of_several_may_take() {
    let text = "11ac,rate=65Mbit";
    let dcf = cell(text);
    let most = dcf.ampdu_bytes_max();
    assert!(dcf.data_ns(most) <= dcf.ampdu_ns && dcf.data_ns(most + 1) > dcf.ampdu_ns);
    let fit = profile(text).frames_per_access(1514);
    assert!(fit > 20 && fit < 64, "{fit}");
    assert_eq!(at_once(text, u64::from(fit), 1514).0, 1);
    assert_eq!(at_once(text, u64::from(fit) + 1, 1514).0, 2);
}

#[test]
fn what_fits_is_what_the_model_sends_for_every_length() {
    for text in ["11n", "11ac", "11ax", "11ac,rate=10Mbit"] {
        for len_bytes in [0, 60, 1000, 1513, 1514, 1515, 1516, 9000, 70_000] {
            let fit = u64::from(profile(text).frames_per_access(len_bytes));
            assert_eq!(at_once(text, fit, len_bytes).0, 1, "{text}, {len_bytes} B");
            assert_eq!(at_once(text, fit + 1, len_bytes).0, 2, "{text}, {len_bytes} B");
        }
    }
}

#[test]
fn an_exchange_takes_what_the_model_takes_for_it() {
    for text in ["11a", "11g", "11n-2014", "11n", "11ac", "11ax"] {
        for len_bytes in [60, 1513, 1514, 1515] {
            for frames in [1, 2, 3, profile(text).frames_per_access(len_bytes)] {
                let mut air = Air::new(&profile(text), &with_wired_gateway(1), 1);
                (0..frames).for_each(|id| air.submit(Time(0), frame(u64::from(id), 1, 0, len_bytes)));
                finish(&mut air);
                let counters = air.counters();
                if counters.transmissions == 1 {
                    assert_eq!(counters.busy_ns, profile(text).exchange_ns(frames, len_bytes), "{text} {frames}");
                } else {
                    assert!(frames > profile(text).frames_per_access(len_bytes), "{text} {frames}");
                }
            }
        }
    }
}

#[test]
fn exchanges_of_nothing_and_of_everything_have_a_time() {
    for name in Profile::names() {
        assert_eq!(profile(name).exchange_ns(0, 1514), 0, "{name}");
        assert!(profile(name).exchange_ns(u32::MAX, u32::MAX) >= profile(name).exchange_ns(1, u32::MAX), "{name}");
        assert!((1..=256).contains(&profile(name).frames_per_access(u32::MAX)), "{name}");
    }
    assert!(profile("11ax,rate=1Mbit").exchange_ns(u32::MAX, u32::MAX) > 1 << 60);
    assert_eq!(profile("wan,rate=10Mbit").exchange_ns(8, 1250), 8_000_000);
    assert_eq!((profile("11a").access_ns(), profile("wan").access_ns()), (34_000 + 67_500, 0));
}

#[test]
fn a_frame_is_sent_again_so_often_and_no_more() {
    for retries in [0, 1, 7, 255] {
        let mut air = Air::new(&profile(&format!("11n,loss=100%,retries={retries}")), &with_wired_gateway(1), 1);
        air.submit(Time(0), frame(1, 1, 0, 100));
        assert_eq!(finish(&mut air)[0].fate, Fate::RetriesExceeded);
        let counters = air.counters();
        assert_eq!((counters.transmissions, counters.retries), (retries + 1, retries));
    }
}

#[test]
fn no_frame_is_sent_too_far_ahead_of_the_first_that_is_missing() {
    for (text, window) in [("11n,loss=30%", 64), ("11n,loss=30%,ampdu=20", 64), ("11ax,loss=30%", 256)] {
        let mut air = Air::new(&profile(text), &with_wired_gateway(1), 1);
        (0..500).for_each(|id| air.submit(Time(0), frame(id, 0, 1, 100)));
        let (mut outcomes, mut furthest) = (Vec::new(), 0);
        while let Some(at) = air.next_event() {
            let finished = outcomes.len() as u64;
            air.advance(at, &mut outcomes);
            let sent = air.counters().frames - air.counters().retries;
            furthest = furthest.max(sent - finished);
        }
        assert!(outcomes.iter().all(|o| o.fate == Fate::Delivered));
        assert_eq!(furthest, window, "{text}");
    }
}

#[test]
fn queues_hold_so_many_frames() {
    for (text, count, refused) in [
        ("11a,queue=1", 1, 0),
        ("11a,queue=1", 2, 1),
        ("11n,queue=10", 9, 0),
        ("11n,queue=10", 10, 0),
        ("11n,queue=10", 12, 2),
        ("11n", 512, 0),
        ("11n", 513, 1),
    ] {
        assert_eq!(at_once(text, count, 100).1, refused, "{count} over {text}");
    }
}

#[test]
fn the_access_point_holds_so_many_for_one_receiver_and_so_many_altogether() {
    let refused = |text: &str, each: u64| {
        let mut air = Air::new(&profile(text), &with_wired_gateway(3), 1);
        for to in 1..=3 {
            (0..each).for_each(|id| air.submit(Time(0), frame(id, 0, to, 100)));
        }
        let done = finish(&mut air);
        [1, 2, 3].map(|to| done.iter().filter(|o| o.to == Port(to) && o.fate == Fate::QueueFull).count())
    };
    assert_eq!(refused("11n,queue=10", 10), [0, 0, 0]);
    assert_eq!(refused("11n,queue=10", 11), [1, 1, 1]);
    assert_eq!(refused("11n,ap-queue=30", 10), [0, 0, 0]);
    assert_eq!(refused("11n,ap-queue=29", 10), [0, 0, 1]);
    assert_eq!(refused("11n,queue=12,ap-queue=20", 13), [1, 5, 13]);
}

#[test]
fn every_number_is_held_to_its_range() {
    for (text, at, beyond) in [
        ("11n,rate=", ["1Mbit", "100Gbit"], ["999999bit", "100000000001bit"]),
        ("11n,ampdu=", ["1", "64"], ["0", "65"]),
        ("11ax,ampdu=", ["1", "256"], ["0", "257"]),
        ("11a,ampdu=", ["1", "1"], ["0", "2"]),
        ("11n,loss=", ["0%", "100%"], ["-1%", "100.0001%"]),
        ("11n,loss=", ["0", "1"], ["-0.1", "1.000001"]),
        ("11n,retries=", ["0", "255"], ["-1", "256"]),
        ("11n,cwmin=", ["0", "1023"], ["-1", "1024"]),
        ("11n,cwmax=", ["15", "32767"], ["14", "32768"]),
        ("11n,queue=", ["1", "1000000"], ["0", "1000001"]),
        ("11n,ap-queue=", ["1", "1000000"], ["0", "1000001"]),
        ("wan,rate=", ["1kbit", "100Gbit"], ["999bit", "101Gbit"]),
        ("wan,delay=", ["0ms", "10s"], ["-1ms", "10000000001ns"]),
        ("wan,jitter=", ["0us", "10000ms"], ["-1us", "11s"]),
        ("wan,loss=", ["0%", "100%"], ["", "101%"]),
        ("wan,queue=", ["1", "1000000"], ["0", "1000001"]),
    ] {
        for value in at {
            assert!(Profile::parse(&format!("{text}{value}")).is_ok(), "{text}{value}");
        }
        for value in beyond {
            let error = Profile::parse(&format!("{text}{value}")).unwrap_err();
            assert!(matches!(error, ProfileError::OutOfRange { .. }), "{text}{value}: {error}");
        }
    }
}

//! A welcome from another start of a node than its ready links lead to: the device has restarted, or there are two.

use std::time::Duration;

use crate::alive::{Bed, MS, PACE, TIMEOUT, battery_percent, is_lost};
use crate::testing::{bytes_of, frames, welcome};
use flashmob_core::condition::Condition;
use flashmob_core::gateway::{Event, LinkId, LinkPhase};
use flashmob_core::wire::condition::{Alive, decode_alive, put_alive, put_condition};
use flashmob_core::wire::frame::{FrameKind, encode_error};

const LINK: LinkId = LinkId(0);
const OTHER: LinkId = LinkId(1);
/// What a link whose welcome is held waits for at most.
const HELD_FOR: Duration = Duration::from_secs(2);

/// The device at the other end of a link answers the probe that the link carried.
fn answer_probe(bed: &mut Bed, link: LinkId) {
    let out = bed.gateway.link_out(link).take_all();
    let probes = frames(&out).into_iter().filter(|frame| frame.kind == FrameKind::Alive);
    assert_eq!(probes.map(|frame| decode_alive(&frame.meta).unwrap()).collect::<Vec<_>>(), [Alive::Probe]);
    receive_on(bed, link, &bytes_of(|out| put_alive(out, Alive::Here)));
}

fn receive_on(bed: &mut Bed, link: LinkId, bytes: &[u8]) {
    bed.gateway.link_rx(link).extend(bytes);
    bed.gateway.process_link(bed.now, link);
    bed.look();
}

fn phase(bed: &Bed, link: LinkId) -> LinkPhase {
    bed.gateway.status().volumes[0].nodes[0].links[link.0].phase
}

fn is_told_of_two_devices(bed: &Bed) -> bool {
    bed.events.iter().any(|event| matches!(event, Event::NodeWarning(_, text) if text.contains("another device")))
}

#[test]
fn a_second_device_with_a_copy_of_an_extent_is_refused_while_the_first_lives() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    for round in 0..3 {
        // Each attempt is tried again.
        while phase(&bed, OTHER) != LinkPhase::Connecting {
            bed.pass(10 * MS);
        }
        bed.welcome_on(OTHER, true, 2);
        assert_eq!(bed.gateway.welcomes(OTHER), 0, "it waits until the first has shown whether it lives");
        // Either may be the first to answer.
        if round == 1 {
            answer_probe(&mut bed, OTHER);
        }
        bed.pass(Duration::from_millis(100));
        if round != 1 {
            assert_eq!(phase(&bed, OTHER), LinkPhase::Greeting, "round {round}: it has not shown that it lives");
            answer_probe(&mut bed, OTHER);
        }
        assert_ne!(phase(&bed, OTHER), LinkPhase::Greeting, "round {round}");
        assert_eq!((bed.gateway.welcomes(OTHER), is_lost(&bed)), (0, false), "{:?}", bed.events);
        assert!(is_told_of_two_devices(&bed), "round {round}: {:?}", bed.events);
    }
    let told = bed.events.iter().filter(|event| matches!(event, Event::NodeWarning(..))).count();
    assert_eq!(told, 1, "now and then is enough");
}

#[test]
fn a_restarted_device_takes_the_place_of_a_silent_link_within_a_second_and_in_one_attempt() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 2);
    bed.connects.clear();
    answer_probe(&mut bed, OTHER);
    bed.pass_with(Duration::from_millis(999), false);
    assert_eq!((bed.gateway.welcomes(OTHER), is_lost(&bed)), (0, false));
    bed.pass_with(2 * MS, false);
    assert_eq!((bed.gateway.welcomes(OTHER), is_lost(&bed)), (1, true), "{:?}", bed.events);
    assert!(!is_told_of_two_devices(&bed), "{:?}", bed.events);
    assert!(bed.events.iter().any(|event| matches!(event, Event::NodeUp { .. })), "{:?}", bed.events);
    // The link that was given up belongs to the new start now.
    bed.pass_with(Duration::from_secs(1), false);
    assert!(!bed.connects.is_empty());
    bed.welcome_on(LINK, true, 2);
    assert_eq!(bed.gateway.welcomes(LINK), 2);
    bed.read();
    bed.pass(MS);
    assert_eq!(bed.results(), [Ok(())]);
}

#[test]
fn a_restarted_device_takes_the_place_of_a_link_that_closes_at_once() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 2);
    bed.gateway.link_closed(bed.now, LINK, "reset");
    bed.look();
    assert_eq!(bed.gateway.welcomes(OTHER), 0, "its welcome may be from before the restart as well");
    answer_probe(&mut bed, OTHER);
    assert_eq!(bed.gateway.welcomes(OTHER), 1);
    // Of an old node nobody can ask whether it lives, so the newer link is taken.
    let mut bed = Bed::with_links(Some(PACE), false, 2);
    bed.welcome_on(OTHER, false, 2);
    assert_eq!((bed.gateway.welcomes(OTHER), is_lost(&bed)), (1, true));
}

#[test]
fn a_first_device_that_is_busy_for_longer_than_it_may_take_to_answer_is_kept() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 2);
    bed.pass_with(500 * MS, false);
    // Something of it is heard, though not yet the answer.
    bed.receive(&bytes_of(|out| put_condition(out, &Condition::default())));
    bed.pass_with(600 * MS, false);
    assert_eq!((bed.gateway.welcomes(OTHER), is_lost(&bed)), (0, false), "{:?}", bed.events);
    assert!(!is_told_of_two_devices(&bed), "that is no proof: it may have been under way: {:?}", bed.events);
    assert_ne!(phase(&bed, OTHER), LinkPhase::Greeting, "it is refused at once");
}

#[test]
fn frames_behind_a_welcome_that_waits_are_read_when_it_is_taken() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 2);
    let condition = Condition { battery_percent: Some(9), ..Condition::default() };
    let bytes = bytes_of(|out| put_condition(out, &condition));
    receive_on(&mut bed, OTHER, &bytes);
    answer_probe(&mut bed, OTHER);
    assert!(battery_percent(&bed).is_none());
    bed.pass_with(Duration::from_millis(1001), false);
    assert_eq!(battery_percent(&bed), Some(Some(9)));
}

#[test]
fn what_a_node_may_send_behind_a_welcome_that_waits_is_bounded() {
    // 64 KiB.
    let condition = bytes_of(|out| put_condition(out, &Condition::default()));
    for (len, is_kept) in [(65_535, true), (65_536, true), (65_537, false)] {
        let mut bed = Bed::with_links(Some(PACE), true, 2);
        bed.welcome_on(OTHER, true, 2);
        let bytes: Vec<u8> = condition.iter().copied().cycle().take(len).collect();
        // However the bytes are divided.
        for chunk in bytes.chunks(1000) {
            receive_on(&mut bed, OTHER, chunk);
        }
        let phase = phase(&bed, OTHER);
        assert_eq!(phase == LinkPhase::Greeting, is_kept, "{len}: {phase:?}");
    }
}

#[test]
fn a_restarted_device_is_taken_within_a_second_although_its_old_link_was_asked_before_with_more_patience() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 1);
    bed.read();
    bed.pass_with(TIMEOUT / 2 + Duration::from_millis(60), false);
    // One link was given up for its silence, and the other was asked; both belong to a start that is over.
    let (gone, asked) = if bed.gateway.status().volumes[0].nodes[0].links[0].phase == LinkPhase::Ready {
        (OTHER, LINK)
    } else {
        (LINK, OTHER)
    };
    let mut bytes = Vec::new();
    put_condition(&mut bytes, &Condition::default());
    bed.gateway.link_rx(asked).extend(&bytes);
    bed.gateway.process_link(bed.now, asked);
    bed.pass_with(Duration::from_millis(200), false);
    bed.welcome_on(gone, true, 2);
    answer_probe(&mut bed, gone);
    let welcomes = bed.gateway.welcomes(gone);
    bed.pass_with(Duration::from_millis(1001), false);
    assert_eq!(bed.gateway.welcomes(gone), welcomes + 1, "{:?}", bed.events);
    assert!(!is_told_of_two_devices(&bed));
}

#[test]
fn a_restarted_old_node_keeps_the_link_that_it_was_welcomed_on() {
    for number in [1, 2] {
        let mut bed = Bed::with_links(Some(PACE), false, 3);
        bed.welcome_on(LinkId(number), false, 2);
        assert_eq!((bed.gateway.welcomes(LinkId(number)), bed.gateway.welcomes(LINK)), (1, 1));
        let links = &bed.gateway.status().volumes[0].nodes[0].links;
        assert_eq!(links[number].phase, LinkPhase::Ready);
        assert_ne!(links[0].phase, LinkPhase::Ready);
    }
}

#[test]
fn a_welcome_from_before_a_restart_is_not_that_of_a_second_device() {
    // The device restarted and was linked again; then an earlier welcome arrives on another link.
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 2);
    bed.connects.clear();
    bed.pass(HELD_FOR - MS);
    assert_eq!(phase(&bed, OTHER), LinkPhase::Greeting);
    bed.pass(2 * MS);
    assert_eq!((phase(&bed, OTHER), bed.gateway.welcomes(OTHER)), (LinkPhase::Waiting, 0));
    bed.pass(Duration::from_secs(1));
    assert!(!bed.connects.is_empty(), "another attempt");
    assert_eq!((is_told_of_two_devices(&bed), is_lost(&bed)), (false, false), "{:?}", bed.events);
}

#[test]
fn an_answer_to_an_earlier_probe_does_not_show_that_a_link_lives() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    // Its answer is under way for long, and meanwhile the device restarts.
    bed.gateway.try_node(bed.now, 0, true);
    bed.pass_with(100 * MS, false);
    bed.welcome_on(OTHER, true, 2);
    answer_probe(&mut bed, OTHER);
    receive_on(&mut bed, LINK, &bytes_of(|out| put_alive(out, Alive::Here)));
    assert!(!is_told_of_two_devices(&bed), "{:?}", bed.events);
    assert_eq!(phase(&bed, OTHER), LinkPhase::Greeting);
    // The answer to the second probe does.
    receive_on(&mut bed, LINK, &bytes_of(|out| put_alive(out, Alive::Here)));
    assert!(is_told_of_two_devices(&bed), "{:?}", bed.events);
}

#[test]
fn the_owner_is_told_of_a_second_device_once_a_minute_although_the_link_was_ready_before() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 1);
    let mut told = Vec::new();
    for _ in 0..10 {
        bed.gateway.link_closed(bed.now, OTHER, "reset");
        while phase(&bed, OTHER) != LinkPhase::Connecting {
            bed.pass(10 * MS);
        }
        bed.welcome_on(OTHER, true, 2);
        answer_probe(&mut bed, OTHER);
        bed.pass_with(Duration::from_millis(900), false);
        receive_on(&mut bed, LINK, &bytes_of(|out| put_alive(out, Alive::Here)));
        bed.pass(Duration::from_secs(15));
        told.extend(bed.events.drain(..).filter(|event| matches!(event, Event::NodeWarning(..))).map(|_| bed.now));
    }
    assert!(told.len() > 1 && told.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(60)), "{told:?}");
}

#[test]
fn all_links_of_the_start_that_lives_are_accepted_with_the_first_that_answers() {
    let mut bed = Bed::with_links(Some(PACE), true, 3);
    let [first, second] = [1, 2].map(LinkId);
    bed.welcome_on(first, true, 3);
    bed.welcome_on(second, true, 3);
    bed.gateway.link_closed(bed.now, LINK, "reset");
    answer_probe(&mut bed, second);
    assert_eq!([first, second].map(|link| bed.gateway.welcomes(link)), [1, 1], "{:?}", bed.events);
    bed.pass_with(HELD_FOR + MS, false);
    assert_eq!([first, second].map(|link| phase(&bed, link)), [LinkPhase::Ready; 2], "nothing is held, or probed");
}

#[test]
fn a_third_start_waits_until_it_is_known_which_of_two_lives() {
    // An answer that was sent before the third start came must not be taken for proof that both live.
    let mut bed = Bed::with_links(Some(PACE), true, 3);
    let [stale, third] = [1, 2].map(LinkId);
    bed.welcome_on(stale, true, 2);
    bed.welcome_on(third, true, 3);
    assert_ne!(phase(&bed, third), LinkPhase::Greeting, "refused for now");
    receive_on(&mut bed, LINK, &bytes_of(|out| put_alive(out, Alive::Here)));
    bed.pass_with(HELD_FOR, false);
    assert!(!is_told_of_two_devices(&bed), "{:?}", bed.events);
    // The same where no link is ready any more: the one that is held comes first.
    let mut bed = Bed::with_links(Some(PACE), true, 3);
    bed.welcome_on(stale, true, 2);
    bed.gateway.link_closed(bed.now, LINK, "reset");
    for boot in [1, 3] {
        while phase(&bed, third) != LinkPhase::Connecting {
            bed.pass_with(MS, false);
        }
        bed.welcome_on(third, true, boot);
        assert_eq!(bed.gateway.welcomes(third), 0, "boot {boot}");
    }
    answer_probe(&mut bed, stale);
    assert_eq!(bed.gateway.welcomes(stale), 1);
}

#[test]
fn a_late_link_of_the_start_that_is_over_is_probed_as_well() {
    let mut bed = Bed::with_links(Some(PACE), true, 3);
    let [restarted, late] = [1, 2].map(LinkId);
    bed.welcome_on(restarted, true, 2);
    answer_probe(&mut bed, restarted);
    bed.pass_with(Duration::from_millis(500), false);
    bed.welcome_on(late, true, 1);
    assert_eq!(bed.gateway.welcomes(late), 1, "it shows the same start as the ready link");
    bed.pass_with(Duration::from_millis(1001), false);
    assert_eq!(bed.gateway.welcomes(restarted), 1, "{:?}", bed.events);
    assert!(!is_told_of_two_devices(&bed), "{:?}", bed.events);
}

#[test]
fn a_node_that_reports_an_error_behind_its_welcome_is_heard() {
    let mut bed = Bed::with_links(Some(PACE), true, 2);
    bed.welcome_on(OTHER, true, 2);
    receive_on(&mut bed, OTHER, &bytes_of(|out| encode_error(out, "its extent is gone")));
    assert_eq!(phase(&bed, OTHER), LinkPhase::Waiting);
    // And one that says something out of order is dropped.
    for bytes in [bytes_of(|out| welcome(1 << 30).encode(out)), vec![0; 32]] {
        let mut bed = Bed::with_links(Some(PACE), true, 2);
        bed.welcome_on(OTHER, true, 2);
        receive_on(&mut bed, OTHER, &bytes);
        assert_eq!((phase(&bed, OTHER), bed.gateway.welcomes(OTHER)), (LinkPhase::Waiting, 0));
    }
}

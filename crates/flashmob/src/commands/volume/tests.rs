//! The page of a volume, and the choice of a node.

use super::*;
use flashmob_server::status::volumes::{
    BadPlace, CopiesDetails, MemberDetails, MovesDetails, PassDetails, Rebuild, ScrubDetails,
};

pub(super) fn details(number: usize) -> NodeDetails {
    let member = MemberDetails {
        extent: Some("0f".repeat(16)),
        domain: "shelf".to_string(),
        copies: 16,
        behind: 0,
        doubtful: 0,
        only: 0,
        acceptable_chunks: None,
        not_acceptable: None,
        slots: 20,
        is_joining: false,
        holds_data: false,
        is_leaving: false,
        is_drained: false,
        is_paused: false,
        out_seconds: None,
        offered: None,
        scrub: PassDetails::default(),
    };
    NodeDetails {
        number,
        name: format!("192.168.1.{}:7411", number + 10),
        state: "ready".to_string(),
        refusal: None,
        size_bytes: Some(64 << 20),
        device_fails: None,
        member: Some(member),
    }
}

fn volume() -> VolumeDetails {
    VolumeDetails {
        name: "pool".to_string(),
        size_bytes: Some(64 << 20),
        copies: Some(CopiesDetails {
            copies: 2,
            fewest_current: 2,
            chunks: 16,
            chunk_bytes: 4 << 20,
            rebuild: Rebuild::default(),
            moves: MovesDetails::default(),
            map_trouble: None,
            waits_for: None,
            deposed: None,
            scrub: ScrubDetails {
                compare: PassDetails {
                    total_bytes: 64 << 20,
                    done_seconds_ago: Some(3.0 * 86_400.0),
                    due_in_seconds: Some(27.0 * 86_400.0),
                    ..PassDetails::default()
                },
                ..ScrubDetails::default()
            },
        }),
        nodes: vec![details(0), details(1)],
    }
}

#[test]
fn a_healthy_volume_is_a_table() {
    let expected = "\
volume pool, 64 MiB, 2 nodes
2 copies of 16 chunks of 4 MiB
all copies were compared 3 d 0 h ago, and will be again in 27 d 0 h
node  address            state  domain    size  copies  room  behind  doubtful  only
   0  192.168.1.10:7411  ready  shelf   64 MiB      16     4       0         0     0
   1  192.168.1.11:7411  ready  shelf   64 MiB      16     4       0         0     0
";
    assert_eq!(show::page(&volume(), false), expected);
}

#[test]
fn what_is_to_be_done_is_said() {
    let mut volume = volume();
    let copies = volume.copies.as_mut().unwrap();
    (copies.fewest_current, copies.rebuild) = (1, Rebuild::of(6, 4 << 20, Some(8e6)));
    volume.nodes[1].state = "refused".to_string();
    volume.nodes[1].member.as_mut().unwrap().offered = Some("ab".repeat(16));
    let text = show::page(&volume, false);
    assert!(text.contains("some chunks have 1 of 2 copies left\n"), "{text}");
    assert!(text.contains("6 copies to be made current: 24 MiB, 7.63 MiB/s, 3 s left\n"), "{text}");
    assert!(text.contains("flashmob volume replace ADDR:PORT pool 1"), "{text}");
    volume.copies.as_mut().unwrap().rebuild = Rebuild::of(6, 4 << 20, None);
    volume.nodes[1].member.as_mut().unwrap().behind = 6;
    assert!(show::page(&volume, false).contains("24 MiB, waiting for their nodes\n"));
    // A node whose device is full is there.
    (volume.nodes[1].state, volume.nodes[1].device_fails) = ("ready".to_string(), Some("is full".to_string()));
    let text = show::page(&volume, false);
    assert!(text.contains("24 MiB, held up by devices that fail: node 1 is full\n"), "{text}");
    assert!(text.contains("node 1: its device is full; `flashmob status` has the remedy"), "{text}");
}

#[test]
fn what_moves_is_said_and_what_is_empty() {
    let mut volume = volume();
    let moves = &mut volume.copies.as_mut().unwrap().moves;
    (moves.left_copies, moves.left_bytes) = (12, 48 << 20);
    (moves.bytes_per_second, moves.eta_seconds) = (Some(8e6), Some(6.3));
    (moves.stranded_copies, moves.is_balancing) = (2, true);
    volume.nodes[0].member.as_mut().unwrap().is_leaving = true;
    let drained = volume.nodes[1].member.as_mut().unwrap();
    (drained.is_leaving, drained.is_drained, drained.copies) = (true, true, 0);
    let text = show::page(&volume, false);
    for line in [
        "12 copies (48 MiB) are to be moved, to fill nodes evenly, 7.63 MiB/s, 6 s left; waiting: 2 copies have no room on nodes that are there\n",
        "   0  192.168.1.10:7411  leaving",
        "   1  192.168.1.11:7411  drained",
        "node 0 is being drained: 16 copies are left\n",
        "node 1 has no copies any more: it can be switched off\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn texts_of_the_other_end_do_not_reach_the_terminal() {
    let mut volume = volume();
    volume.name = "po\x1b[2Jol".to_string();
    volume.nodes[0].refusal = Some("\x1b]0;x\x07".to_string());
    volume.nodes[1].member.as_mut().unwrap().domain = "\r\n".to_string();
    let text = show::page(&volume, false);
    assert!(!text.contains('\x1b') && !text.contains('\r') && !text.contains('\x07'), "{text:?}");
}

#[test]
fn a_volume_without_copies_has_fewer_columns() {
    let mut volume = volume();
    volume.copies = None;
    volume.nodes.iter_mut().for_each(|node| node.member = None);
    assert!(show::page(&volume, false).contains("node  address            state\n"));
}

#[test]
fn nodes_go_by_number_or_name() {
    let volume = volume();
    assert_eq!(node(&volume, "1").unwrap().number, 1);
    assert_eq!(node(&volume, "192.168.1.10:7411").unwrap().number, 0);
    for which in ["2", "-1", "", "192.168.1.1"] {
        let text = node(&volume, which).unwrap_err().to_string();
        assert!(text.contains("0 to 1"), "{text}");
    }
}

#[test]
fn scrubs_say_how_far_they_are_and_what_they_wait_for() {
    let mut volume = volume();
    let scrub = &mut volume.copies.as_mut().unwrap().scrub;
    scrub.compare =
        PassDetails { is_running: true, done_bytes: 1 << 20, eta_seconds: Some(63.0), ..scrub.compare.clone() };
    let text = show::page(&volume, false);
    assert!(text.contains("all copies are being compared: 1 MiB of 64 MiB, 1 min 3 s left\n"), "{text}");
    let waits = Some("node 192.168.1.11:7411 is not charging".to_string());
    volume.copies.as_mut().unwrap().scrub.compare.waits.clone_from(&waits);
    let member = volume.nodes[1].member.as_mut().unwrap();
    member.scrub = PassDetails { is_running: true, total_bytes: 8 << 20, waits, ..PassDetails::default() };
    let text = show::page(&volume, false);
    assert!(text.contains("1 MiB of 64 MiB; waiting: node 192.168.1.11:7411 is not charging\n"), "{text}");
    assert!(text.contains("node 1: its copies are being verified, 0 B of 8 MiB; waiting: "), "{text}");
}

#[test]
fn what_cannot_be_mended_is_listed_up_to_twenty_places() {
    let mut volume = volume();
    let place =
        |n: u64, flaw: &str| BadPlace { offset_bytes: n << 20, bytes: 8192, flaw: flaw.to_string(), nodes: vec![0, 1] };
    let scrub = &mut volume.copies.as_mut().unwrap().scrub;
    scrub.bad = (0..20).map(|n| place(n, if n == 0 { "differs" } else { "unreadable" })).collect();
    let text = show::page(&volume, false);
    assert!(
        text.contains("  bytes 0 to 8191 (8 KiB): copies differ, though each matches its checksum; nodes 0, 1\n"),
        "{text}"
    );
    assert!(
        text.contains("  bytes 19922944 to 19931135 (8 KiB): no copy matches its checksum; nodes 0, 1\n"),
        "{text}"
    );
    assert!(!text.contains(" more "), "{text}");
    assert!(text.contains("`flashmob volume resync ADDR:PORT VOLUME NODE` makes them equal to others"), "{text}");
    let scrub = &mut volume.copies.as_mut().unwrap().scrub;
    scrub.bad.push(place(20, "unreadable"));
    scrub.bad.remove(0);
    assert!(!show::page(&volume, false).contains("volume resync"), "no copies differ");
    let scrub = &mut volume.copies.as_mut().unwrap().scrub;
    scrub.bad.push(place(21, "unreadable"));
    scrub.unlisted_blocks = 7;
    let text = show::page(&volume, false);
    assert!(text.contains("  and 1 more places; --output json has them all\n"), "{text}");
    assert!(text.contains("  and at least 7 more blocks"), "{text}");
}

#[test]
fn only_what_would_be_accepted_is_advised() {
    let mut volume = volume();
    volume.nodes[1].state = "connecting".to_string();
    let page = |volume: &VolumeDetails| show::page(volume, false);
    let member = volume.nodes[1].member.as_mut().unwrap();
    (member.only, member.acceptable_chunks) = (4, Some(4));
    let text = page(&volume);
    assert!(text.contains("node 1 has the only current copy of 4 chunks"), "{text}");
    assert!(text.contains("flashmob volume accept-loss ADDR:PORT pool 1"), "{text}");
    volume.nodes[1].member.as_mut().unwrap().offered = Some("ab".repeat(16));
    let text = page(&volume);
    assert!(text.contains("flashmob volume replace ADDR:PORT pool 1 --accept-loss`"), "{text}");
    assert!(!text.contains("accept-loss ADDR") && !text.contains("pool 1` gives up"), "{text}");
    // The extent cannot be replaced if some chunks have no other copy at all.
    volume.nodes[1].member.as_mut().unwrap().acceptable_chunks = Some(3);
    let text = page(&volume);
    assert!(!text.contains("flashmob volume") && text.contains("1 of them have no copy on another node"), "{text}");
    let member = volume.nodes[1].member.as_mut().unwrap();
    (member.acceptable_chunks, member.not_acceptable) = (None, Some("node b may come back".to_string()));
    let text = page(&volume);
    assert!(!text.contains("flashmob volume") && text.contains("now: node b may come back"), "{text}");
}

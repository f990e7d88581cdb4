//! The page of a volume, and the choice of a node.

use super::*;
use flashmob_server::status::volumes::{CopiesDetails, MemberDetails, Rebuild};

fn details(number: usize) -> NodeDetails {
    let member = MemberDetails {
        extent: Some("0f".repeat(16)),
        domain: "shelf".to_string(),
        copies: 16,
        behind: 0,
        doubtful: 0,
        only: 0,
        out_seconds: None,
        offered: None,
    };
    NodeDetails {
        number,
        name: format!("192.168.1.{}:7411", number + 10),
        state: "ready".to_string(),
        refusal: None,
        size_bytes: Some(64 << 20),
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
            map_trouble: None,
            deposed: None,
        }),
        nodes: vec![details(0), details(1)],
    }
}

#[test]
fn a_healthy_volume_is_a_table() {
    let expected = "\
volume pool, 64 MiB, 2 nodes
2 copies of 16 chunks of 4 MiB
node  address            state  domain    size  copies  behind  doubtful  only
   0  192.168.1.10:7411  ready  shelf   64 MiB      16       0         0     0
   1  192.168.1.11:7411  ready  shelf   64 MiB      16       0         0     0
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
    assert!(show::page(&volume, false).contains("24 MiB, waiting for their nodes"));
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

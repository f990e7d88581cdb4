//! Checks of an etcd cluster, on made-up reports of its members.

use std::time::Duration;

use flashmob_results::diagnosis::Outcome::{self, NotApplicable, Severe, Unknown, Well, Wrong};

use super::{Finding, Tree, look};
use crate::view::etcd::{Alarm, AlarmKind, Etcd, Member, Status};

const MIB: u64 = 1 << 20;

/// Three members on three machines, and all well.
fn etcd() -> Etcd {
    let status = Status { version: "3.4.23".into(), db_bytes: 20 * MIB, in_use_bytes: 18 * MIB };
    let member = |n: u8| Member {
        name: format!("etcd{n}"),
        endpoint: format!("192.0.2.{n}:2379"),
        is_learner: false,
        status: Ok(status.clone()),
    };
    Etcd { members: (1..=3).map(member).collect(), alarms: Ok(Vec::new()), read: Ok(Duration::from_millis(2)) }
}

fn with(name: &str, change: impl FnOnce(&mut Etcd)) -> Finding {
    let mut view = Tree::new(&[]).view();
    let mut etcd = etcd();
    change(&mut etcd);
    view.etcd = Some(etcd);
    look(&view, name)
}

fn assert_finds(finding: &Finding, outcome: Outcome, text: &str) {
    assert_eq!(finding.outcome, outcome, "{finding:?}");
    let said = [&finding.found, &finding.cost, &finding.command, &finding.advice];
    assert!(said.iter().any(|said| said.contains(text)), "no '{text}' in {finding:?}");
}

#[test]
fn a_cluster_that_is_well_is_said_to_be() {
    assert_finds(&with("etcd-members", |_| ()), Well, "all 3 members of etcd answer, version 3.4.23");
    assert_finds(&with("etcd-space", |_| ()), Well, "20 MiB, of which 18 MiB");
    assert_finds(&with("etcd-time", |_| ()), Well, "2.0 ms");
    let view = Tree::new(&[]).view();
    for name in ["etcd-members", "etcd-space", "etcd-time"] {
        assert_finds(&look(&view, name), NotApplicable, "--etcd");
    }
}

#[test]
fn members_that_are_away_are_named_and_how_many_more_may_end() {
    let away = |count: usize| {
        move |etcd: &mut Etcd| etcd.members[..count].iter_mut().for_each(|m| m.status = Err("refused".into()))
    };
    let finding = with("etcd-members", away(1));
    assert_finds(&finding, Wrong, "1 of 3 members of etcd do not answer: etcd1 at 192.0.2.1:2379 (refused)");
    assert_finds(&finding, Wrong, "if one more ends");
    let finding = with("etcd-members", |etcd| {
        etcd.members.extend([etcd.members[0].clone(), etcd.members[0].clone()]);
        away(1)(etcd);
    });
    assert_finds(&finding, Wrong, "if 2 more end");
    let finding = with("etcd-members", |etcd| {
        away(2)(etcd);
        etcd.read = Err("no leader".into());
    });
    assert_finds(&finding, Severe, "2 of 3 members");
    let finding = with("etcd-members", |etcd| etcd.read = Err("no leader".into()));
    assert_finds(&finding, Severe, "no read that a majority of etcd agrees to was answered: no leader");
}

#[test]
fn a_cluster_without_a_member_to_spare_is_wrong() {
    assert_finds(&with("etcd-members", |etcd| etcd.members.truncate(2)), Wrong, "no member to spare");
    let finding = with("etcd-members", |etcd| etcd.members[2].is_learner = true);
    assert_finds(&finding, Wrong, "no member to spare: 192.0.2.1:2379, 192.0.2.2:2379");
    let on_one = |etcd: &mut Etcd| etcd.members[1].endpoint = "192.0.2.1:2479".into();
    assert_finds(&with("etcd-members", on_one), Wrong, "2 of 3 members of etcd are on 192.0.2.1: etcd1, etcd2");
    // Of five, two may be there.
    let finding = with("etcd-members", |etcd| {
        etcd.members
            .extend([4, 5].map(|n| Member { endpoint: format!("192.0.2.{n}:2379"), ..etcd.members[0].clone() }));
        on_one(etcd);
    });
    assert_finds(&finding, Well, "all 5 members");
}

#[test]
fn alarms_and_large_databases_are_told_with_what_helps() {
    let alarm = |kind: AlarmKind| {
        move |etcd: &mut Etcd| etcd.alarms = Ok(vec![Alarm { member: "etcd2".into(), kind: kind.clone() }])
    };
    let finding = with("etcd-space", alarm(AlarmKind::Full));
    assert_finds(&finding, Severe, "is full: etcd2");
    assert_finds(&finding, Severe, "etcdctl alarm disarm");
    assert_finds(&with("etcd-space", alarm(AlarmKind::Corrupt)), Severe, "differs");
    assert_finds(&with("etcd-space", alarm(AlarmKind::Other("HEAT".into()))), Wrong, "HEAT of etcd2");
    let size = |db_bytes, in_use_bytes| {
        move |etcd: &mut Etcd| etcd.members[0].status = Ok(Status { version: String::new(), db_bytes, in_use_bytes })
    };
    let most = (2 << 30) / 5 * 4;
    assert_finds(&with("etcd-space", size(most, MIB)), Wrong, "the database of etcd1 has 1.6 GiB, of which 1 MiB");
    assert_finds(&with("etcd-space", size(most - 1, MIB)), Well, "etcdctl defrag");
    assert_eq!(with("etcd-space", size(most - 1, most / 2)).advice, "");
    assert_eq!(with("etcd-space", size(256 * MIB - 1, MIB)).advice, "");
    let silent = |etcd: &mut Etcd| etcd.members.iter_mut().for_each(|m| m.status = Err("gone".into()));
    assert_finds(&with("etcd-space", silent), Unknown, "size");
    assert_finds(&with("etcd-space", |etcd| etcd.alarms = Err("no leader".into())), Unknown, "alarms: no leader");
    for name in ["etcd-members", "etcd-space", "etcd-time"] {
        assert_eq!(with(name, |etcd| *etcd = Etcd::unseen("no file")).outcome, Unknown, "{name}");
    }
}

#[test]
fn slow_answers_are_wrong() {
    let takes = |ms: u64| move |etcd: &mut Etcd| etcd.read = Ok(Duration::from_millis(ms));
    assert_finds(&with("etcd-time", takes(49)), Well, "49.0 ms");
    assert_finds(&with("etcd-time", takes(50)), Wrong, "first write");
    assert_finds(&with("etcd-time", takes(999)), Wrong, "999.0 ms");
    assert_finds(&with("etcd-time", takes(1000)), Severe, "leases");
    assert_finds(&with("etcd-time", |etcd| etcd.read = Err("no leader".into())), Unknown, "nothing can be timed");
}

//! Transactions that are sent again, because no answer came, and what they leave.

use super::*;

#[test]
fn changes_whose_answer_is_lost_are_there_once() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    for fates in [[Fate::LosesAnswer; 2], [Fate::Lost, Fate::LosesAnswer]] {
        cluster.model.set_fates(&fates);
        append(&mut map, &mut image, 1).unwrap();
        let batch = cluster.model.get(&cluster.keys.batch(&map.snapshot, image.version())).unwrap();
        let executed = 1 + fates.iter().filter(|fate| **fate == Fate::LosesAnswer).count();
        assert_eq!((batch.version, batch.lease), (executed as i64, 0));
    }
    // The part and the head.
    cluster.model.set_fates(&[Fate::LosesAnswer, Fate::Executed].repeat(2));
    map.rewrite(&encode_snapshot(&image)).unwrap();
    assert_eq!((cluster.model.fates(), cluster.map_keys()), (0, vec!["head".to_string(), "1/part/0".to_string()]));
    append(&mut map, &mut image, 1).unwrap();
    assert_eq!(cluster.open("second").unwrap().1, image);
}

/// A transaction that was sent twice may be executed the first time after the second.
fn after_a_late_change(fates: &[Fate], also: impl Fn(&mut EtcdMap, &mut MapImage)) {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    cluster.model.set_fates(fates);
    append(&mut map, &mut image, 1).unwrap();
    map.rewrite(&encode_snapshot(&image)).unwrap();
    append(&mut map, &mut image, 1).unwrap();
    also(&mut map, &mut image);
    assert_eq!(cluster.model.arrive(), 1);
    append(&mut map, &mut image, 1).unwrap();
    match cluster.open("second") {
        Ok((_, read)) => assert_eq!(read, image),
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn a_late_batch_harms_nothing() {
    after_a_late_change(&[Fate::Late], |_, _| {});
}

#[test]
fn a_late_part_harms_nothing() {
    after_a_late_change(&[Fate::Executed, Fate::Late], |_, _| {});
}

#[test]
fn a_late_head_harms_nothing() {
    let fates = [Fate::Executed, Fate::Executed, Fate::Late];
    after_a_late_change(&fates, |map, image| map.rewrite(&encode_snapshot(image)).unwrap());
}

#[test]
fn a_head_whose_attempt_seemed_to_fail_is_replaced() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    append(&mut map, &mut image, 1).unwrap();
    cluster.model.set_fates(&[Fate::Executed, Fate::AnswersFull]);
    assert_eq!(map.rewrite(&encode_snapshot(&image)).unwrap_err().failure, Failure::NoSpace);
    assert!(map.is_spent && cluster.look().0 == image);
    map.rewrite(&encode_snapshot(&image)).unwrap_err();
    map.rewrite(&encode_snapshot(&image)).unwrap();
    append(&mut map, &mut image, 1).unwrap();
    assert_eq!(cluster.open("second").unwrap().1, image);
}

/// A head of an attempt that seemed to fail comes about while the next one is under way, and removes its parts.
#[test]
fn a_late_head_spoils_the_next_attempt_only() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    append(&mut map, &mut image, 1).unwrap();
    cluster.model.set_fates(&[Fate::Executed, Fate::Late, Fate::AnswersFull]);
    // The head was sent twice: the second time it was executed, and there seemed to be no room for it.
    map.rewrite(&encode_snapshot(&image)).unwrap_err();
    append(&mut map, &mut image, 1).unwrap_err();
    assert_eq!(cluster.model.arrive(), 1);
    map.rewrite(&encode_snapshot(&image)).unwrap_err();
    map.rewrite(&encode_snapshot(&image)).unwrap();
    assert_eq!(cluster.open("second").unwrap().1, image);
}

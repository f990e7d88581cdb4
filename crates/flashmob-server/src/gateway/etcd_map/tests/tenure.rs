//! Who is in charge, and who is not any more.

use super::*;

impl Cluster {
    /// Who a leader key names, and its lease.
    fn leader(&self) -> Option<(String, i64)> {
        let kept = self.model.get(&self.keys.leader())?;
        let value: serde_json::Value = serde_json::from_slice(&kept.value).unwrap();
        Some((value["gateway"].as_str().unwrap().to_string(), kept.lease))
    }

    fn is_led_by(&self, name: &str) -> bool {
        self.leader().is_some_and(|(leader, _)| leader == name)
    }
}

#[test]
fn changes_wait_for_etcd() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    let tenure = map.tenure.clone();
    cluster.model.set_away(true);
    thread::scope(|scope| {
        let waits = scope.spawn(|| append(&mut map, &mut image, 1));
        wait_until("there is trouble", || tenure.trouble().is_some());
        assert!(!waits.is_finished());
        cluster.model.set_away(false);
        waits.join().unwrap().unwrap();
    });
    assert_eq!(tenure.trouble(), None);
    assert!(!map.is_spent && cluster.look().0 == image);
}

#[test]
fn changes_wait_no_longer_at_the_end() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    let mut keeper = map.tenure.keep(|| {}).unwrap();
    cluster.model.set_away(true);
    thread::scope(|scope| {
        let waits = scope.spawn(|| append(&mut map, &mut image, 1));
        wait_until("there is trouble", || keeper.tenure().trouble().is_some());
        keeper.end();
        let failure = waits.join().unwrap().unwrap_err();
        assert!(failure.failure == Failure::Io && failure.text.contains("the gateway ends"), "{failure:?}");
    });
    assert!(map.is_spent);
}

#[test]
fn a_gateway_that_was_followed_changes_nothing() {
    for has_ended in [false, true] {
        let cluster = Cluster::new();
        let mut image = new_image(FEW);
        let mut map = cluster.create("first", &image);
        append(&mut map, &mut image, 1).unwrap();
        let (_, before) = cluster.open("second").unwrap();
        if has_ended {
            cluster.model.end_leases();
        }
        let keys = cluster.map_keys();
        assert_eq!(map.tenure.deposed(), None);
        let failure = append(&mut map, &mut image, 1).unwrap_err();
        assert!(failure.failure == Failure::Io && failure.text.contains("has taken charge"), "{failure:?}");
        map.rewrite(&encode_snapshot(&image)).unwrap_err();
        let by = map.tenure.deposed().unwrap();
        assert!(by.contains(if has_ended { "another gateway" } else { "gateway second on" }), "{by}");
        assert_eq!((cluster.map_keys(), cluster.look().0), (keys, before));
    }
}

#[test]
fn a_keeper_finds_out_that_another_gateway_has_taken_charge() {
    let cluster = Cluster::new();
    let first = cluster.follow("first");
    let second = cluster.follow("second");
    let keeper = first.keep(|| {}).unwrap();
    wait_until("the first one is deposed", || first.deposed().is_some());
    assert!(first.deposed().unwrap().contains("gateway second on"));
    drop(keeper);
    assert!(cluster.is_led_by("second") && second.deposed().is_none());
    assert_eq!(cluster.model.leases(), [cluster.leader().unwrap().1]);
}

#[test]
fn a_lease_that_nobody_else_took_is_taken_again() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    let tenure = map.tenure.clone();
    let until_ns = tenure.until_ns();
    cluster.model.end_leases();
    append(&mut map, &mut image, 1).unwrap();
    assert_eq!((cluster.leader(), tenure.until_ns()), (None, until_ns));
    let keeper = tenure.keep(|| {}).unwrap();
    wait_until("it has the lease again", || cluster.is_led_by("first") && tenure.until_ns() > until_ns);
    append(&mut map, &mut image, 1).unwrap();
    // It is renewed, too.
    let (until_ns, leader) = (tenure.until_ns(), cluster.leader());
    wait_until("the lease is renewed", || tenure.until_ns() > until_ns);
    assert_eq!((cluster.leader(), tenure.deposed()), (leader, None));
    drop(keeper);
    assert_eq!(cluster.open("second").unwrap().1, image);
}

/// A lease that is renewed while no leader key goes with it keeps nobody from taking charge.
#[test]
fn a_lease_without_a_leader_key_does_not_count() {
    for fate in [Fate::Lost, Fate::LosesAnswer] {
        let cluster = Cluster::new();
        let tenure = cluster.follow("first");
        let until_ns = tenure.until_ns();
        cluster.model.end_leases();
        cluster.model.set_fates(&[fate]);
        let _keeper = tenure.keep(|| {}).unwrap();
        wait_until("it counts on a lease", || tenure.until_ns() > until_ns);
        assert!(cluster.is_led_by("first"), "{fate:?}: another gateway could take charge");
        assert!(cluster.model.leases().contains(&cluster.leader().unwrap().1));
    }
}

#[test]
fn who_does_not_stand_by_is_told_who_is_in_charge() {
    let cluster = Cluster::new();
    let _first = cluster.follow("first");
    let error = cluster.begin("second", false).unwrap_err().to_string();
    assert!(error.contains("gateway first on") && error.contains("--standby"), "{error}");
    assert_eq!(cluster.model.leases().len(), 1);
    cluster.model.set_away(true);
    let error = cluster.begin("third", false).unwrap_err().to_string();
    assert!(error.contains(&cluster.model.address), "{error}");
}

#[test]
fn a_standby_takes_over_when_the_other_one_is_gone() {
    let cluster = Cluster::new();
    let first = cluster.follow("first");
    let keeper = first.keep(|| {}).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| cluster.begin("second", true));
        let looks = cluster.model.txns();
        wait_until("it looks", || cluster.model.txns() >= looks + 2);
        // It outlasts an etcd that is away.
        cluster.model.set_away(true);
        wait_until("the first one has noticed", || first.trouble().is_some());
        cluster.model.set_away(false);
        wait_until("the first one is well", || first.trouble().is_none());
        assert!(!waits.is_finished() && cluster.is_led_by("first"));
        // Its end is a resignation.
        drop(keeper);
        let second = waits.join().unwrap().unwrap().unwrap();
        assert!(cluster.is_led_by("second") && second.until_ns() > first.until_ns());
    });
}

#[test]
fn a_standby_can_be_stopped() {
    let cluster = Cluster::new();
    let _first = cluster.follow("first");
    thread::scope(|scope| {
        let waits = scope.spawn(|| cluster.begin("second", true));
        let looks = cluster.model.txns();
        wait_until("it looks", || cluster.model.txns() > looks);
        cluster.stop.store(true, Ordering::SeqCst);
        assert!(waits.join().unwrap().unwrap().is_none());
    });
    assert!(cluster.is_led_by("first"));
    assert_eq!(cluster.model.leases().len(), 1);
}

#[test]
fn a_bid_whose_answer_is_lost_is_won_in_the_end() {
    for fates in [&[Fate::LosesAnswer][..], &[Fate::LosesAnswer; 2], &[Fate::Lost], &[Fate::Lost, Fate::LosesAnswer]] {
        let cluster = Cluster::new();
        cluster.model.set_fates(fates);
        let tenure = cluster.begin("first", true).unwrap().unwrap();
        assert_eq!(cluster.model.fates(), 0);
        let (name, lease) = cluster.leader().unwrap();
        assert_eq!((name.as_str(), cluster.model.leases().last()), ("first", Some(&lease)));
        assert_eq!(cluster.model.keys(), ["/flashmob/pool/leader", "/flashmob/pool/term"]);
        // It is this lease that it gives up.
        drop(tenure.keep(|| {}).unwrap());
        assert_eq!(cluster.leader(), None, "{fates:?}");
        EtcdMap::create(tenure, cluster.keys.clone(), None, &new_image(FEW)).unwrap();
    }
}

#[test]
fn the_end_of_a_keeper_is_a_resignation() {
    let cluster = Cluster::new();
    let keeper = cluster.follow("first").keep(|| {}).unwrap();
    assert!(cluster.is_led_by("first"));
    drop(keeper);
    assert_eq!((cluster.leader(), cluster.model.leases()), (None, vec![]));
    let second = cluster.begin("second", false).unwrap().unwrap();
    assert!(cluster.is_led_by("second") && second.deposed().is_none());
}

/// One of two volumes is led by another gateway.
#[test]
fn all_volumes_are_taken_or_none() {
    let mut cluster = Cluster::new();
    let _first = cluster.follow("first");
    let mut other = cluster.volumes[0].clone();
    other.id = "other".to_string();
    cluster.volumes.insert(0, other);
    let error = cluster.begin("second", false).unwrap_err().to_string();
    assert!(error.contains("gateway first on"), "{error}");
    assert_eq!(cluster.model.keys(), ["/flashmob/pool/leader", "/flashmob/pool/term"]);
    cluster.model.end_leases();
    let _second = cluster.begin("second", false).unwrap().unwrap();
    let leases = ["other", "pool"].map(|id| cluster.model.get(&Keys::new("/flashmob/", id).leader()).unwrap().lease);
    assert_eq!(leases[0], leases[1]);
}

#[test]
fn a_start_that_waits_for_etcd_can_be_stopped() {
    let cluster = Cluster::new();
    let image = new_image(FEW);
    cluster.create("first", &image);
    let tenure = cluster.follow("second");
    cluster.model.set_away(true);
    let keys = cluster.keys.clone();
    let opening = thread::spawn(move || EtcdMap::open(tenure, keys, None, false).is_err());
    cluster.stop.store(true, Ordering::SeqCst);
    assert!(opening.join().unwrap(), "it ends");
}

#[test]
fn a_lease_is_renewed_though_there_is_no_room() {
    let cluster = Cluster::new();
    let tenure = cluster.follow("first");
    cluster.model.set_room(Some(0));
    let keeper = tenure.keep(|| ()).unwrap();
    let until_ns = tenure.until_ns();
    wait_until("a renewal", || tenure.until_ns() > until_ns);
    assert_eq!(keeper.tenure().trouble(), None);
}

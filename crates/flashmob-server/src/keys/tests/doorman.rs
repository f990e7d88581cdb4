use super::*;

fn from(host: u16) -> Option<IpAddr> {
    Some(IpAddr::from([10, 0, (host >> 8) as u8, host as u8]))
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

/// How many handshakes begin of those that are asked for at once.
fn begun(doorman: &mut Doorman, now: Instant, hosts: impl Iterator<Item = u16>) -> usize {
    hosts.filter(|&host| doorman.admit(now, from(host)).is_ok()).count()
}

#[test]
fn one_address_gets_as_many_as_a_gateway_needs_and_then_few() {
    let (mut doorman, start) = (Doorman::default(), Instant::now());
    assert_eq!(begun(&mut doorman, start, std::iter::repeat_n(1, 100)), EACH_AT_ONCE as usize);
    let wait = doorman.admit(start, from(1)).unwrap_err();
    assert!(wait > Duration::ZERO && wait <= Duration::from_secs_f64(1.0 / EACH_PER_S), "{wait:?}");
    assert!(doorman.admit(start + wait + Duration::from_millis(1), from(1)).is_ok());
    let later = start + Duration::from_secs(10);
    assert_eq!(begun(&mut doorman, later, std::iter::repeat_n(1, 100)), EACH_AT_ONCE as usize);
}

#[test]
fn strangers_share_theirs_and_known_addresses_do_not_wait_for_them() {
    let (mut doorman, start) = (Doorman::default(), Instant::now());
    assert!(doorman.admit(start, from(1)).is_ok());
    doorman.let_in(from(1));
    let strangers = begun(&mut doorman, start, 2..2000);
    assert_eq!(strangers, STRANGERS_AT_ONCE as usize - 1);
    let later = start + Duration::from_secs(1);
    assert!(doorman.turn_of(from(1), later) < doorman.turn_of(from(5000), start), "and it comes first");
    assert!(doorman.admit(start, from(1)).is_ok(), "and it is remembered among so many");
    assert!(doorman.origins.len() <= ORIGINS_MAX);
    // Each has an allowance of its own, so the seconds are filled evenly.
    let in_a_second = (1..=100u64).map(|at| {
        let now = start + Duration::from_millis(10 * at);
        begun(&mut doorman, now, 3000 + 10 * at as u16..3010 + 10 * at as u16)
    });
    assert_eq!(in_a_second.sum::<usize>(), STRANGERS_PER_S as usize);
}

#[test]
fn who_was_let_in_before_a_restart_does_not_wait_for_strangers() {
    let (mut doorman, start) = (Doorman::knowing(from(1).into_iter()), Instant::now());
    begun(&mut doorman, start, 2..2000);
    assert!(doorman.turn_of(from(1), start) < doorman.turn_of(from(5000), start));
    assert!(doorman.admit(start, from(1)).is_ok());
    assert!(Doorman::default().turn_of(from(1), start).0, "a stranger else");
}

#[test]
fn who_has_waited_longest_comes_first_whether_it_has_been_there_or_not() {
    let (mut doorman, start) = (Doorman::default(), Instant::now());
    let since = |host: u64| start + Duration::from_millis(host);
    assert!(doorman.admit(start, from(1)).is_ok());
    let mut hosts = [3u16, 2, 1];
    hosts.sort_by_key(|&host| doorman.turn_of(from(host), since(host.into())));
    assert_eq!(hosts, [1, 2, 3], "1 was served before");
    doorman.let_in(from(3));
    hosts.sort_by_key(|&host| doorman.turn_of(from(host), since(host.into())));
    assert_eq!(hosts, [3, 1, 2]);
}

#[test]
fn ipv6_counts_by_its_first_half_and_who_was_let_in_counts_alone() {
    let (mut doorman, start) = (Doorman::default(), Instant::now());
    let of_one_device = |host: u32| ip(&format!("2001:db8:0:1::{host:x}"));
    let begun = (0..1000).filter(|&host| doorman.admit(start, of_one_device(host)).is_ok()).count();
    assert_eq!(begun, EACH_AT_ONCE as usize);
    doorman.let_in(of_one_device(7));
    assert!(doorman.admit(start, of_one_device(7)).is_ok(), "a gateway with a stranger beside it");
    assert!(doorman.admit(start, of_one_device(8)).is_err(), "which is no reason to let in others");
    assert!(doorman.admit(start + Duration::from_secs(1), ip("2001:db8:0:2::1")).is_ok());
    assert!(doorman.origins.len() < 5);
    doorman.let_in(ip("::ffff:10.0.0.1"));
    assert!(doorman.was_let_in(ip("10.0.0.1")));
}

#[test]
fn strangers_take_no_more_than_their_part_of_a_slow_processor() {
    let (mut doorman, start) = (Doorman::knowing(from(1).into_iter()), Instant::now());
    let cost = Duration::from_millis(4);
    let mut begun = 0;
    for ms in 0..10_000 {
        let now = start + Duration::from_millis(ms);
        if doorman.admit(now, from(2 + (ms % 5000) as u16)).is_ok() {
            doorman.took(from(2), cost);
            begun += 1;
        }
    }
    let part = cost.as_secs_f64() * f64::from(begun) / 10.0;
    assert!((STRANGERS_PART..STRANGERS_PART * 1.15).contains(&part), "{part}");
    // What known ones take is nobody else's.
    let now = start + Duration::from_secs(20);
    doorman.took(from(1), Duration::from_secs(1));
    assert!(doorman.admit(now, from(9999)).is_ok());
    doorman.took(from(9999), Duration::from_secs(1));
    assert!(doorman.admit(now, from(9998)).is_err());
    assert!(doorman.admit(now, from(1)).is_ok());
}

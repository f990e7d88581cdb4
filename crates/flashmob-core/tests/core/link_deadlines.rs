//! When a gateway wants to be woken for its links. It looks at them only when the first of them is due, so what it remembers of that must
//! follow everything that happens to them.

use std::time::Duration;

use crate::testing::{GatewayBed, gateway_config, volume, welcome};
use flashmob_core::gateway::{Action, Gateway, LinkId, LinkPhase, VolumeSpec};
use flashmob_core::op::{Failure, Op};
use flashmob_core::units::{MIB, Time};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RECONNECT_MIN: Duration = Duration::from_millis(100);

fn gateway() -> Gateway {
    let times = VolumeSpec { connect_timeout: CONNECT_TIMEOUT, reconnect_min: RECONNECT_MIN, ..volume(&[MIB; 2]) };
    Gateway::new(gateway_config(times)).expect("a gateway")
}

fn connects(gateway: &mut Gateway) -> Vec<usize> {
    let actions = std::iter::from_fn(|| gateway.poll_action());
    actions.filter_map(|a| if let Action::Connect { link, .. } = a { Some(link.0) } else { None }).collect()
}

fn at(ms: u64) -> Time {
    Time(0) + Duration::from_millis(ms)
}

#[test]
fn it_is_woken_for_the_link_that_is_due_first() {
    let mut gateway = gateway();
    assert_eq!(gateway.next_timeout(), Some(at(0)), "links want to connect");
    gateway.handle_timeout(at(0));
    assert_eq!(connects(&mut gateway), [0, 1]);
    assert_eq!(gateway.next_timeout(), Some(at(0) + CONNECT_TIMEOUT));
    // One breaks early: its next attempt comes before the other's end.
    gateway.link_closed(at(10), LinkId(0), "refused");
    let again = gateway.next_timeout().expect("another attempt");
    // The pause is less by up to a half, and after the first failure up to twice the shortest.
    assert!(again > at(10) && again <= at(10) + 2 * RECONNECT_MIN, "{again:?}");
    gateway.handle_timeout(again);
    assert_eq!(connects(&mut gateway), [0]);
    assert_eq!(gateway.next_timeout(), Some(at(0) + CONNECT_TIMEOUT), "the other link is first again");
    gateway.handle_timeout(at(0) + CONNECT_TIMEOUT);
    assert!(gateway.next_timeout().is_some_and(|next| next <= at(0) + CONNECT_TIMEOUT + 2 * RECONNECT_MIN));
}

#[test]
fn a_link_that_connects_is_due_when_its_welcome_is_late() {
    let mut gateway = gateway();
    gateway.handle_timeout(at(0));
    gateway.link_connected(at(2900), LinkId(0));
    gateway.link_connected(at(2950), LinkId(1));
    // What it remembers may be too early, and is right from then on.
    gateway.handle_timeout(at(3000));
    assert_eq!(gateway.next_timeout(), Some(at(2900) + CONNECT_TIMEOUT));
    gateway.handle_timeout(at(2900) + CONNECT_TIMEOUT);
    let given_up = std::iter::from_fn(|| gateway.poll_action()).any(|a| a == Action::Disconnect(LinkId(0)));
    assert!(given_up, "its welcome did not come");
}

#[test]
fn while_draining_nobody_waits_for_another_attempt() {
    let mut gateway = gateway();
    gateway.handle_timeout(at(0));
    for link in [0, 1] {
        gateway.link_closed(at(5), LinkId(link), "refused");
    }
    assert!(gateway.next_timeout().is_some());
    gateway.drain();
    assert_eq!(gateway.next_timeout(), None);
}

/// A link that is silent is made anew after half of the timeout, and what it carried is asked on the others: that must not go on for ever.
#[test]
fn a_read_that_is_never_answered_fails_in_time_however_many_links_are_asked_in_turn() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    for (links, is_welcomed_again) in [(1, true), (1, false), (2, true), (2, false), (8, true), (8, false)] {
        let spec = VolumeSpec { links, timeout: TIMEOUT, ..volume(&[MIB]) };
        let mut bed = GatewayBed::new(gateway_config(spec));
        let links = usize::from(links);
        (0..links).for_each(|link| bed.link(link, &welcome(MIB)));
        let client = bed.gateway.native_opened(0).expect("a volume");
        bed.submit(client, Op::Read, 0, 512);
        let (asked, mut lost) = (bed.now, 0);
        while bed.gateway.completions().is_empty() {
            assert!(bed.now - asked < TIMEOUT * 3 / 2, "{links} links, welcomed again: {is_welcomed_again}");
            bed.pass(TIMEOUT / 100);
            for link in 0..links {
                bed.gateway.link_out(LinkId(link)).take_all();
                if bed.phase(link) == LinkPhase::Connecting {
                    lost += 1;
                    if is_welcomed_again {
                        bed.link(link, &welcome(MIB));
                    }
                }
            }
        }
        assert!(lost > 0, "silent links are made anew");
        let results: Vec<Option<Failure>> = bed.gateway.completions().drain(..).map(|c| c.result.err()).collect();
        assert_eq!(results, [Some(Failure::Io)]);
    }
}

//! The medium with packet sockets in place of TAP devices.

use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use flashmob_lab::air::{Attachment, Profile};

use super::super::address::mac;
use super::*;

/// Three hosts on this air.
fn hosts(profile: &str) -> (Vec<UnixDatagram>, MediumHandle) {
    let mut attachments = vec![Attachment::Wireless; 3];
    attachments[0] = Attachment::Wired;
    let air = Air::new(&Profile::parse(profile).unwrap(), &attachments, 1);
    let (hosts, taps): (Vec<_>, Vec<_>) = attachments.iter().map(|_| UnixDatagram::pair().unwrap()).unzip();
    taps.iter().for_each(|tap| tap.set_nonblocking(true).unwrap());
    hosts.iter().for_each(|host| host.set_read_timeout(Some(Duration::from_secs(20))).unwrap());
    (hosts, start(air, taps.into_iter().map(OwnedFd::from).collect()).unwrap())
}

fn frame(to: [u8; 6], protocol: u16, text: &str) -> Vec<u8> {
    [&to[..], &mac(Port(0)), &protocol.to_be_bytes(), text.as_bytes()].concat()
}

fn received(host: &UnixDatagram) -> Vec<u8> {
    let mut bytes = vec![0; 2000];
    let len = host.recv(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn nothing_for(host: &UnixDatagram) -> bool {
    host.set_nonblocking(true).unwrap();
    host.recv(&mut [0; 2000]).is_err()
}

#[test]
fn a_frame_arrives_whole_where_it_is_sent_and_nowhere_else() {
    for profile in ["ideal", "11n", "wan,delay=1ms"] {
        let (hosts, medium) = hosts(profile);
        let sent = frame(mac(Port(2)), 0x0800, "well done");
        hosts[1].send(&sent).unwrap();
        assert_eq!(received(&hosts[2]), sent, "{profile}");
        assert!(nothing_for(&hosts[0]) && nothing_for(&hosts[1]), "{profile}");
        assert_eq!(medium.ask(false).unwrap().counters.delivered, 1, "{profile}");
    }
}

#[test]
fn a_frame_to_all_reaches_all_others() {
    let (hosts, _medium) = hosts("ideal");
    let sent = frame([0xff; 6], 0x0806, "who has it?");
    hosts[1].send(&sent).unwrap();
    assert_eq!((received(&hosts[0]), received(&hosts[2])), (sent.clone(), sent));
    assert!(nothing_for(&hosts[1]));
}

#[test]
fn frames_that_make_no_sense_are_counted_and_hold_up_nobody() {
    let (hosts, medium) = hosts("ideal");
    for bytes in [
        vec![],
        vec![1; 13],
        vec![0; 1515],
        vec![0; 1600],
        frame(mac(Port(9)), 0x0800, ""),
        frame(mac(Port(2)), 0x86dd, ""),
    ] {
        hosts[0].send(&bytes).unwrap();
    }
    let sent = frame(mac(Port(2)), 0x0800, "sense");
    hosts[0].send(&sent).unwrap();
    assert_eq!(received(&hosts[2]), sent);
    assert_eq!(medium.ask(false).unwrap().refused, 6);
}

#[test]
fn no_frame_arrives_before_its_time() {
    let (hosts, _medium) = hosts("wan,delay=30ms");
    let begun = Instant::now();
    hosts[0].send(&frame(mac(Port(1)), 0x0800, "slowly")).unwrap();
    received(&hosts[1]);
    assert!(begun.elapsed() >= Duration::from_millis(30));
}

#[test]
fn lateness_begins_anew_when_told_and_counters_do_not() {
    let (hosts, medium) = hosts("ideal");
    hosts[0].send(&frame(mac(Port(1)), 0x0800, "one")).unwrap();
    received(&hosts[1]);
    assert!(medium.ask(true).unwrap().lateness.max_us > 0.0);
    let then = medium.ask(false).unwrap();
    assert_eq!((then.lateness, then.counters.delivered), (Lateness::default(), 1));
}

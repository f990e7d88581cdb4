//! The two netlink messages that a lab sends, because the older calls require root of the whole machine or lack the feature: a
//! longer queue of an interface, and a route with its own congestion control.

use std::io;
use std::net::Ipv4Addr;

const HEADER_BYTES: usize = 16;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
/// NLM_F_REQUEST, NLM_F_ACK.
const FLAGS_CHANGE: u16 = 0x1 | 0x4;
/// The same, NLM_F_CREATE, NLM_F_REPLACE.
const FLAGS_REPLACE: u16 = FLAGS_CHANGE | 0x400 | 0x100;
const IFLA_TXQLEN: u16 = 13;
const TABLE_MAIN: u8 = 254;
const PROTOCOL_KERNEL: u8 = 2;
const SCOPE_LINK: u8 = 253;
const TYPE_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_CC_ALGO: u16 = 16;

/// Sets the queue length of an interface, in frames.
pub fn queue(interface: u32, frames: u32) -> Vec<u8> {
    // Family, padding, type; then the index, flags, and the mask of flags to change: none.
    let mut body = vec![0; 4];
    body.extend(interface.to_ne_bytes());
    body.extend([0; 8]);
    attribute(&mut body, IFLA_TXQLEN, &frames.to_ne_bytes());
    message(RTM_NEWLINK, FLAGS_CHANGE, &body)
}

/// Replaces the route that the kernel made for the interface.
pub fn route(interface: u32, network: Ipv4Addr, prefix_bits: u8, source: Ipv4Addr, congestion: &str) -> Vec<u8> {
    let family = libc::AF_INET as u8;
    let mut body = vec![family, prefix_bits, 0, 0, TABLE_MAIN, PROTOCOL_KERNEL, SCOPE_LINK, TYPE_UNICAST, 0, 0, 0, 0];
    attribute(&mut body, RTA_DST, &network.octets());
    attribute(&mut body, RTA_OIF, &interface.to_ne_bytes());
    attribute(&mut body, RTA_PREFSRC, &source.octets());
    let mut metrics = Vec::new();
    attribute(&mut metrics, RTAX_CC_ALGO, &[congestion.as_bytes(), &[0]].concat());
    attribute(&mut body, RTA_METRICS, &metrics);
    message(RTM_NEWROUTE, FLAGS_REPLACE, &body)
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence number, and the sender's port, which the kernel fills in.
    message.extend(1u32.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(body);
    message
}

/// The kernel's answer as a result.
pub fn verdict(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    let code = answer.get(HEADER_BYTES..HEADER_BYTES + 4).map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::other("invalid reply from the kernel")),
    }
}

/// Appends an attribute: length, type, value, padded to a multiple of four.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((4 + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_filled_up_and_their_length_is_not() {
        let mut bytes = Vec::new();
        attribute(&mut bytes, 7, b"cubic\0");
        assert_eq!(bytes.len(), 12);
        assert_eq!(u16::from_ne_bytes([bytes[0], bytes[1]]), 10);
    }

    #[test]
    fn messages_have_the_length_that_they_say() {
        let route = route(3, Ipv4Addr::new(10, 77, 0, 0), 16, Ipv4Addr::new(10, 77, 0, 1), "cubic");
        for message in [route, queue(3, 4096)] {
            assert_eq!(message.len(), u32::from_ne_bytes([message[0], message[1], message[2], message[3]]) as usize);
            assert_eq!(message.len() % 4, 0);
        }
    }

    #[test]
    fn refusals_and_nonsense_are_errors() {
        let answer = |kind: u16, code: i32| {
            [&36u32.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], &code.to_ne_bytes()].concat()
        };
        assert!(verdict(&answer(NLMSG_ERROR, 0)).is_ok());
        assert_eq!(verdict(&answer(NLMSG_ERROR, -22)).unwrap_err().raw_os_error(), Some(22));
        assert!(verdict(&answer(3, 0)).is_err());
        assert!((0..20).all(|len| verdict(&answer(NLMSG_ERROR, 0)[..len]).is_err()));
    }
}

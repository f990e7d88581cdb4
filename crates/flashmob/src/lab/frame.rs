//! Ethernet frames as the medium sees them: their receivers. A root process in a lab can write any bytes, so none
//! are trusted here.

use flashmob_lab::air::Port;

use super::address::port_of;

/// Bytes of the header: two hardware addresses and the protocol.
pub const HEADER_BYTES: usize = 14;
/// Bytes that a frame may carry after its header.
pub const MTU_BYTES: usize = 1500;
/// The longest frame, without checksum.
pub const FRAME_BYTES_MAX: usize = HEADER_BYTES + MTU_BYTES;

const PROTOCOL_IPV4: u16 = 0x0800;
const PROTOCOL_ARP: u16 = 0x0806;

/// Why a frame is not transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Shorter than its header.
    TooShort,
    /// Longer than the limit.
    TooLong,
    /// Neither IPv4 nor ARP: the air's profiles support nothing else, and IPv6 is off in a lab.
    Protocol,
    /// To an unknown hardware address, or to its sender.
    Nobody,
}

/// The receiver of a frame from `from`, in a lab with this many ports; `None`: all others.
pub fn receiver(frame: &[u8], from: Port, ports: u32) -> Result<Option<Port>, Refusal> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    let Some((header, _)) = frame.split_first_chunk::<HEADER_BYTES>() else { return Err(Refusal::TooShort) };
    let [a, b, c, d, e, f, _, _, _, _, _, _, high, low] = *header;
    if !matches!(u16::from_be_bytes([high, low]), PROTOCOL_IPV4 | PROTOCOL_ARP) {
        return Err(Refusal::Protocol);
    }
    // The lowest bit of the first byte: a group address.
    if a & 1 == 1 {
        return Ok(None);
    }
    port_of([a, b, c, d, e, f]).filter(|&to| to.0 < ports && to != from).map(Some).ok_or(Refusal::Nobody)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::address::mac;
    use super::*;

    fn frame(to: [u8; 6], protocol: u16, len: usize) -> Vec<u8> {
        let mut bytes = [&to[..], &mac(Port(0)), &protocol.to_be_bytes()].concat();
        bytes.resize(len, 0);
        bytes
    }

    #[test]
    fn a_frame_goes_to_whom_it_names() {
        assert_eq!(receiver(&frame(mac(Port(2)), PROTOCOL_IPV4, 60), Port(0), 3), Ok(Some(Port(2))));
        assert_eq!(receiver(&frame([0xff; 6], PROTOCOL_ARP, 60), Port(0), 3), Ok(None));
        assert_eq!(receiver(&frame([1, 0, 0x5e, 0, 0, 1], PROTOCOL_IPV4, 60), Port(0), 3), Ok(None));
    }

    #[test]
    fn a_frame_to_nobody_or_to_its_sender_goes_nowhere() {
        assert_eq!(receiver(&frame(mac(Port(3)), PROTOCOL_IPV4, 60), Port(0), 3), Err(Refusal::Nobody));
        assert_eq!(receiver(&frame(mac(Port(1)), PROTOCOL_IPV4, 60), Port(1), 3), Err(Refusal::Nobody));
        assert_eq!(receiver(&frame([2; 6], PROTOCOL_IPV4, 60), Port(1), 3), Err(Refusal::Nobody));
    }

    #[test]
    fn frames_of_other_protocols_and_lengths_go_nowhere() {
        let to = mac(Port(1));
        assert_eq!(receiver(&frame(to, 0x86dd, 60), Port(0), 3), Err(Refusal::Protocol));
        assert_eq!(receiver(&frame(to, PROTOCOL_IPV4, HEADER_BYTES - 1), Port(0), 3), Err(Refusal::TooShort));
        assert_eq!(receiver(&frame(to, PROTOCOL_IPV4, HEADER_BYTES), Port(0), 3), Ok(Some(Port(1))));
        assert_eq!(receiver(&frame(to, PROTOCOL_IPV4, FRAME_BYTES_MAX), Port(0), 3), Ok(Some(Port(1))));
        assert_eq!(receiver(&frame(to, PROTOCOL_IPV4, FRAME_BYTES_MAX + 1), Port(0), 3), Err(Refusal::TooLong));
        assert_eq!(receiver(&[], Port(0), 3), Err(Refusal::TooShort));
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_only_others_of_the_lab_receive(
            bytes in proptest::collection::vec(any::<u8>(), 0..1600),
            begin in proptest::option::of(0u16..5),
            from in 0u32..4,
        ) {
            let mut bytes = bytes;
            if let Some(port) = begin.filter(|_| bytes.len() >= HEADER_BYTES) {
                bytes[..6].copy_from_slice(&mac(Port(u32::from(port))));
                bytes[12..14].copy_from_slice(&PROTOCOL_IPV4.to_be_bytes());
            }
            if let Ok(Some(to)) = receiver(&bytes, Port(from), 4) {
                prop_assert!(to.0 < 4 && to != Port(from));
                prop_assert!((HEADER_BYTES..=FRAME_BYTES_MAX).contains(&bytes.len()));
            }
        }
    }
}

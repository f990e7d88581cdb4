//! The handshake against scripted servers: what it sends, accepts and refuses.

use super::*;
use proptest::prelude::*;

/// Returns the scripted bytes one at a time, and records what was sent.
struct Script {
    from_server: Vec<u8>,
    at: usize,
    from_client: Vec<u8>,
}

impl Read for Script {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match (self.from_server.get(self.at), buf.first_mut()) {
            (Some(&byte), Some(into)) => {
                *into = byte;
                self.at += 1;
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

impl Write for Script {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.from_client.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn greeting(flags: u16) -> Vec<u8> {
    [&b"NBDMAGICIHAVEOPT"[..], &flags.to_be_bytes()].concat()
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut reply = p::OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for number in [option, kind, data.len() as u32] {
        reply.extend_from_slice(&number.to_be_bytes());
    }
    [reply, data.to_vec()].concat()
}

fn export_info(size_bytes: u64, flags: u16) -> Vec<u8> {
    let data = [&p::INFO_EXPORT.to_be_bytes()[..], &size_bytes.to_be_bytes(), &flags.to_be_bytes()].concat();
    option_reply(p::OPT_GO, p::REP_INFO, &data)
}

fn block_info(min: u32, preferred: u32, max: u32) -> Vec<u8> {
    let mut data = p::INFO_BLOCK_SIZE.to_be_bytes().to_vec();
    for number in [min, preferred, max] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    option_reply(p::OPT_GO, p::REP_INFO, &data)
}

fn ack(option: u32) -> Vec<u8> {
    option_reply(option, p::REP_ACK, &[])
}

fn shake(parts: &[Vec<u8>], structured: bool) -> (Result<Export, HandshakeError>, Vec<u8>) {
    let mut script = Script { from_server: parts.concat(), at: 0, from_client: Vec::new() };
    let result = handshake(&mut script, "volume", structured);
    (result, script.from_client)
}

fn complaint(parts: &[Vec<u8>]) -> String {
    shake(parts, false).0.expect_err("a bad server").to_string()
}

#[test]
fn an_export_is_agreed_on() {
    let (export, sent) = shake(&[greeting(3), export_info(1 << 40, 0x65), ack(p::OPT_GO)], false);
    let export = export.unwrap();
    assert_eq!((export.size_bytes, export.flags), (1 << 40, 0x65));
    assert_eq!((export.block_bytes_min, export.block_bytes_preferred, export.block_bytes_max), (1, 4096, 32 << 20));
    let go = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 7, 0, 0, 0, 14], &[0, 0, 0, 6], b"volume", &[0, 1, 0, 3]];
    assert_eq!(sent, go.concat());
}

#[test]
fn block_sizes_and_structured_replies_are_taken_over() {
    let parts = [greeting(3), ack(8), block_info(512, 4096, 1 << 20), export_info(4096, 1), ack(p::OPT_GO)];
    let export = shake(&parts, true).0.unwrap();
    assert!(export.structured_replies);
    assert_eq!((export.block_bytes_min, export.block_bytes_preferred, export.block_bytes_max), (512, 4096, 1 << 20));
}

#[test]
fn a_server_without_structured_replies_is_used_without() {
    let refusal = option_reply(8, p::REP_FLAG_ERROR | 1, b"what?");
    let (export, _) = shake(&[greeting(3), refusal, export_info(1, 1), ack(p::OPT_GO)], true);
    assert!(!export.unwrap().structured_replies);
}

#[test]
fn only_offered_handshake_flags_are_answered() {
    let (export, sent) = shake(&[greeting(1), export_info(1, 1), ack(p::OPT_GO)], false);
    assert!(export.is_ok());
    assert_eq!(sent[..4], [0, 0, 0, 1]);
}

#[test]
fn flags_without_has_flags_mean_nothing() {
    let (export, _) = shake(&[greeting(3), export_info(1, 0xfffe), ack(p::OPT_GO)], false);
    assert_eq!(export.unwrap().flags, 0);
}

#[test]
fn sizes_up_to_8_eib_are_taken_and_larger_ones_not() {
    let with = |size| shake(&[greeting(3), export_info(size, 1), ack(p::OPT_GO)], false).0;
    assert_eq!(with(0).unwrap().size_bytes, 0);
    assert_eq!(with(i64::MAX as u64).unwrap().size_bytes, i64::MAX as u64);
    assert!(with(1 << 63).unwrap_err().to_string().contains("8 EiB"));
}

#[test]
fn what_is_not_nbd_is_named() {
    assert!(complaint(&[b"HTTP/1.1 400 Bad".to_vec()]).contains("HTTP/1.1"));
    let old = [&b"NBDMAGIC"[..], &MAGIC_OLDSTYLE.to_be_bytes(), &[0; 136]].concat();
    assert!(complaint(&[old]).contains("oldstyle"));
    assert!(complaint(&[b"NBDMAGICNBDMAGIC\0\x03".to_vec()]).contains("IHAVEOPT"));
    assert!(complaint(&[greeting(2)]).contains("fixed newstyle"));
}

#[test]
fn a_servers_refusal_and_its_words_are_passed_on() {
    for (number, part) in
        [(1, "newer"), (2, "policy"), (5, "TLS"), (6, "no such export"), (7, "shutting"), (99, "unknown")]
    {
        let refusal = option_reply(p::OPT_GO, p::REP_FLAG_ERROR | number, b"try\x1b 'backup'");
        let error = shake(&[greeting(3), refusal], false).0.unwrap_err();
        let HandshakeError::Refused { what, reason } = error else { panic!("{error}") };
        assert_eq!(what, "the export 'volume'");
        assert!(reason.contains(part) && reason.contains("\"try 'backup'\""), "{reason}");
    }
}

#[test]
fn replies_that_make_no_sense_are_refused() {
    let go = p::OPT_GO;
    let mut huge = option_reply(go, p::REP_INFO, &[]);
    huge[16..20].copy_from_slice(&16_385u32.to_be_bytes());
    for (reply, part) in [
        (ack(go), "without saying its size"),
        (ack(8), "replied to option 8"),
        (huge, "16385 bytes"),
        (vec![7; 20], "begins with 0x0707070707070707"),
        (option_reply(go, 77, &[]), "type 77"),
        (option_reply(go, p::REP_INFO, &[0]), "no type"),
        (option_reply(go, p::REP_INFO, &[0, 0, 1]), "wrong length"),
        (option_reply(go, p::REP_INFO, &[0, 3, 1]), "wrong length"),
        (block_info(0, 4096, 4096), "block sizes"),
        (block_info(3, 4096, 4096), "block sizes"),
        (block_info(4096, 512, 4096), "block sizes"),
        (block_info(4096, 4096, 512), "block sizes"),
    ] {
        let text = complaint(&[greeting(3), reply]);
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_longest_allowed_reply_is_taken() {
    let name = option_reply(p::OPT_GO, p::REP_INFO, &[1; OPTION_REPLY_BYTES_MAX as usize]);
    assert!(shake(&[greeting(3), name, export_info(1, 1), ack(p::OPT_GO)], false).0.is_ok());
}

#[test]
fn information_without_end_ends() {
    let unknown = option_reply(p::OPT_GO, p::REP_INFO, &[0, 9]);
    let with = |count: usize| {
        let mut parts = vec![greeting(3)];
        parts.extend(std::iter::repeat_n(unknown.clone(), count));
        parts.extend([export_info(1, 1), ack(p::OPT_GO)]);
        shake(&parts, false).0
    };
    assert!(with(OPTION_REPLIES_MAX - 2).is_ok());
    assert!(with(OPTION_REPLIES_MAX - 1).unwrap_err().to_string().contains("more than 64"));
}

#[test]
fn a_server_that_closes_anywhere_is_an_error() {
    let whole = [greeting(3), ack(8), export_info(1, 1), ack(p::OPT_GO)].concat();
    for end in 0..whole.len() {
        let error = shake(&[whole[..end].to_vec()], true).0.expect_err("it closed early");
        assert!(matches!(&error, HandshakeError::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof), "{end}: {error}");
    }
    assert!(shake(&[whole], true).0.is_ok());
}

proptest! {
    #[test]
    fn no_server_makes_the_handshake_panic(noise in prop::collection::vec(any::<u8>(), 0..200), kind in 0u32..12, at in 0usize..80, structured: bool) {
        let mut bytes = [greeting(3), option_reply(p::OPT_GO, kind, &noise), noise].concat();
        let _ = shake(&[bytes.clone()], structured);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 0x55;
        }
        let _ = shake(&[bytes], structured);
    }
}

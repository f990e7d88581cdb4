//! Whatever a peer sends, nothing panics and everything reserved is given back.

use super::streams::{hear, streams};
use super::*;
use crate::nbd::client::{ReplyHeader, decode_error_chunk};
use proptest::prelude::*;

/// Like [`hear`], for a session that is already open.
fn hear_open(stream: &[u8], structured: bool) {
    let mut open = (FLAG_C_FIXED_NEWSTYLE).to_be_bytes().to_vec();
    if structured {
        open.extend(option(OPT_STRUCTURED_REPLY, &[]));
    }
    open.extend(option(OPT_EXPORT_NAME, b"disk"));
    open.extend_from_slice(stream);
    assert_eq!(hear(&open, &[4000]).opened, Some(0));
}

proptest! {
    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        hear(&bytes, &[400]);
        let mut haggling = FLAG_C_FIXED_NEWSTYLE.to_be_bytes().to_vec();
        haggling.extend_from_slice(&bytes);
        hear(&haggling, &[400]);
        hear_open(&bytes, true);
        let _ = ReplyHeader::decode(&bytes);
        let _ = decode_error_chunk(&bytes);
    }

    #[test]
    fn random_fields_behind_right_magics_are_survived(parts in prop::collection::vec(any::<[u8; 24]>(), 0..50), structured: bool) {
        let mut requests = Vec::new();
        let mut options = FLAG_C_FIXED_NEWSTYLE.to_be_bytes().to_vec();
        for part in &parts {
            requests.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
            requests.extend_from_slice(part);
            options.extend(option(u32::from(part[0] % 14), &part[1..]));
        }
        hear_open(&requests, structured);
        hear(&options, &[7]);
    }

    #[test]
    fn mutated_streams_are_survived(
        mut stream in streams(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..10),
        cut in any::<prop::sample::Index>(),
    ) {
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        stream.truncate(cut.index(stream.len()) + 1);
        hear(&stream, &[10_000]);
    }

    #[test]
    fn a_client_survives_any_server(bytes in prop::collection::vec(any::<u8>(), 0..200), structured: bool, greeted: bool, fields in prop::collection::vec((0u32..12, 0u32..8, any::<bool>(), 0u32..40), 0..6)) {
        let mut stream = Vec::new();
        if greeted {
            stream.extend_from_slice(b"NBDMAGICIHAVEOPT\0\x03");
        }
        for (option, kind, error, len) in fields {
            stream.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
            let kind = if error { kind | REP_FLAG_ERROR } else { kind };
            [option, kind, len].iter().for_each(|n| stream.extend_from_slice(&n.to_be_bytes()));
            stream.extend_from_slice(&bytes[..bytes.len().min(len as usize)]);
        }
        stream.extend_from_slice(&bytes);
        let mut client = ClientHandshake::new("disk", structured).unwrap();
        let (mut rx, mut out) = (RxBuf::new(), OutQueue::new());
        for piece in stream.chunks(13) {
            rx.extend(piece);
            if !matches!(client.next(&mut rx, &mut out), Ok(None)) {
                break;
            }
        }
    }
}

//! Wire frames: whatever is decoded stays within its limits, and encodes to something that decodes to the same.

use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::batch::{BATCH_HEADER_BYTES, GROUP_HEADER_BYTES, WirePiece, decode_batch, encode_batch};
use flashmob_core::wire::condition::{REASON_BYTES_MAX, decode_alive, decode_condition, put_alive, put_condition};
use flashmob_core::wire::digest::is_whole_blocks;
use flashmob_core::wire::frame::{encode_frame, seal_frame};
use flashmob_core::wire::hello::{CHARGE_NUMBER_MAX, Hello, Refuse, Welcome};
use flashmob_core::wire::map::{MAP_BYTES, Map, MapWriter};
use flashmob_core::wire::mirror::{MIRROR_BYTES_MAX, MIRROR_FRAME_BYTES_MAX, MirrorPut, PutMirror, Recall, Recalled};
use flashmob_core::wire::replies::{RepliesDecoder, RepliesEncoder};
use flashmob_core::wire::service::{decode_service, put_service};
use flashmob_core::wire::trace::{FOLLOWED_MAX, TIMES_MAX, TimesDecoder, followed, is_followed, mark, put_times};
use flashmob_core::wire::{
    BATCH_PIECES_MAX, Decoded, Frame, FrameKind, HEADER_BYTES, META_BYTES_MAX, PAYLOAD_BYTES_MAX, PIECE_BYTES_MAX,
    decode_frame,
};

use crate::bytes::Choices;

/// The longest text that is written; longer ones are read.
const TEXT_BYTES_MAX: usize = 255;

/// One byte says what the rest is: bytes from a socket, or the meta of one kind of frame.
pub fn run(data: &[u8]) {
    let mut choices = Choices(data);
    match choices.below(11) {
        0 => stream(choices.0),
        1 => {
            let payload_len = choices.u32() as usize % (PAYLOAD_BYTES_MAX + 2);
            batch(choices.0, payload_len);
        }
        2 => replies(choices.0),
        3 => hello(choices.0),
        4 => welcome(choices.0),
        5 => refuse(choices.0),
        7 => times(choices.0),
        8 => condition(choices.0),
        9 => alive(choices.0),
        10 => {
            let len_bytes = choices.u32();
            map(choices.0, len_bytes);
        }
        _ => sealed(&mut choices),
    }
}

/// A map of holes covers a part of its range, and is the same when it is written again.
fn map(bytes: &[u8], len_bytes: u32) {
    let Ok(map) = Map::decode(bytes, len_bytes) else { return };
    let covered: u64 = map.runs().map(|(len, _)| u64::from(len)).sum();
    assert!(covered > 0 && covered <= u64::from(len_bytes));
    let mut again = [0; MAP_BYTES];
    let mut writer = MapWriter::new(&mut again);
    assert!(map.runs().all(|(len, is_hole)| writer.push(len, is_hole)));
    assert_eq!(again, bytes);
}

/// The frame that a message of any kind encodes to.
fn meta_of(bytes: &[u8]) -> &[u8] {
    match decode_frame(bytes) {
        Ok(Decoded::Frame(frame, taken)) if taken == bytes.len() => frame.meta,
        other => panic!("an encoded frame is decoded as {other:?}"),
    }
}

/// Frames one after the other, as from a socket.
fn stream(mut bytes: &[u8]) {
    loop {
        match decode_frame(bytes) {
            Ok(Decoded::NeedMore(total)) => {
                assert!(total > bytes.len() && total <= HEADER_BYTES + META_BYTES_MAX + PAYLOAD_BYTES_MAX);
                return;
            }
            Ok(Decoded::Frame(frame, taken)) => {
                frame_again(&frame, &bytes[..taken]);
                contents(&frame);
                bytes = &bytes[taken..];
            }
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
}

fn frame_again(frame: &Frame<'_>, bytes: &[u8]) {
    assert_eq!(HEADER_BYTES + frame.meta.len() + frame.payload.len(), bytes.len());
    let mut again = Vec::new();
    encode_frame(
        &mut again,
        frame.kind,
        |meta| meta.extend_from_slice(frame.meta),
        |payload| payload.extend_from_slice(frame.payload),
    );
    assert_eq!(decode_frame(&again), Ok(Decoded::Frame(*frame, bytes.len())));
    // Without payload its checksum is free, and the other covers it.
    if !frame.payload.is_empty() {
        assert_eq!(again, bytes);
    }
    for cut in [0, 1, HEADER_BYTES - 1, HEADER_BYTES, bytes.len() - 1] {
        assert!(matches!(decode_frame(&bytes[..cut.min(bytes.len() - 1)]), Ok(Decoded::NeedMore(_))));
    }
}

/// A frame whose checksums are right, with any meta and payload.
fn sealed(choices: &mut Choices<'_>) {
    let kind = choices.one_of(&FrameKind::ALL);
    let meta_len = usize::from(choices.u16());
    let mut frame = vec![0; HEADER_BYTES];
    frame.extend_from_slice(choices.0);
    let meta_len = meta_len.min(choices.0.len());
    seal_frame(&mut frame, kind, meta_len);
    stream(&frame);
}

fn contents(frame: &Frame<'_>) {
    match frame.kind {
        FrameKind::Hello => hello(frame.meta),
        FrameKind::Welcome => welcome(frame.meta),
        FrameKind::Refuse => refuse(frame.meta),
        FrameKind::Batch => batch(frame.meta, frame.payload.len()),
        FrameKind::Replies => replies(frame.meta),
        FrameKind::Error => {}
        FrameKind::Times => times(frame.meta),
        FrameKind::Condition => condition(frame.meta),
        FrameKind::Alive => alive(frame.meta),
        FrameKind::Service => service(frame.meta),
        FrameKind::PutMirror => put_mirror(frame.meta, frame.payload),
        FrameKind::MirrorPut => mirror_put(frame.meta),
        FrameKind::Recall => recall(frame.meta),
        FrameKind::Recalled => recalled(frame.meta, frame.payload),
    }
}

fn service(meta: &[u8]) {
    let Ok(service) = decode_service(meta) else { return };
    let mut again = Vec::new();
    put_service(&mut again, &service);
    assert_eq!(decode_service(meta_of(&again)), Ok(service));
}

fn batch(meta: &[u8], payload_len: usize) {
    let mut pieces = Vec::new();
    let Ok(seq) = decode_batch(meta, payload_len, &mut pieces) else { return };
    assert!((1..=BATCH_PIECES_MAX).contains(&pieces.len()));
    assert!(pieces.iter().all(|p| p.reply_bytes().max(p.payload_bytes()) <= PIECE_BYTES_MAX));
    assert!(pieces.iter().all(|p| p.offset_bytes + u64::from(p.len_bytes) <= i64::MAX as u64));
    let mut digests = pieces.iter().filter(|p| p.op == Op::Digest);
    assert!(digests.all(|p| is_whole_blocks(p.offset_bytes, p.len_bytes) && p.len_bytes <= PIECE_BYTES_MAX));
    let mut marks = pieces.iter().filter(|p| p.flags.marks_unreadable(p.op));
    assert!(marks.all(|p| is_whole_blocks(p.offset_bytes, p.len_bytes)));
    let sum = |bytes: fn(&WirePiece) -> u32| pieces.iter().map(|p| bytes(p) as usize).sum::<usize>();
    assert_eq!(sum(WirePiece::payload_bytes), payload_len);
    assert!(sum(WirePiece::reply_bytes) <= PAYLOAD_BYTES_MAX);
    if payload_len > PAYLOAD_BYTES_MAX {
        return;
    }
    let mut again = Vec::new();
    encode_batch(&mut again, seq, &pieces, |payload| payload.resize(payload.len() + payload_len, 7));
    // At most a group for each piece, and 8 + 4 bytes of distance and length.
    let most = HEADER_BYTES + BATCH_HEADER_BYTES + pieces.len() * (GROUP_HEADER_BYTES + 12) + payload_len;
    assert!(again.len() <= most);
    let mut decoded = Vec::new();
    assert_eq!(decode_batch(meta_of(&again), payload_len, &mut decoded), Ok(seq));
    assert_eq!(decoded, pieces);
    let marked: Vec<u16> = followed(meta).collect();
    assert_eq!(is_followed(meta), !marked.is_empty());
    assert!(marked.len() <= FOLLOWED_MAX && marked.windows(2).all(|w| w[0] < w[1]));
    assert!(marked.iter().all(|&index| usize::from(index) < pieces.len()));
    let mut again = meta_of(&again).to_vec();
    mark(&mut again, &marked);
    assert_eq!(decode_batch(&again, payload_len, &mut decoded), Ok(seq));
    assert_eq!(followed(&again).collect::<Vec<_>>(), marked);
}

type Answer = (u32, u16, Result<(), Failure>, u32);

fn decoded_answers(meta: &[u8]) -> Option<Vec<Vec<Answer>>> {
    let mut decoder = RepliesDecoder::new(meta).ok()?;
    let mut runs = Vec::new();
    while let Some(run) = decoder.next_run().ok()? {
        assert!(usize::from(run.first) + usize::from(run.span) <= BATCH_PIECES_MAX);
        let answers: Vec<Answer> = run.indices().map(|index| (run.seq, index, run.outcome, run.node_time_us)).collect();
        assert!(answers.iter().all(|a| (run.first..run.first + run.span).contains(&a.1)));
        assert!(answers.windows(2).all(|w| w[0].1 < w[1].1), "indices ascend");
        assert!(!run.is_dense() || answers.len() == usize::from(run.span));
        runs.push(answers);
    }
    Some(runs)
}

fn replies(meta: &[u8]) {
    let Some(runs) = decoded_answers(meta) else { return };
    let mut encoder = RepliesEncoder::default();
    encoder.clear();
    let mut written = Vec::new();
    for answers in runs {
        let Some(&(seq, _, outcome, node_time_us)) = answers.first() else { continue };
        if !encoder.has_room_for(answers.len()) {
            break;
        }
        let indices: Vec<u16> = answers.iter().map(|a| a.1).collect();
        encoder.push(seq, &indices, outcome, node_time_us);
        written.extend(answers);
    }
    if encoder.is_empty() {
        return;
    }
    let again = encoder.finish();
    assert!(again.len() <= META_BYTES_MAX);
    assert_eq!(decoded_answers(again).map(|runs| runs.concat()), Some(written));
}

fn times(meta: &[u8]) {
    let Ok(mut decoder) = TimesDecoder::new(meta) else { return };
    let mut pieces = Vec::new();
    loop {
        match decoder.next_piece() {
            Ok(Some(piece)) => {
                assert!(piece.stages_ns().is_sorted() && usize::from(piece.index) < BATCH_PIECES_MAX);
                pieces.push(piece);
            }
            Ok(None) => break,
            Err(_) => return,
        }
    }
    assert!((1..=TIMES_MAX).contains(&pieces.len()));
    let mut again = Vec::new();
    put_times(&mut again, &pieces);
    assert_eq!(meta_of(&again), meta);
}

fn condition(meta: &[u8]) {
    let Ok(condition) = decode_condition(meta) else { return };
    assert!(condition.battery_percent.is_none_or(|percent| percent <= 100));
    assert!(
        condition.last_pause.as_ref().is_none_or(|pause| pause.lasted_ms > 0 && pause.reason.len() <= REASON_BYTES_MAX)
    );
    assert!(!condition.is_news_after(&condition));
    let _ = (condition.warnings(), condition.circumstances());
    let mut again = Vec::new();
    put_condition(&mut again, &condition);
    assert_eq!(meta_of(&again), meta);
}

fn alive(meta: &[u8]) {
    let Ok(alive) = decode_alive(meta) else { return };
    let mut again = Vec::new();
    put_alive(&mut again, alive);
    assert_eq!(meta_of(&again), meta);
}

fn put_mirror(meta: &[u8], payload: &[u8]) {
    let Ok(put) = PutMirror::decode(meta, payload.len()) else { return };
    assert!(put.offset_bytes + payload.len() as u64 <= MIRROR_BYTES_MAX && payload.len() <= MIRROR_FRAME_BYTES_MAX);
    let mut again = Vec::new();
    put.encode(&mut again, payload);
    assert_eq!(meta_of(&again), meta);
}

fn mirror_put(meta: &[u8]) {
    let Ok(put) = MirrorPut::decode(meta) else { return };
    let mut again = Vec::new();
    put.encode(&mut again);
    assert_eq!(meta_of(&again), meta);
}

fn recall(meta: &[u8]) {
    let Ok(recall) = Recall::decode(meta) else { return };
    let mut again = Vec::new();
    recall.encode(&mut again);
    assert_eq!(meta_of(&again), meta);
}

fn recalled(meta: &[u8], payload: &[u8]) {
    let Ok(recalled) = Recalled::decode(meta, payload.len()) else { return };
    let mut again = Vec::new();
    recalled.encode(&mut again, payload);
    let is_long = recalled.volume.as_ref().is_some_and(|(volume, _)| volume.len() > TEXT_BYTES_MAX);
    // Without a volume its extent has no number.
    if recalled.volume.is_some() && !is_long {
        assert_eq!(meta_of(&again), meta);
    }
}

fn hello(meta: &[u8]) {
    let Ok(hello) = Hello::decode(meta) else { return };
    assert!(hello.extent < hello.extents && !hello.volume_id.is_empty());
    assert!(hello.charge.is_none_or(|charge| charge.epoch.max(charge.version) <= CHARGE_NUMBER_MAX));
    let mut again = Vec::new();
    hello.encode(&mut again);
    if hello.volume_id.len().max(hello.layout.len()) <= TEXT_BYTES_MAX {
        assert_eq!(meta_of(&again), meta);
    }
}

fn welcome(meta: &[u8]) {
    let Ok(welcome) = Welcome::decode(meta) else { return };
    let mut again = Vec::new();
    welcome.encode(&mut again);
    assert_eq!(meta_of(&again), meta);
}

fn refuse(meta: &[u8]) {
    let Ok(refuse) = Refuse::decode(meta) else { return };
    let mut again = Vec::new();
    refuse.encode(&mut again);
    if refuse.text.len() <= TEXT_BYTES_MAX {
        assert_eq!(meta_of(&again), meta);
    }
}

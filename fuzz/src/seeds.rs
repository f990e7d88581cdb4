//! Inputs that reach deep, written by the real encoders, so that they stay true when formats change.

use std::time::Duration;

use flashmob_bench::net::protocol::Cookie;
use flashmob_bench::net::protocol::datagram::Header;
use flashmob_core::buckets::Buckets;
use flashmob_core::condition::{Condition, LastPause};
use flashmob_core::nbd::protocol::*;
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::wire::HEADER_BYTES;
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::condition::{Alive, put_alive, put_condition};
use flashmob_core::wire::digest::unreadable_payload;
use flashmob_core::wire::frame::{FrameKind, encode_error, encode_frame};
use flashmob_core::wire::hello::{Charge, FromLinear, Hello, Refuse, RefuseReason, Welcome};
use flashmob_core::wire::mirror::{MirrorPut, MirrorState, PutMirror, Recall, Recalled};
use flashmob_core::wire::replies::RepliesEncoder;
use flashmob_core::wire::service::{Service, put_service};
use flashmob_core::wire::trace::{PieceTimes, Way, mark, put_times};

use crate::nbd_client::{go_data, opening, option};
use crate::node_host::VOLUME_ID;

/// Names and bytes of a target's seeds.
#[must_use]
pub fn seeds(target: &str) -> Vec<(&'static str, Vec<u8>)> {
    match target {
        "nbd_handshake" => handshakes(),
        "nbd_requests" => requests(),
        "node_frames" => node_frames(),
        "gateway_frames" => gateway_frames(),
        "wire_decode" => wire(),
        "config" => configs(),
        "air_profile" => airs(),
        "capture" => crate::capture::seeds(),
        "doctor_undo" => crate::doctor::seeds(),
        "enroll" => crate::enroll::seeds(),
        "etcd" => crate::etcd::seeds(),
        "heard" => crate::heard::seeds(),
        "iperf3" => iperf3(),
        "keys" => crate::keys::seeds(),
        "admin_host" => crate::admin_host::seeds(),
        "map_log" => crate::map_log::seeds(),
        "map_chain" => crate::map_chain::seeds(),
        "mirror" => crate::mirror::seeds(),
        "scrub_file" => crate::scrub_file::seeds(),
        "sums_file" => crate::sums_file::seeds(),
        "trace_format" => crate::trace::format_seeds(),
        "trace_page" => crate::trace::page_seeds(),
        _ => Vec::new(),
    }
}

/// Parameters, results, datagrams, beginnings: the first byte says which.
fn iperf3() -> Vec<(&'static str, Vec<u8>)> {
    let parameters = |text: &str| [&[0][..], text.as_bytes()].concat();
    let results = |text: &str| [&[1][..], text.as_bytes()].concat();
    let header = |number: u64| {
        let mut bytes = vec![0; 17];
        Header { sent: Duration::from_micros(1000 * (number % 1000)), number }.write(&mut bytes, true);
        bytes
    };
    vec![
        (
            "tcp",
            parameters(concat!(
                r#"{"tcp":true,"omit":0,"time":0,"num":307200,"blockcount":0,"parallel":2,"bidirectional":true,"#,
                r#""window":102400,"len":131072,"pacing_timer":1000,"congestion":"cubic","client_version":"3.12"}"#
            )),
        ),
        (
            "udp",
            parameters(concat!(
                r#"{"udp":true,"omit":1,"time":1,"parallel":1,"reverse":true,"len":1460,"bandwidth":1e7,"#,
                r#""udp_counters_64bit":1,"MSS":1000,"nodelay":true}"#
            )),
        ),
        (
            "messages",
            parameters(
                r#"{"tcp":true,"flashmob":{"version":1,"messages":{"request_bytes":40,"answer_bytes":4096,"depth":32}}}"#,
            ),
        ),
        (
            "results",
            results(concat!(
                r#"{"cpu_util_total":5.4,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","streams":"#,
                r#"[{"id":1,"bytes":1245184,"retransmits":-1,"jitter":0.1,"errors":2,"packets":77,"start_time":0,"end_time":1}],"#,
                r#""flashmob":{"version":"0.1.0","streams":[{"tcp":null,"out_of_order":3,"answer_bytes":0}]}}"#
            )),
        ),
        ("datagrams", [vec![2], header(1), header(4), header(2), header(u64::MAX)].concat()),
        ("hello", b"\x039876".to_vec()),
        ("cookie", [&[3][..], Cookie::new([9; 36]).bytes()].concat()),
    ]
}

fn handshakes() -> Vec<(&'static str, Vec<u8>)> {
    let flags = |bits: u32| bits.to_be_bytes().to_vec();
    let haggling = [
        flags(FLAG_C_FIXED_NEWSTYLE),
        option(OPT_LIST, &[]),
        option(OPT_INFO, &go_data("disk", &[INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE])),
        option(OPT_STARTTLS, &[]),
        option(OPT_LIST_META_CONTEXT, b"\0\0\0\x04pool\0\0\0\0"),
        option(OPT_GO, &go_data("late", &[])),
        option(OPT_STRUCTURED_REPLY, &[]),
        option(OPT_GO, &go_data("pool", &[INFO_BLOCK_SIZE])),
    ];
    let request = RequestHeader { flags: 0, command: CMD_READ, cookie: 1, offset_bytes: 0, len_bytes: 512 };
    let allocation = [&b"\0\0\0\x04pool\0\0\0\x01\0\0\0\x0f"[..], CONTEXT_ALLOCATION.as_bytes()].concat();
    let mapping = [
        flags(3),
        option(OPT_STRUCTURED_REPLY, &[]),
        option(OPT_SET_META_CONTEXT, &allocation),
        option(OPT_GO, &go_data("pool", &[])),
        RequestHeader { command: CMD_BLOCK_STATUS, ..request }.encode().to_vec(),
    ];
    vec![
        ("mapping", with_control(3, 4, &mapping.concat())),
        ("go", with_control(3, 0, &opening("pool", true))),
        ("haggling", with_control(3, 7, &haggling.concat())),
        ("export_name", with_control(2, 1, &[flags(3), option(OPT_EXPORT_NAME, b"disk")].concat())),
        ("oldstyle_zeroes", with_control(2, 2, &[flags(1), option(OPT_EXPORT_NAME, b""), vec![0; 30]].concat())),
        ("abort", with_control(0, 3, &[flags(3), option(OPT_ABORT, &[])].concat())),
        ("go_and_read", with_control(0, 9, &[opening("", false), request.encode().to_vec()].concat())),
    ]
}

fn with_control(control: u8, chunks: u8, stream: &[u8]) -> Vec<u8> {
    [&[control, chunks][..], stream].concat()
}

fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let header = |command, offset_bytes, len_bytes| {
        RequestHeader { flags: 0, command, cookie: u64::from(command), offset_bytes, len_bytes }.encode().to_vec()
    };
    let stream = [
        header(CMD_READ, 0, 4096),
        header(CMD_WRITE, 1, 5),
        b"hello".to_vec(),
        header(CMD_FLUSH, 0, 0),
        header(CMD_TRIM, 4096, 8192),
        header(CMD_WRITE_ZEROES, 100, 1 << 20),
        header(CMD_READ, 1 << 20, 4),
        header(CMD_CACHE, 0, 1),
        header(CMD_DISC, 0, 0),
    ]
    .concat();
    // Choices of requests: command, flags, nudge, length, offset and their values, payload, damage.
    let made: Vec<u8> = (0..12u8)
        .flat_map(|n| {
            let payload: &[u8] = if n % 10 == 1 { &[3, 1, 2, 3] } else { &[] };
            [&[n, n * 20, n.wrapping_neg(), 3 + n % 5, n * 7, n, 3, n, 0, 0, 0][..], payload, &[0]].concat()
        })
        .collect();
    vec![
        ("simple", with_control(16, 0, &stream)),
        ("structured", with_control(16 | 8 | 2, 5, &stream)),
        ("read_only", with_control(16 | 4, 0, &stream)),
        ("made", with_control(0, 0, &made)),
        ("made_prompt", with_control(3 | 8, 77, &made)),
    ]
}

fn read(offset_bytes: u64, len_bytes: u32) -> WirePiece {
    WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes, len_bytes }
}

fn hello() -> Vec<u8> {
    hello_with(None)
}

fn hello_with(charge: Option<Charge>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Hello {
        gateway_id: [1; 16],
        session: 7,
        link: 0,
        keeps_alive: true,
        hears_progress: true,
        keeps_mirror: true,
        knows_marks: false,
        asks_age: false,
        hears_service: true,
        attempt: 1,
        volume_id: VOLUME_ID.to_string(),
        extent: 0,
        extents: 1,
        layout: "linear".to_string(),
        size_bytes: 0,
        charge,
        seen: charge.map(|charge| (charge.epoch, 1)),
        from_linear: charge.map(|_| FromLinear { extent_id: [3; 16], extents: 2 }),
    }
    .encode(&mut bytes);
    bytes
}

fn mixed_batch(seq: u32) -> Vec<u8> {
    let change = |op, offset_bytes, len_bytes| WirePiece { op, flags: OpFlags::FUA, offset_bytes, len_bytes };
    let pieces = [
        read(0, 1),
        read(70_000, 1),
        read(5, 4096),
        change(Op::Write, 100, 6),
        change(Op::Trim, 4096, 4096),
        change(Op::WriteZeroes, 90, 20),
        WirePiece { op: Op::Flush, flags: OpFlags::NONE, offset_bytes: 0, len_bytes: 0 },
        read(95, 10),
    ];
    let mut bytes = Vec::new();
    encode_batch(&mut bytes, seq, &pieces, |out| out.extend_from_slice(b"abcdef"));
    bytes
}

fn node_frames() -> Vec<(&'static str, Vec<u8>)> {
    // Each action: its number, which connection, what it needs.
    let say_hello = [3, 0, 0, 1, 0];
    let raw = |bytes: &[u8]| [&[2, 0, bytes.len() as u8][..], bytes].concat();
    let reads = [5, 0, 2, 0x41, 9, 0, 0, 0, 0x80, 1, 1, 7, 0, 0, 0, 0x40, 1, 0, 0, 0, 1, 0];
    let changes = [5, 0, 3, 0x42, 9, 0, 0, 0, 0x43, 8, 0, 0, 0, 0x44, 7, 0, 0, 0, 0x45, 0, 0, 0, 0, 7, 0];
    let (turn, complete, answers) = ([14, 0], [10, 0, 3], [13, 0]);
    let script =
        [&say_hello[..], &reads, &changes, &turn, &complete, &turn, &answers, &complete, &reads, &turn].concat();
    let again = [&[0][..], &[3, 1, 0, 2, 0], &turn, &complete, &answers].concat();
    // Of two blocks, and of as many as a piece may have.
    let digests = [5, 0, 1, 0xc1, 1, 0, 0, 0x20, 0, 0, 0xc7, 0x3f, 0, 0, 0, 0, 0, 0, 0];
    // Two gateways: epoch 1, then 2; then the first again.
    let in_charge = |conn: u8, attempt: u8, which: u8, epoch: u8| [3, conn, 0x40 | which, attempt, which, epoch, 0];
    let deposed = [
        &[0][..],
        &in_charge(0, 1, 0, 1),
        &changes,
        &[0, 0],
        &in_charge(1, 1, 1, 2),
        &[14, 0],
        &[10, 0, 3],
        &[10, 0, 3],
        &[13, 1],
        &[5, 1, 3, 0x42, 9, 0, 0, 0, 0x43, 8, 0, 0, 0, 0x44, 7, 0, 0, 0, 0x45, 0, 0, 0, 0, 7, 0],
        &[0, 0],
        &in_charge(2, 2, 0, 1),
        &[14, 0],
        &[10, 0, 3],
        &[13, 1],
        &[13, 2],
    ];
    vec![
        ("deposed", deposed.concat()),
        ("digests", [&[0][..], &say_hello, &digests, &turn, &complete, &answers].concat()),
        ("reads_and_changes", [&[0][..], &script].concat()),
        ("fast_reads", [&[2 | 2 << 2][..], &script].concat()),
        ("linked_anew", [&[1][..], &script, &again].concat()),
        ("raw", [&[3][..], &raw(&hello()), &raw(&mixed_batch(1)), &turn, &complete, &complete, &answers].concat()),
    ]
}

fn gateway_frames() -> Vec<(&'static str, Vec<u8>)> {
    let links_up: Vec<u8> = (0..4u8).flat_map(|link| [11, link, 0, 0]).collect();
    let read_call = [2, 0, 0x46, 1, 5, 0, 0, 0, 1, 0, 0, 11, 0];
    let write_call = [2, 0, 0x47, 9, 5, 0, 0, 0, 9, 0, 0, 11, 0];
    let flush_call = [2, 0, 2];
    let answers: Vec<u8> = (0..4u8).flat_map(|link| [15, link, 0, 0, 0, 0, 0]).collect();
    let open_nbd = [5, 0, 1];
    let read_nbd = [6, 0, 0, 0, 0, 0, 3, 9, 0, 3, 7, 0, 0, 0, 0];
    let nbd = [&open_nbd[..], &read_nbd, &[8, 0, 0, 0xff]].concat();
    let leave = [9, 0, 0];
    let script = [&links_up[..], &read_call, &write_call, &flush_call, &answers, &answers, &nbd, &answers].concat();
    let breaks = [&[19, 0][..], &[1, 0], &links_up, &answers, &[0, 0, 200]].concat();
    vec![
        ("linear", [&[3][..], &script].concat()),
        ("striped_learned", [&[4][..], &script, &breaks].concat()),
        ("client_leaves", [&[3][..], &links_up, &open_nbd, &read_nbd, &leave].concat()),
        ("followed", [&[3 | 64][..], &script, &breaks, &script].concat()),
        ("one_at_a_time", [&[3 | 2 << 3][..], &script, &breaks, &script].concat()),
    ]
}

fn piece_times(index: u16) -> PieceTimes {
    PieceTimes {
        seq: 9,
        index,
        way: if index == 0 { Way::AtOnce } else { Way::Store },
        received_ns: 1_000,
        scheduled_ns: 1_100,
        started_ns: 2_000,
        finished_ns: 90_000,
        replied_ns: 91_000,
        op_offset_bytes: 4096,
        op_bytes: 8192,
    }
}

fn wire() -> Vec<(&'static str, Vec<u8>)> {
    let mut replies = RepliesEncoder::default();
    replies.clear();
    replies.push(1, &[0, 1, 2, 3], Ok(()), 33);
    replies.push(1, &(0..60).step_by(2).collect::<Vec<u16>>(), Err(Failure::NoSpace), 9);
    let mut replies_frame = Vec::new();
    let data = |out: &mut Vec<u8>| out.extend_from_slice(b"data");
    encode_frame(&mut replies_frame, FrameKind::Replies, |meta| meta.extend_from_slice(replies.finish()), data);
    let (mut welcome, mut refuse, mut error) = (Vec::new(), Vec::new(), Vec::new());
    Welcome {
        extent_id: [4; 16],
        boot_id: [5; 16],
        size_bytes: 1 << 30,
        no_io: true,
        modelled: false,
        keeps_alive: true,
        hello_received_ns: 7,
        welcome_sent_ns: 9,
        remembered: Some((4, 2)),
        mirror: Some(MirrorState { epoch: 3, nonce: 8, version: 1, len_bytes: 500 }),
        knows_marks: false,
        keeps_age: false,
    }
    .encode(&mut welcome);
    Refuse { reason: RefuseReason::Identity, text: "other volume".to_string() }.encode(&mut refuse);
    encode_error(&mut error, "what is this");
    let mut batch = Vec::new();
    encode_batch(&mut batch, 9, &[read(1 << 40, 1), read(3, 70_000), read(9, 1)], |_| ());
    let digest = |offset_bytes, len_bytes| WirePiece { op: Op::Digest, flags: OpFlags::NONE, offset_bytes, len_bytes };
    let mut digests = Vec::new();
    encode_batch(&mut digests, 10, &[digest(0, 4096), digest(1 << 40, 256 << 10), read(5, 5)], |_| ());
    let mut marks = Vec::new();
    let lost = WirePiece { op: Op::Write, flags: OpFlags::UNREADABLE, offset_bytes: 8192, len_bytes: 4096 };
    let expected = WirePiece { flags: OpFlags::EXPECTED, ..digest(4096, 8192) };
    encode_batch(&mut marks, 11, &[lost, expected], |out| out.extend_from_slice(&unreadable_payload(0x1234_5678)));
    let marks_meta = &marks[HEADER_BYTES..marks.len() - 4096];
    let mut times = Vec::new();
    put_times(&mut times, &[piece_times(0), piece_times(2)]);
    let (mut condition, mut alive, mut progress) = (Vec::new(), Vec::new(), Vec::new());
    let last_pause = Some(LastPause { lasted_ms: 312_000, reason: "the device slept".to_string() });
    let told = Condition {
        battery_percent: Some(41),
        charging: Some(false),
        celsius_tenths: Some(315),
        free_bytes: Some(1 << 30),
        disk_id: Some(0x1234_5678_9abc_def0),
        pauses: 1,
        last_pause,
        ..Condition::default()
    };
    put_condition(&mut condition, &told);
    put_alive(&mut alive, Alive::Probe);
    let mut flash = Buckets::default();
    flash.record_n(90_000, 3);
    flash.record_n(2_000_000, 1);
    let served = Service { period_ms: 1000, running_permille: Some(120), at_once: 4, flash, ..Service::default() };
    let mut service = Vec::new();
    put_service(&mut service, &served);
    put_alive(&mut progress, Alive::Progress);
    let mut mirror = Vec::new();
    let state = MirrorState { epoch: 3, nonce: 8, version: 7, len_bytes: 4 };
    PutMirror { offset_bytes: 0, is_new: true, is_last: true, is_durable: true, state }.encode(&mut mirror, b"FMap");
    MirrorPut { state, is_kept: true }.encode(&mut mirror);
    Recall { offset_bytes: 5 }.encode(&mut mirror);
    let (volume, charge) =
        (Some(("pool".to_string(), 2)), Some(Charge { map_id: [6; 16], epoch: 3, nonce: 8, version: 7 }));
    let recalled = Recalled {
        extent_id: [4; 16],
        size_bytes: 1 << 30,
        mirror_bytes: 4,
        volume,
        charge,
        layout: None,
        is_linked: true,
    };
    recalled.encode(&mut mirror, b"FMap");
    let layout = Some(("linear".to_string(), 2));
    Recalled { mirror_bytes: 0, charge: None, layout, ..recalled }.encode(&mut mirror, b"");
    let mut followed_batch = batch[HEADER_BYTES..].to_vec();
    mark(&mut followed_batch, &[0, 2]);
    let meta = |kind: u8, frame: &[u8]| [&[kind], &frame[HEADER_BYTES..]].concat();
    let all = [
        hello(),
        batch.clone(),
        mixed_batch(2),
        replies_frame.clone(),
        welcome.clone(),
        refuse.clone(),
        times.clone(),
        condition.clone(),
        alive.clone(),
        error,
    ];
    vec![
        ("stream", [vec![0], all.concat()].concat()),
        ("mirror", [vec![0], mirror].concat()),
        ("batch", [&[1, 0, 0, 0, 0][..], &batch[HEADER_BYTES..]].concat()),
        ("batch_of_digests", [&[1, 0, 0, 0, 0][..], &digests[HEADER_BYTES..]].concat()),
        ("batch_of_marks", [&[1, 0, 0x10, 0, 0][..], marks_meta].concat()),
        ("batch_followed", [&[1, 0, 0, 0, 0][..], &followed_batch].concat()),
        ("times", meta(7, &times)),
        ("condition", meta(8, &condition)),
        ("alive", meta(9, &alive)),
        ("service", meta(14, &service)),
        ("progress", meta(9, &progress)),
        ("batch_with_payload", {
            let (mixed, payload_len) = (mixed_batch(3), 6u8);
            [&[1, payload_len, 0, 0, 0][..], &mixed[HEADER_BYTES..mixed.len() - 6]].concat()
        }),
        ("replies", meta(2, &replies_frame[..replies_frame.len() - 4])),
        ("hello", meta(3, &hello())),
        (
            "hello_with_charge",
            meta(3, &hello_with(Some(Charge { map_id: [6; 16], epoch: 5, nonce: u64::MAX, version: 9 }))),
        ),
        ("refused_as_deposed", {
            let mut refuse = Vec::new();
            Refuse { reason: RefuseReason::Deposed, text: "epoch 5, this one has 4".to_string() }.encode(&mut refuse);
            meta(5, &refuse)
        }),
        ("welcome", meta(4, &welcome)),
        ("refuse", meta(5, &refuse)),
        ("sealed", [&[6, 3, 0xff, 0xff][..], &batch[HEADER_BYTES..]].concat()),
    ]
}

fn configs() -> Vec<(&'static str, Vec<u8>)> {
    let full = r#"listen = ["127.0.0.1:10809", "unix:nbd.sock", "[::1]:10808"]
admin = "[::1]:10810"
connections = 64
busy_poll_us = 100
trace_one_in = 1000
memory = "128MiB"
name = "kitchen"
[[volume]]
name = "pool"
id = "pool-1"
description = "all of it"
layout = "striped"
stripe = "64KiB"
read_only = false
batch = 100
batch_bytes = "64KiB"
links = 2
outstanding_batches = 3
timeout = "10s"
connect_timeout = "1500ms"
reconnect_min = "50ms"
reconnect_max = "2s"
[volume.socket]
send_buffer = "1MiB"
receive_buffer = "1MiB"
congestion = "bbr"
keepalive = "15s"
[[volume.node]]
address = "192.168.1.11:7411"
size = "10GiB"
[[volume.node]]
path = "extents/b.bin"
size = "10GiB"
threads = 8
direct = true
mapped = "off"
"#;
    let keyed = r#"admin = "127.0.0.1:10810"
admin_hosts = ["gateway.example.org", "nas"]
keys = "../keys"
[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
"#;
    let bad_keys =
        "keys = '~/keys'\nadmin_hosts = ['a:1', '']\n[[volume]]\nname = 'pool'\n[[volume.node]]\naddress = 'a'\n";
    let small = "[[volume]]\nname = \"pool\"\nbatch = \"auto\"\n[[volume.node]]\naddress = \"tablet\"\n";
    let wrong = "listen = [\"nowhere:0\"]\nmemory = \"1KiB\"\n[[volume]]\nname = \"a\\nb\"\nlinkz = 3\nnode = []\n";
    let broken = "[[volume]\nname = 'pool\n";
    let texts = [
        ("full", full),
        ("small", small),
        ("wrong", wrong),
        ("broken", broken),
        ("keyed", keyed),
        ("bad_keys", bad_keys),
    ];
    texts.into_iter().map(|(name, text)| (name, text.as_bytes().to_vec())).collect()
}

fn airs() -> Vec<(&'static str, Vec<u8>)> {
    let cell = "11n-2014,rate=6.5Mbit,ampdu=16,loss=2.5%,retries=3,cwmin=7,cwmax=255,queue=20,ap-queue=100";
    vec![
        ("cell", cell.into()),
        ("line", b"wan,rate=500kbit,delay=20ms,jitter=1500us,loss=0.01,queue=5".to_vec()),
        ("ideal", b"ideal".to_vec()),
        ("window", b"11ax,cwmin=2000".to_vec()),
        ("slip", b"11n,amdpu=4".to_vec()),
    ]
}

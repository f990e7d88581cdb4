//! All cases, by name.

use flashmob_core::layout::LayoutKind;
use flashmob_core::op::Op;
use flashmob_core::units::{KIB, MIB};

use crate::codec;
use crate::harness::{Case, Turn};
use crate::session;
use crate::world::World;

fn case(name: impl Into<String>, requests: usize, prepare: impl Fn() -> Turn + Sync + 'static) -> Case {
    Case { name: name.into(), requests, prepare: Box::new(prepare) }
}

/// All of them, in the order of the table.
pub fn all() -> Vec<Case> {
    let mut cases = parts();
    cases.extend(paths());
    cases
}

/// Parts alone.
fn parts() -> Vec<Case> {
    let striped = LayoutKind::Striped { stripe_bytes: 64 * KIB };
    vec![
        case("wire/encode a batch of 1 read", 1, || codec::batch_encode(1, 4096)),
        case("wire/encode a batch of 256 reads of 1 B", 256, || codec::batch_encode(256, 1)),
        case("wire/decode a batch of 256 reads of 1 B", 256, || codec::batch_decode(256, 1)),
        case("wire/encode 256 answers in a row", 256, || codec::replies_encode(256, 1)),
        case("wire/decode 256 answers in a row", 256, || codec::replies_decode(256, 1)),
        case("wire/encode 256 scattered answers", 256, || codec::replies_encode(256, 2)),
        case("wire/decode 256 scattered answers", 256, || codec::replies_decode(256, 2)),
        case("wire/seal a frame of 4 KiB", 1, || codec::frame_seal(4096)),
        case("wire/check a frame of 4 KiB", 1, || codec::frame_decode(4096)),
        case("wire/check a frame of 256 KiB", 1, || codec::frame_decode(256 * 1024)),
        case("layout/split 1 B, linear", 256, || codec::layout_split(LayoutKind::Linear, 1)),
        case("layout/split 1 B, striped", 256, move || codec::layout_split(striped, 1)),
        case("layout/split 1 MiB, striped", 256, move || codec::layout_split(striped, MIB)),
        case("nbd/decode 64 reads", 64, || session::decode(Op::Read, 64, 4096)),
        case("nbd/decode 64 writes of 4 KiB", 64, || session::decode(Op::Write, 64, 4096)),
        case("nbd/answer 64 reads of 1 B", 64, || session::reply(64, 1)),
        case("nbd/answer 64 reads of 4 KiB", 64, || session::reply(64, 4096)),
        case("elevator/256 scattered reads", 256, || codec::elevator(Op::Read, true)),
        case("elevator/256 reads in a row", 256, || codec::elevator(Op::Read, false)),
        case("elevator/256 scattered writes", 256, || codec::elevator(Op::Write, true)),
    ]
}

/// The whole way: gateway, nodes, and back.
fn paths() -> Vec<Case> {
    let sizes: [(u32, &str); 2] = [(1, "1 B"), (4096, "4 KiB")];
    let mut cases = Vec::new();
    for nodes in [1, 8] {
        for (len_bytes, size) in sizes {
            for requests in [1, 16, 64, 256] {
                let name = format!("nbd, {nodes} nodes/{requests} reads of {size}");
                cases.push(nbd_path(name.replace("1 nodes", "1 node"), nodes, Op::Read, requests, len_bytes, true));
            }
        }
    }
    cases.push(nbd_path("nbd, 8 nodes/64 writes of 4 KiB", 8, Op::Write, 64, 4096, true));
    for (len_bytes, size) in sizes {
        for requests in [64, 256] {
            let name = format!("nbd, 8 nodes, not cached/{requests} reads of {size}");
            cases.push(nbd_path(name, 8, Op::Read, requests, len_bytes, false));
        }
    }
    for (spans, len_bytes, size) in [(100, 1, "1 B"), (1000, 1, "1 B"), (100, 4096, "4 KiB")] {
        let prepare = move || -> Turn {
            let mut world = World::new(8, true, true);
            Box::new(move || world.native_turn(spans, len_bytes))
        };
        cases.push(case(format!("native, 8 nodes/{spans} spans of {size}"), spans, prepare));
    }
    cases
}

fn nbd_path(name: impl Into<String>, nodes: usize, op: Op, requests: usize, len_bytes: u32, is_cached: bool) -> Case {
    case(name, requests, move || {
        let mut world = World::new(nodes, false, is_cached);
        Box::new(move || world.nbd_turn(op, requests, len_bytes))
    })
}

//! Maps of holes: what a client is told of what the nodes tell.

use crate::testing::{GatewayBed, NOW, bytes_of, frames, gateway_config, volume, welcome};
use flashmob_core::gateway::{ClientId, Gateway, LinkId, LinkPhase, NoLocal};
use flashmob_core::layout::LayoutKind;
use flashmob_core::nbd::client::{ClientHandshake, ReplyHeader, decode_block_status};
use flashmob_core::nbd::protocol::*;
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::batch::{WirePiece, decode_batch};
use flashmob_core::wire::frame::{FrameKind, encode_frame};
use flashmob_core::wire::map::{MAP_BYTES, MapWriter};
use flashmob_core::wire::replies::RepliesEncoder;

const HOLE: u32 = STATE_HOLE | STATE_ZERO;

/// A gateway over nodes with extents of these sizes, one link each, and an NBD client that chose `base:allocation`.
struct Bed {
    gateway: Gateway,
    client: ClientId,
    cookie: u64,
}

impl Bed {
    fn new(layout: LayoutKind, sizes: &[u64]) -> Bed {
        let mut bed = GatewayBed::new(gateway_config(flashmob_core::gateway::VolumeSpec { layout, ..volume(sizes) }));
        for (link, &size) in sizes.iter().enumerate() {
            let name = link as u8;
            bed.link(link, &flashmob_core::wire::hello::Welcome { extent_id: [name + 1; 16], ..welcome(size) });
        }
        let mut gateway = bed.gateway;
        let client = gateway.client_opened(NOW).unwrap();
        let mut handshake = ClientHandshake::new("", true).unwrap().with_maps();
        let (mut from, mut to) = Default::default();
        loop {
            let (from, to): (&mut flashmob_core::buffers::RxBuf, &mut flashmob_core::buffers::OutQueue) =
                (&mut from, &mut to);
            from.extend(&gateway.client_out(client).unwrap().take_all());
            if let Some(connected) = handshake.next(from, to).unwrap() {
                assert!(connected.context.is_some());
                break;
            }
            gateway.client_rx(client).unwrap().extend(&to.take_all());
            gateway.process_client(NOW, client, &mut NoLocal);
        }
        Bed { gateway, client, cookie: 0 }
    }

    fn ask(&mut self, flags: u16, offset_bytes: u64, len_bytes: u32) {
        self.cookie += 1;
        let header = RequestHeader { flags, command: CMD_BLOCK_STATUS, cookie: self.cookie, offset_bytes, len_bytes };
        self.gateway.client_rx(self.client).unwrap().extend(&header.encode());
        self.gateway.process_client(NOW, self.client, &mut NoLocal);
        self.gateway.turn(NOW, &mut NoLocal);
    }

    /// The pieces that are out on a link; each is answered by what `map` says of it.
    fn serve(&mut self, link: usize, mut map: impl FnMut(&WirePiece) -> Result<Vec<u8>, Failure>) -> Vec<WirePiece> {
        let out = self.gateway.link_out(LinkId(link)).take_all();
        let mut all = Vec::new();
        for batch in frames(&out).into_iter().filter(|frame| frame.kind == FrameKind::Batch) {
            let mut pieces = Vec::new();
            let seq = decode_batch(&batch.meta, 0, &mut pieces).unwrap();
            for (index, piece) in pieces.iter().enumerate() {
                let answer = map(piece);
                let mut replies = RepliesEncoder::default();
                replies.clear();
                replies.push(seq, &[index as u16], answer.as_ref().map(|_| ()).map_err(|failure| *failure), 0);
                let bytes = bytes_of(|out| {
                    let put = |meta: &mut Vec<u8>| meta.extend_from_slice(replies.finish());
                    encode_frame(out, FrameKind::Replies, put, |data| data.extend(answer.iter().flatten()));
                });
                self.gateway.link_rx(LinkId(link)).extend(&bytes);
                self.gateway.process_link(NOW, LinkId(link));
            }
            all.extend(pieces);
        }
        self.gateway.turn(NOW, &mut NoLocal);
        all
    }

    /// The extents of the only answer, or its error.
    fn answer(&mut self) -> Result<Vec<(u32, u32)>, u32> {
        let sent = self.gateway.client_out(self.client).unwrap().take_all();
        let (header, len) = ReplyHeader::decode(&sent).unwrap().expect("an answer");
        match header {
            ReplyHeader::Chunk { kind: REPLY_TYPE_BLOCK_STATUS, cookie, .. } if cookie == self.cookie => {
                Ok(decode_block_status(&sent[len..]).unwrap().1)
            }
            ReplyHeader::Chunk { kind: REPLY_TYPE_ERROR, .. } => {
                Err(u32::from_be_bytes(sent[len..len + 4].try_into().unwrap()))
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A map of these runs, data first.
fn runs(lengths: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; MAP_BYTES];
    let mut map = MapWriter::new(&mut bytes);
    for (index, &len) in lengths.iter().enumerate() {
        assert!(map.push(len, index % 2 == 1));
    }
    bytes
}

#[test]
fn the_maps_of_stripes_are_put_together_in_the_order_of_the_volume() {
    let mut bed = Bed::new(LayoutKind::Striped { stripe_bytes: 512 }, &[2048, 2048]);
    bed.ask(0, 100, 3000);
    // Node 0 has stripes 0, 2, 4 and 28 bytes of 6, node 1 has 1, 3 and 5.
    let first = bed.serve(0, |_| Ok(runs(&[412, 1024, 28])));
    assert_eq!(first.iter().map(|p| (p.op, p.offset_bytes, p.len_bytes)).collect::<Vec<_>>(), [(Op::Map, 100, 1464)]);
    let second = bed.serve(1, |_| Ok(runs(&[0, 512, 1024])));
    assert_eq!((second[0].offset_bytes, second[0].len_bytes), (0, 1536));
    assert_eq!(bed.answer(), Ok(vec![(412, 0), (1024, HOLE), (512, 0), (512, HOLE), (540, 0)]));
}

#[test]
fn a_map_that_ends_early_ends_the_answer() {
    let mut bed = Bed::new(LayoutKind::Linear, &[1000, 1000]);
    bed.ask(0, 500, 1000);
    bed.serve(1, |_| Ok(runs(&[0, 400, 100])));
    bed.serve(0, |_| Ok(runs(&[7, 3])));
    assert_eq!(bed.answer(), Ok(vec![(7, 0), (3, HOLE)]), "nothing is known behind it");
    // Whole, and runs that continue each other are one.
    bed.ask(0, 500, 1000);
    bed.serve(1, |_| Ok(runs(&[0, 400, 100])));
    bed.serve(0, |_| Ok(runs(&[100, 400])));
    assert_eq!(bed.answer(), Ok(vec![(100, 0), (800, HOLE), (100, 0)]));
    bed.ask(CMD_FLAG_REQ_ONE, 500, 1000);
    bed.serve(1, |_| Ok(runs(&[0, 400, 100])));
    bed.serve(0, |_| Ok(runs(&[0, 500])));
    assert_eq!(bed.answer(), Ok(vec![(900, HOLE)]), "one extent, as it was asked for");
}

#[test]
fn a_node_that_fails_fails_the_map_and_a_malformed_map_ends_its_link() {
    let mut bed = Bed::new(LayoutKind::Linear, &[1000, 1000]);
    bed.ask(0, 500, 1000);
    bed.serve(0, |_| Ok(runs(&[500])));
    bed.serve(1, |_| Err(Failure::Io));
    assert_eq!(bed.answer(), Err(EIO));
    for bad in [runs(&[1001]), vec![0; MAP_BYTES], runs(&[0, 0])] {
        let mut bed = Bed::new(LayoutKind::Linear, &[1000, 1000]);
        bed.ask(0, 0, 1000);
        bed.serve(0, |_| Ok(bad.clone()));
        assert_ne!(bed.gateway.status().volumes[0].nodes[0].links[0].phase, LinkPhase::Ready);
        assert!(bed.gateway.client_out(bed.client).unwrap().is_empty(), "it is asked for again on the next link");
    }
}

#[test]
fn an_answer_is_bounded_in_extents_and_in_stripes() {
    // 2,048 stripes of 512 bytes over two nodes.
    let extent = 8 << 20;
    let mut bed = Bed::new(LayoutKind::Striped { stripe_bytes: 512 }, &[extent, extent]);
    bed.ask(0, 0, 16 << 20);
    let asked: Vec<u32> =
        (0..2).flat_map(|link| bed.serve(link, |p| Ok(runs(&[p.len_bytes])))).map(|p| p.len_bytes).collect();
    assert_eq!(asked, [512 << 10, 512 << 10]);
    assert_eq!(bed.answer(), Ok(vec![(1 << 20, 0)]));
    // One node has data, the other holes: an extent for each stripe.
    bed.ask(0, 0, 16 << 20);
    bed.serve(0, |p| Ok(runs(&[p.len_bytes])));
    bed.serve(1, |p| Ok(runs(&[0, p.len_bytes])));
    let extents = bed.answer().unwrap();
    assert_eq!(extents.len(), flashmob_core::nbd::MAP_EXTENTS_MAX);
    assert_eq!((extents[0], extents[1]), ((512, 0), (512, HOLE)));
}

#[test]
fn an_answer_is_bounded_in_bytes_and_in_nodes() {
    for (size, asked) in [(255, 255), (256, 256), (257, 256)].map(|(size, asked)| (size << 20, asked << 20)) {
        let mut bed = Bed::new(LayoutKind::Linear, &[1 << 30]);
        bed.ask(0, 0, size);
        assert_eq!(bed.serve(0, |p| Ok(runs(&[p.len_bytes])))[0].len_bytes, asked);
        assert_eq!(bed.answer(), Ok(vec![(asked, 0)]));
    }
    for nodes in [63, 64, 65] {
        let mut bed = Bed::new(LayoutKind::Linear, &vec![1000; nodes]);
        bed.ask(0, 0, nodes as u32 * 1000);
        let pieces: usize = (0..nodes).map(|link| bed.serve(link, |p| Ok(runs(&[p.len_bytes]))).len()).sum();
        let covered = nodes.min(64);
        assert_eq!((pieces, bed.answer()), (covered, Ok(vec![(covered as u32 * 1000, 0)])));
    }
}

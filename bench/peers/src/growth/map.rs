//! One volume with copies, its gateway's core, and nodes that answer at once: what a map of this size costs over so many nodes.
//!
//! Everything happens in this process and thread. Only the time in the core counts; what stands for nodes, sockets and the map's disk does not.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use flashmob_core::copies::{MapImage, Member, encode_snapshot, replay};
use flashmob_core::gateway::{
    Action, ClientId, CopiesSpec, ExtentSpec, Gateway, GatewayConfig, LinkId, NativeCall, NoLocal, VolumeSpec,
};
use flashmob_core::layout::LayoutKind;
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::{GIB, MIB, Time};
use flashmob_core::wire::batch::decode_batch;
use flashmob_core::wire::condition::{Alive, decode_alive, put_alive};
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame, encode_frame};
use flashmob_core::wire::hello::Welcome;
use flashmob_core::wire::map::MapWriter;
use flashmob_core::wire::replies::RepliesEncoder;
use serde::{Deserialize, Serialize};

use super::size::{memory_bytes, processor_ns};

const CHUNK_BYTES: u64 = 4 * MIB;
const COPIES: usize = 2;
const BLOCK_BYTES: u32 = 4096;
/// Requests outstanding at once.
const DEPTH: usize = 64;
const REQUESTS: usize = 200_000;
/// Chunks that are written to.
const WRITTEN_CHUNKS: u32 = 1000;
/// Virtual time in which nobody asks for anything.
const IDLE: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_micros(100);

/// What it took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub nodes: u32,
    pub chunks: u32,
    /// Making the map of a new volume.
    pub placed_ns: u64,
    /// The map in its file, just rewritten, and reading it.
    pub file_bytes: u64,
    pub read_ns: u64,
    /// Memory of the map, and of the gateway beside it.
    pub map_bytes: u64,
    pub gateway_bytes: u64,
    /// From the map to a gateway all of whose nodes are linked.
    pub started_ns: u64,
    pub read_request_ns: f64,
    pub first_write_ns: f64,
    pub write_ns: f64,
    /// For each second without requests.
    pub idle_ns_per_s: f64,
}

/// The gateway's core, and the time that it took.
struct Bed {
    gateway: Gateway,
    now: Time,
    taken_ns: u64,
    client: Option<ClientId>,
    cookie: u64,
    ended: usize,
}

/// Measures, and prints [`Figures`].
pub fn print(nodes: u32, volume_tib: u32) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&measure(nodes, volume_tib)?)?);
    Ok(())
}

fn measure(nodes: u32, volume_tib: u32) -> anyhow::Result<Figures> {
    let chunks = u64::from(volume_tib) * 1024 * GIB / CHUNK_BYTES;
    let slots = (chunks * COPIES as u64).div_ceil(u64::from(nodes)) + 1;
    let id = |n: u32| (u128::from(n) + 1).to_be_bytes();
    let member = |n: u32| Member {
        extent_id: id(n),
        boot_id: Some(id(n)),
        seen: None,
        size_bytes: slots * CHUNK_BYTES,
        domain: format!("node{n}"),
    };
    let before_bytes = memory_bytes("VmRSS:")?;
    let (image, placed_ns) =
        timed(|| MapImage::with_chunks([9; 16], CHUNK_BYTES, COPIES, (0..nodes).map(member).collect(), chunks as u32));
    let image = image?;
    let map_bytes = memory_bytes("VmRSS:")?.saturating_sub(before_bytes);
    let bytes = encode_snapshot(&image);
    let (read, read_ns) = timed(|| replay(&bytes).map(|replayed| replayed.image.chunks()));
    ensure!(read.context("the map cannot be read")? == image.chunks(), "another map was read");
    let file_bytes = bytes.len() as u64;
    drop(bytes);

    let chunks = image.chunks();
    let extent = |n| ExtentSpec { size_bytes: Some(slots * CHUNK_BYTES), ..ExtentSpec::new(format!("node{n}")) };
    let volume = VolumeSpec {
        layout: LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES },
        links: 1,
        copies: Some(Box::new(CopiesSpec::new(image))),
        ..VolumeSpec::new("v", (0..nodes).map(extent).collect())
    };
    let before_bytes = memory_bytes("VmRSS:")?;
    let mut bed = Bed::new(GatewayConfig::new([9; 16], 1, vec![volume]))?;
    for n in 0..nodes {
        bed.link(n, id(n), slots * CHUNK_BYTES);
    }
    bed.pass(Duration::from_secs(1));
    let started_ns = bed.take_ns();
    let gateway_bytes = memory_bytes("VmRSS:")?.saturating_sub(before_bytes);

    let mut random = 1_u64;
    let mut draw = move |most: u32| {
        // Of Steele, Lea and Flood, 2014 (SplitMix64).
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(most)) >> 64) as u64
    };
    let client = bed.gateway.native_opened(0).context("the volume is not ready")?;
    bed.client = Some(client);
    let read_request_ns = bed.ask(REQUESTS, Op::Read, || draw(chunks) * CHUNK_BYTES)?;
    let written: Vec<u64> = (0..WRITTEN_CHUNKS).map(|n| u64::from(n) * u64::from(chunks / WRITTEN_CHUNKS)).collect();
    let mut first = written.iter();
    let first_write_ns =
        bed.ask(written.len(), Op::Write, || first.next().copied().unwrap_or_default() * CHUNK_BYTES)?;
    let mut at = 0;
    let write_ns = bed.ask(REQUESTS, Op::Write, || {
        at = (at + 1) % written.len();
        written[at] * CHUNK_BYTES + u64::from(BLOCK_BYTES)
    })?;
    // Until what was written has settled.
    bed.pass(Duration::from_secs(120));
    bed.take_ns();
    bed.pass(IDLE);
    let idle_ns_per_s = bed.take_ns() as f64 / IDLE.as_secs_f64();
    Ok(Figures {
        nodes,
        chunks,
        placed_ns,
        file_bytes,
        read_ns,
        map_bytes,
        gateway_bytes,
        started_ns,
        read_request_ns,
        first_write_ns,
        write_ns,
        idle_ns_per_s,
    })
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, u64) {
    let begun = processor_ns();
    let done = what();
    (done, processor_ns() - begun)
}

impl Bed {
    fn new(config: GatewayConfig) -> anyhow::Result<Bed> {
        let (gateway, taken_ns) = timed(|| Gateway::new(config));
        Ok(Bed { gateway: gateway?, now: Time(1), taken_ns, client: None, cookie: 0, ended: 0 })
    }

    fn take_ns(&mut self) -> u64 {
        std::mem::take(&mut self.taken_ns)
    }

    /// Lets the core do something, and counts its time.
    fn core<T>(&mut self, what: impl FnOnce(&mut Gateway, Time) -> T) -> T {
        let begun = processor_ns();
        let done = what(&mut self.gateway, self.now);
        self.taken_ns += processor_ns() - begun;
        done
    }

    fn link(&mut self, n: u32, extent_id: [u8; 16], size_bytes: u64) {
        let welcome = Welcome {
            extent_id,
            boot_id: extent_id,
            size_bytes,
            no_io: false,
            modelled: false,
            keeps_alive: true,
            hello_received_ns: 0,
            welcome_sent_ns: 0,
            remembered: None,
            mirror: None,
            knows_marks: false,
            keeps_age: false,
        };
        let id = LinkId(n as usize);
        self.core(|gateway, now| {
            gateway.handle_timeout(now);
            gateway.link_connected(now, id);
        });
        self.gateway.link_out(id).take_all();
        let mut bytes = Vec::new();
        welcome.encode(&mut bytes);
        self.gateway.link_rx(id).extend(&bytes);
        self.core(|gateway, now| gateway.process_link(now, id));
        self.act();
    }

    /// What the gateway wants done; the map's disk takes no time.
    fn act(&mut self) {
        while let Some(action) = self.gateway.poll_action() {
            if let Action::Commit { volume, number, .. } = action {
                self.core(|gateway, now| gateway.committed(now, volume, number, Ok(())));
            }
        }
    }

    /// One turn, and what nodes answer.
    fn turn(&mut self) -> anyhow::Result<()> {
        self.core(|gateway, now| gateway.turn(now, &mut NoLocal));
        self.act();
        let (mut clients, mut links) = (Vec::new(), Vec::new());
        self.gateway.take_dirty(&mut clients, &mut links);
        for id in links.into_iter().collect::<BTreeSet<LinkId>>() {
            let out = self.gateway.link_out(id).take_all();
            let answer = answer(&out)?;
            if !answer.is_empty() {
                self.gateway.link_rx(id).extend(&answer);
                self.core(|gateway, now| gateway.process_link(now, id));
            }
        }
        self.act();
        let done = std::mem::take(self.gateway.completions());
        let failed = done.iter().find_map(|done| done.result.as_ref().err());
        ensure!(failed.is_none(), "a request failed: {}", failed.map(ToString::to_string).unwrap_or_default());
        self.ended += done.len();
        Ok(())
    }

    /// Time goes by.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.gateway.next_timeout().filter(|due| *due <= end);
            self.now = due.unwrap_or(end).max(self.now + Duration::from_nanos(1));
            self.core(|gateway, now| gateway.handle_timeout(now));
            // A request that fails shows in the next measurement.
            let _ = self.turn();
            if due.is_none() {
                return;
            }
        }
    }

    /// So many requests, and the time that each took.
    fn ask(&mut self, count: usize, op: Op, mut at: impl FnMut() -> u64) -> anyhow::Result<f64> {
        let client = self.client.context("a client")?;
        self.take_ns();
        self.ended = 0;
        let (mut asked, mut turns) = (0, 0);
        while self.ended < count {
            while asked < count && asked - self.ended < DEPTH {
                asked += 1;
                self.cookie += 1;
                let payload = if op == Op::Write { vec![1; BLOCK_BYTES as usize] } else { Vec::new() };
                let spans = vec![(at(), BLOCK_BYTES)];
                let call = NativeCall { cookie: self.cookie, op, flags: OpFlags::NONE, spans, payload };
                self.core(|gateway, now| gateway.submit(now, client, call, &mut NoLocal));
            }
            self.now = self.now + TURN;
            self.core(|gateway, now| {
                if gateway.next_timeout().is_some_and(|due| due <= now) {
                    gateway.handle_timeout(now);
                }
            });
            self.turn()?;
            turns += 1;
            ensure!(turns < 100 * count, "requests are not answered");
        }
        Ok(self.take_ns() as f64 / count as f64)
    }
}

/// What a node answers to these frames: success, zeros, and that it is there.
fn answer(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (mut rest, mut to) = (bytes, Vec::new());
    while !rest.is_empty() {
        let Ok(Decoded::Frame(frame, taken)) = decode_frame(rest) else { anyhow::bail!("no frame was sent") };
        match frame.kind {
            FrameKind::Batch => {
                let mut pieces = Vec::new();
                let seq = decode_batch(frame.meta, frame.payload.len(), &mut pieces)?;
                let mut replies = RepliesEncoder::default();
                replies.clear();
                let mut answers = Vec::new();
                for (index, piece) in (0..).zip(&pieces) {
                    let begin = answers.len();
                    answers.resize(begin + piece.reply_bytes() as usize, 0);
                    // Free slots are searched for what they have: nothing.
                    if piece.op == Op::Map {
                        MapWriter::new(&mut answers[begin..]).push(piece.len_bytes, true);
                    }
                    replies.push(seq, &[index], Ok(()), 0);
                }
                let put = |meta: &mut Vec<u8>| meta.extend_from_slice(replies.finish());
                encode_frame(&mut to, FrameKind::Replies, put, |data| data.extend_from_slice(&answers));
            }
            FrameKind::Alive if decode_alive(frame.meta)? == Alive::Probe => put_alive(&mut to, Alive::Here),
            _ => {}
        }
        rest = &rest[taken..];
    }
    Ok(to)
}

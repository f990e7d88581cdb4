//! A gateway with a volume of two copies, whose nodes are played by the test.

use std::time::Duration;

use super::{GatewayBed, gateway_config, volume, welcome};
use flashmob_core::copies::{MapImage, Marks, Member, Record};
use flashmob_core::gateway::{Action, ClientId, CopiesSpec, GatewayConfig, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::wire::hello::Welcome;

/// A volume with a copy of each chunk on each of two nodes, which are linked, and a client. Node n is behind link n.
#[derive(Debug)]
pub struct CopiesBed {
    /// The gateway.
    pub bed: GatewayBed,
    /// The client.
    pub client: ClientId,
}

impl CopiesBed {
    /// Bytes of a chunk.
    pub const CHUNK_BYTES: u64 = 1 << 20;

    /// Of one chunk. Silent nodes are evicted after this time.
    #[must_use]
    pub fn new(evict_after: Duration) -> CopiesBed {
        CopiesBed::with(1, Marks::default(), |spec| spec.evict_after = evict_after)
    }

    /// Of several chunks with these marks. The nodes answer no probes: all that is heard of them are their answers.
    #[must_use]
    pub fn with(chunks: u64, marks: Marks, set: impl FnOnce(&mut CopiesSpec)) -> CopiesBed {
        CopiesBed::build(2, (chunks, marks), set, |_| ())
    }

    /// The same with nodes that know alive frames, and requests that fail after `timeout`.
    #[must_use]
    pub fn alive(chunks: u64, timeout: Duration, set: impl FnOnce(&mut CopiesSpec)) -> CopiesBed {
        CopiesBed::make(2, (chunks, Marks::default()), true, set, |config| config.volumes[0].timeout = timeout)
    }

    /// With so many copies, and another configuration of the gateway.
    #[must_use]
    pub fn build(
        copies: usize,
        (chunks, marks): (u64, Marks),
        set: impl FnOnce(&mut CopiesSpec),
        configure: impl FnOnce(&mut GatewayConfig),
    ) -> CopiesBed {
        CopiesBed::make(copies, (chunks, marks), false, set, configure)
    }

    fn make(
        copies: usize,
        (chunks, marks): (u64, Marks),
        keeps_alive: bool,
        set: impl FnOnce(&mut CopiesSpec),
        configure: impl FnOnce(&mut GatewayConfig),
    ) -> CopiesBed {
        let size_bytes = chunks * CopiesBed::CHUNK_BYTES;
        let member = |n: u8| Member {
            extent_id: [n; 16],
            boot_id: Some([n; 16]),
            seen: None,
            size_bytes,
            domain: format!("node{n}"),
        };
        let mut map = MapImage::new([9; 16], CopiesBed::CHUNK_BYTES, copies, vec![member(1), member(2)]).unwrap();
        if marks != Marks::default() {
            map.apply(&Record::Marks { first_chunk: 0, count: map.chunks(), marks }).unwrap();
        }
        let mut of_copies = CopiesSpec::new(map);
        set(&mut of_copies);
        let spec = VolumeSpec {
            layout: LayoutKind::Mapped { chunk_bytes: CopiesBed::CHUNK_BYTES },
            links: 1,
            timeout: Duration::from_secs(120),
            copies: Some(Box::new(of_copies)),
            ..volume(&[size_bytes; 2])
        };
        let mut config = gateway_config(spec);
        configure(&mut config);
        let mut bed = GatewayBed::new(config);
        for link in 0..2 {
            let id = [link as u8 + 1; 16];
            bed.link(link, &Welcome { extent_id: id, boot_id: id, keeps_alive, ..welcome(size_bytes) });
        }
        let client = bed.gateway.native_opened(0).unwrap();
        CopiesBed { bed, client }
    }

    /// How often decisions become durable while time passes.
    pub const STEP: Duration = Duration::from_millis(200);

    /// Time goes by; decisions are durable at once.
    pub fn pass(&mut self, time: Duration) {
        let end = self.bed.now + time;
        loop {
            self.bed.pass(CopiesBed::STEP.min(end - self.bed.now));
            for action in self.bed.actions() {
                if let Action::Commit { volume, number, .. } = action {
                    self.bed.gateway.committed(self.bed.now, volume, number, Ok(()));
                    self.bed.turn();
                }
            }
            if self.bed.now >= end {
                return;
            }
        }
    }

    /// What the map says of the first chunk.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.bed.gateway.map(0).expect("a map").marks(0)
    }

    /// Which copy of the first chunk a node has.
    #[must_use]
    pub fn copy_of(&self, node: u16) -> usize {
        let places = self.bed.gateway.map(0).expect("a map").places(0);
        places.iter().position(|place| place.member == node).expect("a copy")
    }
}

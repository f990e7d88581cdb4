//! A volume of two chunks, with a copy of each on both of two nodes.

use flashmob_core::copies::{MapImage, Member};
use flashmob_core::gateway::{CopiesSpec, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::wire::hello::Welcome;

use super::{GatewayBed, gateway_config, volume, welcome};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// Its map, when it is new.
#[must_use]
pub fn pair_map() -> MapImage {
    let member = |n: u8| Member {
        extent_id: [n; 16],
        boot_id: Some([n; 16]),
        seen: None,
        size_bytes: 2 * CHUNK_BYTES,
        domain: format!("node{n}"),
    };
    MapImage::new([9; 16], CHUNK_BYTES, 2, vec![member(1), member(2)]).expect("a map")
}

/// A gateway that starts with these copies, and is linked to both nodes by one link each.
#[must_use]
pub fn linked_pair(copies: CopiesSpec) -> GatewayBed {
    let spec = VolumeSpec {
        layout: LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES },
        links: 1,
        copies: Some(Box::new(copies)),
        ..volume(&[2 * CHUNK_BYTES; 2])
    };
    let mut bed = GatewayBed::new(gateway_config(spec));
    for link in 0..2 {
        let id = [link as u8 + 1; 16];
        bed.link(link, &Welcome { extent_id: id, boot_id: id, ..welcome(2 * CHUNK_BYTES) });
    }
    bed
}

//! What the tests of this module share.

use proptest::prelude::*;

use super::{
    CHUNK_BYTES_MIN, MapImage, Marks, Member, PLACES_MAX, Place, Record, SIGNATURE_BYTES, Sign, Signer, Verify,
};
use crate::checksum::checksum_of;

/// The size of a chunk in tests.
pub const CHUNK: u64 = CHUNK_BYTES_MIN;

/// Members with so many slots, each in the domain of that number.
pub fn members(slots_and_domains: &[(u64, usize)]) -> Vec<Member> {
    let member = |(number, &(slots, domain)): (usize, &(u64, usize))| Member {
        extent_id: id(number as u64 + 1),
        boot_id: None,
        seen: None,
        size_bytes: slots * CHUNK,
        domain: format!("d{domain}"),
    };
    slots_and_domains.iter().enumerate().map(member).collect()
}

/// An identity that no other number has.
pub fn id(number: u64) -> [u8; 16] {
    let mut id = [0xa5; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    id
}

/// A map of `copies` copies over so many members of so many slots each.
pub fn image(copies: usize, count: usize, slots: u64) -> MapImage {
    let each: Vec<(u64, usize)> = (0..count).map(|domain| (slots, domain)).collect();
    MapImage::new(id(7), CHUNK, copies, members(&each)).unwrap()
}

pub fn marks(is_open: bool, behind: u8, doubtful: u8) -> Marks {
    Marks { is_open, is_torn: false, behind, doubtful }
}

/// Any record, whether an image takes it or not.
pub fn any_record() -> impl Strategy<Value = Record> {
    let place = any::<(u16, u32)>().prop_map(|(member, slot)| Place { member, slot });
    let places = prop_oneof![
        9 => prop::collection::vec(place.clone(), 0..9),
        1 => prop::collection::vec(place, PLACES_MAX - 1..=PLACES_MAX),
    ];
    prop_oneof![
        any::<([u8; 16], u64, u8, u32, u64)>().prop_map(|(map_id, chunk_bytes, copies, chunks, version)| {
            Record::Begin { map_id, chunk_bytes, copies, chunks, version }
        }),
        (any::<(u16, [u8; 16], u64)>(), "[a-zé]{0,80}").prop_map(|((number, extent_id, size_bytes), domain)| {
            Record::Member { number, extent_id, size_bytes, domain }
        }),
        (any::<u32>(), places).prop_map(|(first_chunk, places)| Record::Places { first_chunk, places }),
        any_change(u32::MAX),
    ]
}

/// Any record that may come after the snapshot, with small numbers of chunks and members if `chunks` is small.
pub fn any_change(chunks: u32) -> impl Strategy<Value = Record> {
    let member = move || prop_oneof![9 => 0..6u16, 1 => any::<u16>()].prop_map(move |n| n.min(chunks as u16));
    let number = || prop_oneof![4 => 0..20u64, 1 => any::<u64>()];
    let mask = || prop_oneof![9 => 0..8u8, 1 => any::<u8>()];
    prop_oneof![
        1 => (number(), any::<u64>()).prop_map(|(epoch, nonce)| Record::Epoch { epoch, nonce }),
        1 => (number(), any::<u64>(), number()).prop_map(|(epoch, nonce, version)| Record::Start { epoch, nonce, version }),
        1 => (member(), any::<[u8; 16]>()).prop_map(|(member, boot_id)| Record::Boot { member, boot_id }),
        5 => (0..=chunks, 0..=chunks, any::<(bool, bool)>(), mask(), mask()).prop_map(
            |(first_chunk, count, (is_open, is_torn), behind, doubtful)| {
                let marks = Marks { is_torn, ..marks(is_open, behind, doubtful) };
                Record::Marks { first_chunk, count, marks }
            },
        ),
        1 => number().prop_map(|count| Record::Loss { count }),
        1 => any::<[u8; 16]>().prop_map(|home| Record::Home { home }),
        1 => number().prop_map(|count| Record::Told { count }),
        1 => Just(Record::Linear),
        3 => (0..=chunks, 0..4u8, member(), 0..20u32).prop_map(|(chunk, copy, member, slot)| {
            Record::Moved { chunk, copy, to: Place { member, slot } }
        }),
        1 => (member(), any::<bool>()).prop_map(|(member, is_leaving)| Record::Leaving { member, is_leaving }),
        1 => any::<bool>().prop_map(|is_wanted| Record::Balance { is_wanted }),
        1 => any::<bool>().prop_map(|is_cut| Record::Cut { is_cut }),
        1 => (2..7u16, 0..20u64, 0..9u64).prop_map(|(number, extent, slots)| {
            let domain = format!("domain {}", number % 3);
            Record::Member { number, extent_id: id(extent), size_bytes: slots * CHUNK, domain }
        }),
        1 => (member(), 0..3usize).prop_map(|(member, len)| Record::Address { member, address: "a".repeat(len), is_seed: len > 1 }),
        1 => (member(), 0..3u8).prop_map(|(member, state)| Record::Joining { member, is_joining: state > 0, overwrites: state > 1 }),
        1 => member().prop_map(|member| Record::Gone { member }),
        1 => (0..=chunks).prop_map(|chunks| Record::Shown { chunks }),
        1 => (0..=chunks).prop_map(|chunks| Record::Shrunk { chunks }),
        1 => (member(), number(), number()).prop_map(|(member, epoch, version)| Record::Seen { member, epoch, version }),
        1 => (member(), 0..20u64, 0..30u64).prop_map(|(member, extent, slots)| {
            Record::Extent { member, extent_id: id(extent), size_bytes: slots * CHUNK }
        }),
    ]
}

/// A key whose signatures anybody could make who tries.
#[derive(Debug, Clone, Copy)]
pub struct ToyKey([u8; 9]);

impl ToyKey {
    pub fn new(cluster: u8, generation: u64) -> ToyKey {
        let mut signer = [cluster; 9];
        signer[1..].copy_from_slice(&generation.to_le_bytes());
        ToyKey(signer)
    }
}

fn toy_signature(signer: &[u8], header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let sum = checksum_of([signer, header, content]).to_le_bytes();
    std::array::from_fn(|at| sum[at % 4] ^ at as u8)
}

impl Sign for ToyKey {
    fn signer(&self) -> &[u8] {
        &self.0
    }

    fn sign(&self, header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
        toy_signature(&self.0, header, content)
    }
}

impl Verify for ToyKey {
    fn signer(&self, signer: &[u8]) -> Option<Box<dyn Signer>> {
        let key = ToyKey(signer.try_into().ok()?);
        (key.0[0] == self.0[0]).then(|| Box::new(key) as Box<dyn Signer>)
    }
}

impl Signer for ToyKey {
    fn generation(&self) -> u64 {
        let [_, generation @ ..] = self.0;
        u64::from_le_bytes(generation)
    }

    fn has_signed(&self, header: &[u8], content: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        toy_signature(&self.0, header, content) == *signature
    }
}

//! A mirror that a node keeps, or tells: any bytes show a map that was signed, or none.

use flashmob_core::checksum::{checksum_of, checksum_of_two};
use flashmob_core::copies::{
    CHUNK_BYTES_MIN, Found, MapImage, Member, Record, SIGNATURE_BYTES, Sign, Signer, Terms, Verify, Writer,
    encode_batch, encode_snapshot, mirror_state, recover, sign_part,
};

/// Bytes of a part's header, and where its lengths and its checksum lie in it (docs/map-format.md).
const HEADER_BYTES: usize = 64;
const SIGNER_AT: usize = 6;
const CONTENT_AT: usize = 56;
const CHECKSUM_AT: usize = 60;

/// Its signatures stand for those that nobody else can make.
#[derive(Debug)]
pub(crate) struct Key;

fn signature(header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let sum = checksum_of([header, content]).to_le_bytes();
    std::array::from_fn(|at| sum[at % 4])
}

impl Sign for Key {
    fn signer(&self) -> &[u8] {
        b"signer"
    }

    fn sign(&self, header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
        signature(header, content)
    }
}

impl Verify for Key {
    fn signer(&self, signer: &[u8]) -> Option<Box<dyn Signer>> {
        (signer == b"signer").then(|| Box::new(Key) as Box<dyn Signer>)
    }
}

impl Signer for Key {
    fn generation(&self) -> u64 {
        1
    }

    fn has_signed(&self, header: &[u8], content: &[u8], signed: &[u8; SIGNATURE_BYTES]) -> bool {
        signature(header, content) == *signed
    }
}

/// The first byte says whether signatures and checksums are made right, so that what they protect is reached.
pub fn run(data: &[u8]) {
    let Some((&control, mirror)) = data.split_first() else { return };
    let mut mirror = mirror.to_vec();
    if control & 1 != 0 {
        mend(&mut mirror, control & 2 != 0);
    }
    let state = mirror_state(&mirror);
    if let Some((_, state)) = state {
        let whole = &mirror[..usize::try_from(state.len_bytes).expect("a part of it")];
        assert_eq!(mirror_state(whole).map(|(_, again)| again), Some(state), "what follows was not whole");
    }
    let found = [Found { extent_id: [1; 16], charge: None, mirror: &mirror }];
    for keys in [None, Some(&Key as &dyn Verify)] {
        match recover(&found, &Terms { keys, ..Terms::default() }) {
            Ok(recovered) => {
                let (map_id, state) = state.expect("a node tells what it has");
                assert_eq!((recovered.image.map_id(), recovered.of), (map_id, (state.epoch, state.version)));
                assert!(keys.is_none() || mirror.starts_with(b"FMsg"), "nobody has signed it");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(!message.contains(char::is_control) && message.len() < 400, "{message:?}");
            }
        }
    }
}

/// Makes each part's checksum right, and its signature if that is asked for, as far as their lengths lead.
fn mend(mirror: &mut [u8], signs: bool) {
    let mut rest = mirror;
    while rest.len() >= HEADER_BYTES {
        let (header, behind) = rest.split_at_mut(HEADER_BYTES);
        let signer_bytes = usize::from(u16::from_le_bytes([header[SIGNER_AT], header[SIGNER_AT + 1]]));
        let content_bytes = u32::from_le_bytes([0, 1, 2, 3].map(|i| header[CONTENT_AT + i])) as usize;
        let signed_bytes = signer_bytes + content_bytes;
        if signed_bytes + SIGNATURE_BYTES > behind.len() {
            return;
        }
        let (body, next) = behind.split_at_mut(signed_bytes + SIGNATURE_BYTES);
        if signs {
            let (signer, content) = body[..signed_bytes].split_at(signer_bytes);
            let signed = signature(&[&header[..CHECKSUM_AT], signer].concat(), content);
            body[signed_bytes..].copy_from_slice(&signed);
        }
        let sum = checksum_of_two(&header[..CHECKSUM_AT], body);
        header[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        rest = next;
    }
}

/// A mirror with changes, whole, torn and of nobody.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let member = |number: u8| Member {
        extent_id: [number; 16],
        boot_id: None,
        seen: None,
        size_bytes: 2 * CHUNK_BYTES_MIN,
        domain: format!("d{number}"),
    };
    let mut image =
        MapImage::new([7; 16], CHUNK_BYTES_MIN, 2, (1..4).map(member).collect()).expect("there is room for two copies");
    image.apply(&Record::Epoch { epoch: 3, nonce: 4 }).expect("the first start");
    let writer = Writer { map_id: [7; 16], epoch: 3, nonce: 4 };
    let plain = encode_snapshot(&image);
    let mut signed = sign_part(&Key, &writer, None, image.version(), &plain);
    for count in 1..3 {
        let (after, record) = (image.version(), Record::Loss { count });
        let mut batch = Vec::new();
        encode_batch(&mut batch, after + 1, std::slice::from_ref(&record)).expect("one record fits");
        image.apply(&record).expect("a loss more");
        signed.extend(sign_part(&Key, &writer, Some(after), image.version(), &batch));
    }
    let with = |control: u8, file: &[u8]| [&[control][..], file].concat();
    vec![
        ("signed", with(3, &signed)),
        ("torn", with(0, &signed[..signed.len() - 5])),
        ("unsigned", with(0, &plain)),
        ("forged", with(1, &[&signed[..80], &[1], &signed[81..]].concat())),
    ]
}

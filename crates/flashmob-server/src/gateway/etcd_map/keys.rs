//! Where a volume's map is in etcd.
//!
//! | key | value |
//! |---|---|
//! | `<prefix><volume>/leader` | who is in charge, as JSON; with a lease, so it is gone soon after its gateway |
//! | `<prefix><volume>/term` | the random number of the gateway that took charge last; every change of the map depends on it |
//! | `<prefix><volume>/map/head` | which snapshot counts, and of how many parts and bytes it is, as JSON |
//! | `<prefix><volume>/map/snapshot/<name>/part/<number>` | a part of the snapshot |
//! | `<prefix><volume>/map/snapshot/<name>/batch/<number>` | a batch of changes behind it, by the number of its last record |
//!
//! The name of a snapshot is used once: the term of the gateway that makes it, and a number.
//!
//! Parts and batches, one behind the other, are the bytes of a map's file (docs/map-format.md).

use serde::{Deserialize, Serialize};

/// The keys of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// With a slash at its end.
    base: String,
}

/// The value of `map/head`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The name of the snapshot that counts.
    pub snapshot: String,
    /// Its parts.
    pub parts: u64,
    /// Its bytes, all parts together.
    pub bytes: u64,
}

impl Keys {
    /// The keys below a prefix of the volume with this id.
    pub fn new(prefix: &str, volume_id: &str) -> Keys {
        let mut base = prefix.to_string();
        for byte in volume_id.bytes() {
            // A slash would end the name.
            if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
                base.push(char::from(byte));
            } else {
                base.push_str(&format!("%{byte:02x}"));
            }
        }
        base.push('/');
        Keys { base }
    }

    /// The prefix of all keys of the volume.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn leader(&self) -> Vec<u8> {
        self.key("leader")
    }

    pub fn term(&self) -> Vec<u8> {
        self.key("term")
    }

    pub fn head(&self) -> Vec<u8> {
        self.key("map/head")
    }

    /// A number has as many digits as the largest, so that keys have the order of their numbers.
    pub fn part(&self, snapshot: &str, number: u64) -> Vec<u8> {
        self.key(&format!("map/snapshot/{snapshot}/part/{number:020}"))
    }

    pub fn batch(&self, snapshot: &str, number: u64) -> Vec<u8> {
        self.key(&format!("map/snapshot/{snapshot}/batch/{number:020}"))
    }

    /// All parts of a snapshot: from the first key to before the second.
    pub fn parts(&self, snapshot: &str) -> (Vec<u8>, Vec<u8>) {
        self.below(&format!("map/snapshot/{snapshot}/part"))
    }

    /// All batches behind a snapshot.
    pub fn batches(&self, snapshot: &str) -> (Vec<u8>, Vec<u8>) {
        self.below(&format!("map/snapshot/{snapshot}/batch"))
    }

    /// All snapshots but that one, and what is behind them.
    pub fn others(&self, snapshot: &str) -> [(Vec<u8>, Vec<u8>); 2] {
        let (all, this) = (self.below("map/snapshot"), self.below(&format!("map/snapshot/{snapshot}")));
        [(all.0, this.0), (this.1, all.1)]
    }

    fn below(&self, folder: &str) -> (Vec<u8>, Vec<u8>) {
        // '0' follows '/'.
        (self.key(&format!("{folder}/")), self.key(&format!("{folder}0")))
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.base).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(key: &[u8], range: &(Vec<u8>, Vec<u8>)) -> bool {
        key >= range.0.as_slice() && key < range.1.as_slice()
    }

    #[test]
    fn ranges_hold_what_they_should() {
        let keys = Keys::new("/flashmob/", "pool");
        assert_eq!(keys.part("7f-1", 3), b"/flashmob/pool/map/snapshot/7f-1/part/00000000000000000003");
        let is_in_others = |key: &[u8], of: &str| keys.others(of).iter().any(|range| is_in(key, range));
        let names = ["0", "7f-1", "7f-10", "7f-2", "ff"];
        for (name, number) in names.into_iter().flat_map(|name| [(name, 0), (name, 9), (name, u64::MAX)]) {
            assert!(is_in(&keys.part(name, number), &keys.parts(name)));
            assert!(is_in(&keys.batch(name, number), &keys.batches(name)));
            assert!(!is_in(&keys.batch(name, number), &keys.parts(name)));
            for other in names {
                assert_eq!(is_in_others(&keys.part(name, number), other), name != other);
                assert_eq!(is_in_others(&keys.batch(name, number), other), name != other);
            }
        }
        assert!(names.into_iter().all(|name| !is_in_others(&keys.head(), name) && !is_in_others(&keys.term(), name)));
        assert!(keys.batch("7f-1", 9) < keys.batch("7f-1", 10) && keys.part("7f-1", 0) < keys.part("7f-1", 10));
    }

    #[test]
    fn a_volume_is_no_part_of_another() {
        let prefix = "/flashmob/";
        assert_eq!(Keys::new(prefix, "a/map").leader(), b"/flashmob/a%2fmap/leader");
        assert_ne!(Keys::new(prefix, "a%2fmap"), Keys::new(prefix, "a/map"));
        assert_eq!(Keys::new(prefix, "Tür 1").term(), b"/flashmob/T%c3%bcr%201/term");
    }
}

//! An announcement of a node, and its limits: the body of `/join`, and the source of a TXT record.
//!
//! Anyone who reaches a port can send anything. A checked announcement is short, printable, and has a numeric address, so
//! that it cannot make a gateway resolve names.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::store::{ExtentId, PlaceInVolume};

/// The longest body of `/join`.
pub const BODY_BYTES_MAX: usize = 4096;
/// The longest name and model, in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// The longest version, in bytes.
pub const VERSION_BYTES_MAX: usize = 32;
/// The longest identity of a volume, in bytes; that of nodes' own files.
pub const VOLUME_BYTES_MAX: usize = crate::store::identity::VOLUME_ID_BYTES_MAX;
/// The longest description of a layout, in bytes: those that exist have 32 at most.
pub const LAYOUT_BYTES_MAX: usize = 63;
/// The largest extent that is believed: that of a configuration.
const SIZE_BYTES_MAX: u64 = 1 << 60;

/// A node's announcement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Which extent it serves.
    pub extent: ExtentId,
    /// Where: an IP address and a port; only `:PORT` if it is the address that the message comes from.
    pub address: String,
    /// How large it is.
    pub size_bytes: u64,
    /// The name of the device.
    #[serde(default)]
    pub name: String,
    /// The model of the device.
    #[serde(default)]
    pub model: Option<String>,
    /// Its flashmob's version.
    #[serde(default)]
    pub version: String,
    /// The measured speed of its flash at the start: 4 KiB reads per second, one at a time, bypassing the page cache.
    #[serde(default)]
    pub reads_per_s: Option<u64>,
    /// The data that was read for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_over: Option<MeasuredOver>,
    /// The volume that it belongs to, once a gateway claimed it.
    #[serde(default)]
    pub volume: Option<String>,
    /// Its place there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceInVolume>,
    /// Charge of its battery, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
}

/// The data that was read to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredOver {
    /// The data of the extent.
    Extent,
    /// The program's own file, on the same file system: the extent holds nothing yet, and holes are not flash.
    Program,
}

/// The answer to `/join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// Whether the extent is one that whoever answers serves.
    pub known: bool,
    /// In a cluster with keys: the gateway's grant, in base64, by which the node learns that earlier ones are void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
}

/// Why an announcement is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnnouncement {
    /// Too long.
    #[error("it is larger than {BODY_BYTES_MAX} bytes")]
    TooLong,
    /// Malformed.
    #[error("it does not have the form of docs/finding-nodes.md: {0}")]
    Form(String),
    /// No address that a gateway could go to.
    #[error("'address' must be an IP address and a port, such as 192.168.1.11:7411, or only :7411")]
    Address,
    /// An address that only others can know.
    #[error(
        "'address' is neither the address that the announcement comes from nor in a network of this machine; write it into the configuration"
    )]
    Elsewhere,
    /// A text that is too long or has control characters.
    #[error("'{0}' is longer than {1} bytes or has control characters")]
    Text(&'static str, usize),
    /// A number out of range.
    #[error("'{0}' is out of range")]
    Number(&'static str),
}

impl Announcement {
    /// The announcement in a message from `peer`. An address without a host becomes that of `peer`.
    ///
    /// # Errors
    /// If it is not within the limits.
    pub fn parse(body: &[u8], peer: IpAddr) -> Result<(Announcement, SocketAddr), BadAnnouncement> {
        let mut announcement: Announcement = read(body)?;
        let addr = address_of(&announcement.address, peer).ok_or(BadAnnouncement::Address)?;
        announcement.address = addr.to_string();
        announcement.check()?;
        Ok((announcement, addr))
    }

    /// Whether all of it is within the limits.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), BadAnnouncement> {
        let texts = [
            ("name", Some(&self.name), NAME_BYTES_MAX),
            ("model", self.model.as_ref(), NAME_BYTES_MAX),
            ("version", Some(&self.version), VERSION_BYTES_MAX),
            ("volume", self.volume.as_ref(), VOLUME_BYTES_MAX),
            ("layout", self.place.as_ref().map(|place| &place.layout), LAYOUT_BYTES_MAX),
        ];
        for (key, text, max) in texts {
            if text.is_some_and(|text| text.len() > max || text.chars().any(char::is_control)) {
                return Err(BadAnnouncement::Text(key, max));
            }
        }
        let is_place = |place: &PlaceInVolume| place.index < place.count && place.count <= 4096;
        if !self.place.as_ref().is_none_or(is_place) {
            return Err(BadAnnouncement::Number("place"));
        }
        if self.size_bytes == 0 || self.size_bytes > SIZE_BYTES_MAX {
            return Err(BadAnnouncement::Number("size_bytes"));
        }
        if self.battery_percent.is_some_and(|percent| percent > 100) {
            return Err(BadAnnouncement::Number("battery_percent"));
        }
        Ok(())
    }

    /// The node's name, or the beginning of its identity.
    #[must_use]
    pub fn shown_name(&self) -> String {
        if self.name.trim().is_empty() { self.extent.short() } else { self.name.clone() }
    }
}

/// What a node of a cluster with keys announces to its gateway, inside TLS: the rest is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnAddress {
    /// As in [`Announcement`].
    pub address: String,
}

impl OwnAddress {
    /// The address in a message from `peer`.
    ///
    /// # Errors
    /// If it is not within the limits.
    pub fn parse(body: &[u8], peer: IpAddr) -> Result<SocketAddr, BadAnnouncement> {
        let own: OwnAddress = read(body)?;
        address_of(&own.address, peer).ok_or(BadAnnouncement::Address)
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, BadAnnouncement> {
    if body.len() > BODY_BYTES_MAX {
        return Err(BadAnnouncement::TooLong);
    }
    serde_json::from_slice(body).map_err(|error| {
        // serde quotes the input.
        BadAnnouncement::Form(error.to_string().chars().filter(|c| !c.is_control()).take(160).collect())
    })
}

/// The address that a node at `peer` names, if one can connect to it.
fn address_of(text: &str, peer: IpAddr) -> Option<SocketAddr> {
    let addr = match text.strip_prefix(':') {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => SocketAddr::new(peer, port.parse().ok()?),
        Some(_) => return None,
        None => text.parse().ok()?,
    };
    let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
    is_usable(addr).then_some(addr)
}

/// Whether one can connect there at all.
#[must_use]
pub fn is_usable(addr: SocketAddr) -> bool {
    let is_broadcast = matches!(addr.ip(), IpAddr::V4(ip) if ip.is_broadcast());
    addr.port() != 0 && !addr.ip().is_unspecified() && !addr.ip().is_multicast() && !is_broadcast
}

/// The preference of an address: IPv4 first, because it is easy to recognise; addresses with an interface's number last.
#[must_use]
pub fn rank(addr: &SocketAddr) -> u8 {
    match addr.ip() {
        IpAddr::V4(ip) if !ip.is_link_local() => 0,
        IpAddr::V6(ip) if !ip.is_unicast_link_local() => 1,
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 3,
    }
}

/// The text without control characters, and no longer than `max` bytes.
#[must_use]
pub fn fitting(text: &str, max: usize) -> String {
    let mut fitted: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    while fitted.len() > max {
        fitted.pop();
    }
    fitted
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 168, 1, 11));

    pub(crate) fn sample() -> Announcement {
        Announcement {
            extent: ExtentId([0xab; 16]),
            address: "192.168.1.11:7411".to_string(),
            size_bytes: 10 << 30,
            name: "nexus7-a".to_string(),
            model: Some("Nexus 7".to_string()),
            version: "0.1.0".to_string(),
            reads_per_s: Some(1234),
            measured_over: Some(MeasuredOver::Extent),
            volume: Some("pool".to_string()),
            place: Some(PlaceInVolume { index: 2, count: 8, layout: "striped:65536".to_string() }),
            battery_percent: Some(81),
        }
    }

    fn parse(json: &serde_json::Value) -> Result<(Announcement, SocketAddr), BadAnnouncement> {
        Announcement::parse(json.to_string().as_bytes(), PEER)
    }

    #[test]
    fn what_was_written_is_read() {
        let (read, addr) = parse(&serde_json::to_value(sample()).unwrap()).unwrap();
        assert_eq!((read, addr.to_string()), (sample(), "192.168.1.11:7411".to_string()));
    }

    #[test]
    fn little_is_needed_and_more_is_no_harm() {
        let least = serde_json::json!({
            "extent": "ab".repeat(16), "address": ":7411", "size_bytes": 4096, "reads_per_s": null, "new_key": [1]
        });
        let (read, addr) = parse(&least).unwrap();
        assert_eq!(addr.to_string(), "192.168.1.11:7411", "the address that it came from");
        assert_eq!(read.shown_name(), "abababab");
        assert_eq!(read.volume, None);
    }

    #[test]
    fn an_address_that_was_mapped_into_ipv6_is_as_people_know_it() {
        let mapped: IpAddr = "::ffff:192.168.1.11".parse().unwrap();
        let json = serde_json::json!({"extent": "ab".repeat(16), "address": ":1", "size_bytes": 1}).to_string();
        assert_eq!(Announcement::parse(json.as_bytes(), mapped).unwrap().1.to_string(), "192.168.1.11:1");
    }

    #[test]
    fn what_is_beyond_the_limits_is_refused_by_name() {
        let with = |key: &str, value: serde_json::Value| {
            let mut json = serde_json::to_value(sample()).unwrap();
            json[key] = value;
            parse(&json).unwrap_err().to_string()
        };
        for address in
            ["", "tablet:7411", "192.168.1.11", "0.0.0.0:7411", "192.168.1.11:0", ":0", ":+1", ":99999", "224.0.0.1:1"]
        {
            assert!(with("address", address.into()).contains("'address'"), "{address}");
        }
        assert!(with("extent", "ab".into()).contains("32 hexadecimal digits"));
        assert!(with("name", "n".repeat(64).into()).contains("'name'"));
        assert!(with("model", "a\u{1b}[31m".into()).contains("'model'"));
        assert!(with("volume", "v".repeat(257).into()).contains("'volume'"));
        assert!(with("size_bytes", 0.into()).contains("'size_bytes'"));
        assert!(with("size_bytes", "1GiB".into()).contains("docs/finding-nodes.md"));
        assert!(with("battery_percent", 101.into()).contains("'battery_percent'"));
        assert!(with("place", serde_json::json!({"index": 8, "count": 8, "layout": "linear"})).contains("'place'"));
        let long = vec![b' '; BODY_BYTES_MAX + 1];
        assert_eq!(Announcement::parse(&long, PEER), Err(BadAnnouncement::TooLong));
    }

    proptest! {
        #[test]
        fn no_body_does_harm(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Err(error) = Announcement::parse(&body, PEER) {
                prop_assert!(!error.to_string().contains(|c: char| c.is_control()), "{error}");
            }
        }

        #[test]
        fn what_is_taken_is_short_printable_and_taken_again(
            name in ".{0,70}", model in proptest::option::of(".{0,70}"), volume in proptest::option::of(".{0,300}"),
            address in "(:|[0-9.]{0,15}:|\\[[0-9a-f:]{0,20}\\]:)[0-9]{0,6}", size_bytes in any::<u64>(),
        ) {
            let told = Announcement { name, model, volume, address, size_bytes, ..sample() };
            if let Ok((read, addr)) = parse(&serde_json::to_value(told).unwrap()) {
                prop_assert!(is_usable(addr));
                prop_assert_eq!(&read.address, &addr.to_string());
                prop_assert!(read.name.len() <= NAME_BYTES_MAX && !read.name.chars().any(char::is_control));
                prop_assert_eq!(parse(&serde_json::to_value(&read).unwrap()), Ok((read, addr)));
            }
        }
    }

    #[test]
    fn texts_are_cut_where_a_character_ends() {
        assert_eq!(fitting("  a\u{1b}b\n ", 9), "ab");
        assert_eq!(fitting("ééé", 5), "éé");
    }
}

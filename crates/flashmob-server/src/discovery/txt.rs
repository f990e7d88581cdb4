//! An announcement as the TXT record of multicast DNS (RFC 6763, section 6): keys with values, 255 bytes each.
//!
//! A record has to fit a packet beside others: this one takes at most about 700 bytes, 150 as a rule. The address is
//! not in it, but in the records beside it.

use super::Notice;
use super::announcement::{Announcement, BadAnnouncement, MeasuredOver, fitting};
use crate::store::PlaceInVolume;

/// The version of the form; the first key, as RFC 6763, section 6.7 asks.
const FORM: &str = "1";
/// That of a node with keys.
const FORM_MARKED: &str = "2";
/// The mark at the end of a shortened text.
pub const CUT: char = '…';
/// The longest entry: key, `=` and value, in bytes.
const ENTRY_BYTES_MAX: usize = 255;

/// The entries, without those that are too long.
#[must_use]
pub fn entries(notice: &Notice) -> Vec<(&'static str, String)> {
    match notice {
        Notice::Open(announcement) => of_announcement(announcement),
        Notice::Marked(mark) => vec![("txtvers", FORM_MARKED.to_string()), ("mark", mark.to_string())],
    }
}

fn of_announcement(announcement: &Announcement) -> Vec<(&'static str, String)> {
    let a = announcement;
    let mut entries = vec![
        ("txtvers", FORM.to_string()),
        ("id", a.extent.to_string()),
        ("size", a.size_bytes.to_string()),
        ("name", a.name.clone()),
        ("ver", a.version.clone()),
    ];
    let mut add = |key, value: Option<String>| entries.extend(value.map(|value| (key, value)));
    add("model", a.model.clone());
    add("reads", a.reads_per_s.map(|n| n.to_string()));
    let over = |over| if over == MeasuredOver::Extent { "extent" } else { "program" };
    add("over", a.measured_over.map(|measured| over(measured).to_string()));
    add("volume", a.volume.as_deref().map(shown_volume));
    add("place", a.place.as_ref().map(|place| format!("{}/{}", place.index, place.count)));
    add("layout", a.place.as_ref().map(|place| place.layout.clone()));
    add("battery", a.battery_percent.map(|percent| percent.to_string()));
    entries.retain(|(key, value)| key.len() + 1 + value.len() <= ENTRY_BYTES_MAX);
    entries
}

/// The volume, cut with a mark if it fits no entry: the node must not seem to be free.
fn shown_volume(volume: &str) -> String {
    let room = ENTRY_BYTES_MAX - "volume=".len();
    if volume.len() <= room { volume.to_string() } else { fitting(volume, room - CUT.len_utf8()) + &CUT.to_string() }
}

/// What is said of the node at `address` by the entries that `value` looks up.
///
/// # Errors
/// If they are not within the limits of an announcement.
pub fn read<'a>(address: String, value: impl Fn(&str) -> Option<&'a str>) -> Result<Notice, BadAnnouncement> {
    if value("txtvers") == Some(FORM_MARKED) {
        let mark = value("mark").unwrap_or_default().parse();
        return mark.map(Notice::Marked).map_err(|e: crate::keys::mark::BadMark| BadAnnouncement::Form(e.to_string()));
    }
    read_announcement(address, value).map(Notice::Open)
}

fn read_announcement<'a>(
    address: String,
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<Announcement, BadAnnouncement> {
    let text = |key| value(key).map(str::to_string);
    let number = |key: &'static str| match value(key) {
        None => Ok(None),
        Some(digits) => digits.parse::<u64>().map(Some).map_err(|_| BadAnnouncement::Number(key)),
    };
    let place = |text: &str| {
        let (index, count) = text.split_once('/')?;
        let layout = value("layout").unwrap_or_default().to_string();
        Some(PlaceInVolume { index: index.parse().ok()?, count: count.parse().ok()?, layout })
    };
    let announcement = Announcement {
        extent: value("id")
            .unwrap_or_default()
            .parse()
            .map_err(|error: crate::store::extent_id::BadExtentId| BadAnnouncement::Form(error.to_string()))?,
        address,
        size_bytes: number("size")?.ok_or(BadAnnouncement::Number("size"))?,
        name: text("name").unwrap_or_default(),
        model: text("model"),
        version: text("ver").unwrap_or_default(),
        reads_per_s: number("reads")?,
        measured_over: match value("over") {
            Some("extent") => Some(MeasuredOver::Extent),
            Some("program") => Some(MeasuredOver::Program),
            _ => None,
        },
        volume: text("volume"),
        place: value("place").and_then(place),
        battery_percent: number("battery")?.map(|percent| u8::try_from(percent).unwrap_or(u8::MAX)),
    };
    announcement.check()?;
    Ok(announcement)
}

#[cfg(test)]
mod tests {
    use super::super::announcement::tests::sample;
    use super::*;
    use crate::keys::{Mark, PublicKey};

    fn read_again(notice: &Notice) -> Result<Notice, BadAnnouncement> {
        let entries = entries(notice);
        let value = |key: &str| entries.iter().find(|(k, _)| *k == key).map(|(_, value)| value.as_str());
        read(sample().address, value)
    }

    fn again(announcement: &Announcement) -> Result<Announcement, BadAnnouncement> {
        match read_again(&Notice::Open(announcement.clone()))? {
            Notice::Open(again) => Ok(again),
            marked => panic!("{marked:?}"),
        }
    }

    #[test]
    fn a_node_with_keys_says_its_mark_and_nothing_else() {
        let marked = Notice::Marked(Mark::of(PublicKey::of([1; 32]).unwrap(), sample().extent));
        assert_eq!(read_again(&marked), Ok(marked.clone()));
        assert_eq!(entries(&marked).len(), 2);
        let damaged = |key: &str| if key == "txtvers" { Some("2") } else { Some("damaged") };
        assert!(matches!(read("1.2.3.4:5".into(), damaged), Err(BadAnnouncement::Form(_))));
    }

    #[test]
    fn a_record_says_what_was_put_into_it() {
        assert_eq!(again(&sample()), Ok(sample()));
        let bare = Announcement {
            model: None,
            reads_per_s: None,
            measured_over: None,
            volume: None,
            place: None,
            battery_percent: None,
            ..sample()
        };
        assert_eq!(again(&bare), Ok(bare));
    }

    #[test]
    fn a_record_fits_a_packet() {
        let size = |a: &Announcement| of_announcement(a).iter().map(|(k, v)| k.len() + v.len() + 2).sum::<usize>();
        assert!(size(&sample()) < 200, "{}", size(&sample()));
        let full = Announcement {
            name: "n".repeat(63),
            model: Some("m".repeat(63)),
            version: "v".repeat(32),
            volume: Some("p".repeat(240)),
            ..sample()
        };
        assert!(size(&full) < 700, "{}", size(&full));
        let longer = Announcement { volume: Some("p".repeat(256)), ..sample() };
        let volume = again(&longer).unwrap().volume.unwrap();
        assert!(volume.ends_with(CUT) && volume.len() > 200, "it is not free: {volume}");
    }

    #[test]
    fn records_of_others_are_refused() {
        assert!(read("1.2.3.4:5".into(), |_| None).is_err());
        assert!(read("1.2.3.4:5".into(), |_| Some("garbage")).is_err());
    }
}

use proptest::prelude::*;

use super::*;
use crate::format::PageLayout;

/// Writes pages in the kernel's format.
struct Writer {
    begin_ns: u64,
    last_ns: u64,
    events: Vec<u8>,
}

impl Writer {
    fn new(begin_ns: u64) -> Writer {
        Writer { begin_ns, last_ns: begin_ns, events: Vec::new() }
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.events.extend(word.to_le_bytes()));
    }

    /// An event. Its length is stored separately if it is not a multiple of 4 up to 112 bytes, or if `is_apart`.
    fn event(&mut self, time_ns: u64, is_absolute: bool, is_apart: bool, data: &[u8]) {
        let mut delta = time_ns - self.last_ns;
        if is_absolute {
            self.words(&[((time_ns as u32 & 0x07ff_ffff) << 5) | 31, (time_ns >> 27) as u32]);
            delta = 0;
        } else if delta >= 1 << 27 {
            self.words(&[((delta as u32 & 0x07ff_ffff) << 5) | 30, (delta >> 27) as u32]);
            delta = 0;
        }
        let head = (delta as u32) << 5;
        let is_short = !data.is_empty() && data.len() <= 112 && data.len().is_multiple_of(4);
        if is_short && !is_apart {
            self.words(&[head | (data.len() as u32 / 4)]);
        } else {
            self.words(&[head, data.len() as u32 + 4]);
        }
        self.events.extend(data);
        self.events.resize(self.events.len().next_multiple_of(4), 0);
        self.last_ns = time_ns;
    }

    /// A discarded event.
    fn discarded(&mut self, delta: u32, bytes: usize) {
        let bytes = bytes.next_multiple_of(4);
        self.words(&[(delta.max(1) << 5) | 29, bytes as u32 + 4]);
        self.events.resize(self.events.len() + bytes, 0xaa);
        self.last_ns += if delta > 1 { u64::from(delta) } else { 0 };
    }

    fn page(&self, layout: &PageLayout, missed: Missed) -> Vec<u8> {
        let flags = match missed {
            Missed::None => 0,
            Missed::Counted(_) => 3_u64 << 30,
            Missed::Uncounted => 1 << 31,
        };
        let mut page = vec![0; layout.page_bytes()];
        let commit = (self.events.len() as u64 | flags).to_le_bytes();
        page[layout.time_offset..][..8].copy_from_slice(&self.begin_ns.to_le_bytes());
        page[layout.commit_offset..][..layout.commit_bytes].copy_from_slice(&commit[..layout.commit_bytes]);
        page[layout.data_offset..][..self.events.len()].copy_from_slice(&self.events);
        if let Missed::Counted(events) = missed {
            page[layout.data_offset + self.events.len()..][..layout.commit_bytes]
                .copy_from_slice(&events.to_le_bytes()[..layout.commit_bytes]);
        }
        page
    }
}

const NARROW: PageLayout =
    PageLayout { time_offset: 0, commit_offset: 8, commit_bytes: 4, data_offset: 12, data_bytes: 4084 };
const USUAL: PageLayout = PageLayout::USUAL;

fn all<'a>(layout: &PageLayout, bytes: &'a [u8]) -> (Vec<(u64, &'a [u8])>, usize) {
    let Some(page) = Page::parse(layout, bytes) else { return (Vec::new(), bytes.len()) };
    let mut events = page.events();
    let found = events.by_ref().collect();
    (found, events.unreadable_bytes())
}

#[test]
fn events_of_every_sort_have_their_times() {
    let mut writer = Writer::new(1_000_000);
    writer.event(1_000_000, false, false, b"abcd");
    writer.event(1_000_007, false, true, b"length apart"); // 12 bytes
    writer.event(1_000_007 + (5 << 27), false, false, &[7; 112]);
    writer.discarded(20, 8);
    writer.event(1_000_040 + (5 << 27), false, false, &[8; 200]);
    writer.discarded(0, 4);
    writer.event(1_000_050 + (6 << 27), true, false, b"time");
    writer.words(&[29, 0x55, 0x55]);
    let page = writer.page(&USUAL, Missed::None);
    let (events, unreadable) = all(&USUAL, &page);
    let found: Vec<(u64, usize)> = events.iter().map(|(time_ns, data)| (time_ns - 1_000_000, data.len())).collect();
    let far = 5_u64 << 27;
    assert_eq!(found, [(0, 4), (7, 12), (7 + far, 112), (40 + far, 200), (50 + (6 << 27), 4)]);
    assert_eq!((unreadable, events[1].1), (0, &b"length apart"[..]));
}

#[test]
fn a_time_stamp_gets_the_bits_that_have_no_room_in_it() {
    let high = 3_u64 << 59;
    for (begin, time) in [(high | 5, high | 9), (high | ((1 << 59) - 2), (4 << 59) | 3), (7, 9)] {
        let mut writer = Writer::new(begin);
        writer.event(time, true, false, b"abcd");
        assert_eq!(all(&USUAL, &writer.page(&USUAL, Missed::None)).0, [(time, &b"abcd"[..])], "{begin:#x}");
    }
}

#[test]
fn pages_say_what_was_lost_before_them() {
    for layout in [USUAL, NARROW] {
        for missed in [Missed::None, Missed::Counted(7), Missed::Uncounted] {
            let mut writer = Writer::new(5);
            writer.event(6, false, false, b"abcd");
            let page = writer.page(&layout, missed);
            assert_eq!(Page::parse(&layout, &page).unwrap().missed, missed);
            assert_eq!(all(&layout, &page), (vec![(6, &b"abcd"[..])], 0));
        }
    }
    // A full page has no room for the count.
    let mut writer = Writer::new(5);
    writer.event(6, true, true, &vec![1; 4080 - 16]);
    let page = writer.page(&USUAL, Missed::Uncounted);
    let mut lies = page.clone();
    lies[11] |= 0x40;
    assert_eq!(Page::parse(&USUAL, &lies).unwrap().missed, Missed::Uncounted);
    assert_eq!(all(&USUAL, &lies).0.len(), 1);
}

#[test]
fn losses_of_damaged_pages_do_not_run_over() {
    let pages = [Missed::Counted(u64::MAX), Missed::Counted(3)].map(|missed| Writer::new(0).page(&USUAL, missed));
    let stream = Stream { layout: &USUAL, cpu: 0, pages: pages.iter().map(Vec::as_slice) };
    assert_eq!(merge(&Formats::new(&[]), [stream]).1.missed, u64::MAX);
}

#[test]
fn damage_costs_the_rest_of_its_page_and_is_counted() {
    let mut writer = Writer::new(0);
    writer.event(1, false, false, b"good");
    let good = writer.events.len();
    for bad in [
        vec![0, 3],                       // a length that does not hold itself
        vec![0, u32::MAX],                // longer than everything
        vec![28],                         // data that is not there
        vec![30],                         // a time without its second half
        vec![(1 << 5) | 29, 0x0fff_fff0], // thrown away beyond the end
        vec![(1 << 5) | 29],
    ] {
        let mut writer = Writer { begin_ns: 0, last_ns: 1, events: writer.events.clone() };
        writer.words(&bad);
        let page = writer.page(&USUAL, Missed::None);
        let (events, unreadable) = all(&USUAL, &page);
        assert_eq!((events.len(), unreadable), (1, writer.events.len() - good), "{bad:x?}");
    }
    let page = writer.page(&USUAL, Missed::None);
    assert_eq!(all(&USUAL, &page[..20]), (vec![], 8), "the page is cut within its first event");
    assert_eq!(all(&USUAL, &page[..15]), (vec![], 15), "not even its head is there");
    let mut long = page.clone();
    long[8..12].copy_from_slice(&0x07ff_ffff_u32.to_le_bytes());
    let (events, unreadable) = all(&USUAL, &long[..24]);
    assert_eq!((events.len(), unreadable), (1, 4080 - 8), "it lies about its length");
}

fn format(id: u16) -> EventFormat {
    let text = format!("name: event{id}\nID: {id}\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n");
    EventFormat::parse("some", &text).unwrap()
}

/// Data of an event of that kind, by that thread.
fn data(id: u16, thread: u32) -> Vec<u8> {
    [u32::from(id).to_le_bytes(), thread.to_le_bytes()].concat()
}

#[test]
fn processors_are_merged_by_time_and_ties_keep_their_order() {
    let formats = [format(3), format(900)];
    let mut pages = Vec::new();
    for (cpu, times) in [[10_u64, 20, 30], [10, 25, 30], [5, 10, 40]].into_iter().enumerate() {
        let mut writer = Writer::new(0);
        times.iter().for_each(|time| writer.event(*time, false, false, &data(900, cpu as u32)));
        pages.push(writer.page(&USUAL, Missed::Counted(2)));
    }
    let mut unknown = Writer::new(50);
    unknown.event(50, false, false, &data(4, 1));
    unknown.event(51, false, false, &data(3, 1)[..4]);
    pages.push(unknown.page(&USUAL, Missed::None));
    let streams = pages.iter().enumerate().map(|(cpu, page)| Stream {
        layout: &USUAL,
        cpu: cpu as u32,
        pages: std::iter::once(&page[..]),
    });
    let (records, counted) = merge(&Formats::new(&formats), streams);
    let order: Vec<(u64, u32)> = records.iter().map(|record| (record.time_ns, record.cpu)).collect();
    assert_eq!(order, [(5, 2), (10, 0), (10, 1), (10, 2), (20, 0), (25, 1), (30, 0), (30, 1), (40, 2)]);
    assert!(records.iter().all(|record| record.is("some", "event900") && record.thread == record.cpu));
    assert_eq!(
        counted,
        Counted { events: 9, missed: 6, unreadable_bytes: 12 },
        "an unknown one, and one without a thread"
    );
}

/// An operation of the generated writer.
#[derive(Clone, Debug)]
enum Step {
    Event { delta: u64, is_absolute: bool, is_apart: bool, bytes: usize },
    Discarded { delta: u32, bytes: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let delta = prop_oneof![0_u64..5, 0..1_u64 << 28, 0..1_u64 << 45];
    let event = (delta, any::<bool>(), any::<bool>(), 0_usize..130)
        .prop_map(|(delta, is_absolute, is_apart, bytes)| Step::Event { delta, is_absolute, is_apart, bytes });
    let discarded = (0_u32..1 << 27, 0_usize..40).prop_map(|(delta, bytes)| Step::Discarded { delta, bytes });
    proptest::collection::vec(prop_oneof![4 => event, 1 => discarded], 0..25)
}

proptest! {
    #[test]
    fn what_is_written_is_read(begin in 0..1_u64 << 62, steps in steps(), is_narrow: bool) {
        let layout = if is_narrow { NARROW } else { USUAL };
        let (mut writer, mut expected) = (Writer::new(begin), Vec::new());
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Event { delta, is_absolute, is_apart, bytes } => {
                    let (time, data) = (writer.last_ns + delta, vec![at as u8; bytes]);
                    writer.event(time, is_absolute, is_apart, &data);
                    expected.push((time, data));
                }
                Step::Discarded { delta, bytes } => writer.discarded(delta, bytes),
            }
        }
        let page = writer.page(&layout, Missed::None);
        let (events, unreadable) = all(&layout, &page);
        let events: Vec<(u64, Vec<u8>)> = events.into_iter().map(|(time, data)| (time, data.to_vec())).collect();
        prop_assert_eq!(events, expected);
        prop_assert_eq!(unreadable, 0);
    }

    #[test]
    fn no_page_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), commit in 0_u64..400, flags in 0_u64..4) {
        let mut bytes = bytes;
        if let Some(place) = bytes.get_mut(8..16) {
            place.copy_from_slice(&(commit | (flags << 30)).to_le_bytes());
        }
        for layout in [USUAL, NARROW, PageLayout { data_bytes: 64, ..USUAL }] {
            let (events, unreadable) = all(&layout, &bytes);
            let read: usize = events.iter().map(|(_, data)| data.len()).sum();
            prop_assert!(read + unreadable <= layout.page_bytes().max(bytes.len()));
        }
    }
}

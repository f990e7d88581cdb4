//! What the kernel tells of itself: layouts of events as text, and raw pages.

use flashmob_trace::format::{EventFormat, PageLayout, Shape};
use flashmob_trace::record::{Formats, Page, Stream, merge};

/// Fields that are numbers, text in place, and text elsewhere.
const SAMPLE: &str = "name: sample
ID: 3
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int dfd;\toffset:8;\tsize:8;\tsigned:0;
\tfield:char rwbs[4];\toffset:16;\tsize:4;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:20;\tsize:4;\tsigned:0;
\tfield:__rel_loc char[] path;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char buf[];\toffset:28;\tsize:0;\tsigned:0;

print fmt: \"%s\", REC->buf
";
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";
/// So small that inputs have several of them.
const SMALL: PageLayout =
    PageLayout { time_offset: 0, commit_offset: 8, commit_bytes: 8, data_offset: 16, data_bytes: 112 };
/// As processors of 32 bits have it.
const NARROW: PageLayout =
    PageLayout { time_offset: 0, commit_offset: 8, commit_bytes: 4, data_offset: 12, data_bytes: 116 };

/// Reads the input as a layout; then as a record of that layout.
///
/// # Panics
/// If a value lies outside of its record: that is a finding.
pub fn format(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(layout) = PageLayout::parse(&text) {
        assert!(matches!(layout.commit_bytes, 4 | 8) && layout.page_bytes() < 1 << 26);
    }
    let _ = PageLayout::check_events(&text);
    match EventFormat::parse("some", &text) {
        Ok(format) => values(&format, data),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("the format of ") && message.len() < 2000, "{message}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
}

fn values(format: &EventFormat, data: &[u8]) {
    assert!(!format.name.is_empty());
    for field in &format.fields {
        assert!(
            !field.name.is_empty() && field.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "{field:?}"
        );
        let (number, text, bytes) = (field.number(data), field.text(data), field.bytes(data));
        assert!(
            number.is_none() || (field.shape == Shape::Number && field.offset + field.size <= data.len()),
            "{field:?}"
        );
        assert!(text.is_none() || (bytes.is_some() && field.shape != Shape::Number), "{field:?}");
        assert!(bytes.is_none_or(|bytes| bytes.len() <= data.len()), "{field:?}");
    }
}

/// Reads the input, behind its first byte, as pages of two processors.
///
/// # Panics
/// If counts do not add up, or times run backwards: those are findings.
pub fn page(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let layout = [PageLayout::USUAL, SMALL, NARROW][usize::from(first % 3)];
    for page in data.chunks(layout.page_bytes()) {
        let Some(head) = Page::parse(&layout, page) else { continue };
        let (mut events, mut bytes) = (head.events(), 0);
        for (_, data) in events.by_ref() {
            bytes += data.len();
        }
        assert!(bytes + events.unreadable_bytes() <= head.declared_bytes, "{head:?}");
        assert!(head.declared_bytes <= layout.data_bytes, "{head:?}");
    }
    let Ok(sample) = EventFormat::parse("some", SAMPLE) else { panic!("the sample is no layout") };
    let samples = [sample];
    let formats = Formats::new(&samples);
    let (one, other) = data.split_at(data.len() / 2);
    let streams = [one, other].into_iter().zip(0..).map(|(half, cpu)| Stream {
        layout: &layout,
        cpu,
        pages: half.chunks(layout.page_bytes()),
    });
    let (records, counted) = merge(&formats, streams);
    assert_eq!(counted.events, records.len() as u64);
    assert!(records.is_sorted_by_key(|record| record.time_ns), "times run backwards");
    for record in &records {
        assert_eq!(record.number("common_pid"), Some(i64::from(record.thread as i32) as u64));
        values(record.format, record.data);
    }
}

/// Layouts to begin with.
#[must_use]
pub fn format_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let event = "\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\tdata max type_len  == 28\n";
    let odd = "name: odd\nID: 9\n\tfield special:char comm[TASK_COMM_LEN + 1];\toffset:8;\tsize:17;\n\tfield:__data_loc cpumask_t * mask;\toffset:0;\tsize:4;\tsigned:0;\n";
    vec![
        ("event", SAMPLE.into()),
        ("odd", odd.into()),
        ("header_page", HEADER_PAGE.into()),
        ("header_event", event.into()),
        ("refused", "name: a\nID: 70000\n".into()),
    ]
}

/// Pages to begin with: events of every sort, several pages, losses, damage.
#[must_use]
pub fn page_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let sample = {
        let place = |begin: u32| begin | 5 << 16;
        let words = [3, 77, 0xffff_ff9c, 0, u32::from_le_bytes(*b"WSM\0"), place(28), place(0)];
        [words.map(u32::to_le_bytes).concat(), b"tail\0\0\0\0".to_vec()].concat()
    };
    let event =
        |delta: u32| [((delta << 5) | (sample.len() as u32 / 4)).to_le_bytes().to_vec(), sample.clone()].concat();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let apart = [words(&[7 << 5, sample.len() as u32 + 4]), sample.clone()].concat();
    let discarded = words(&[9 << 5 | 29, 8, 0]);
    let all =
        [event(0), words(&[5 << 5 | 30, 2]), apart, discarded, words(&[31, 1 << 20]), event(3), words(&[29])].concat();
    let page = |layout: &PageLayout, events: &[u8], flags: u32| {
        let mut page = vec![0; layout.page_bytes()];
        page[0] = 100;
        page[8..12].copy_from_slice(&(events.len() as u32 | flags).to_le_bytes());
        page[layout.data_offset..][..events.len()].copy_from_slice(events);
        page
    };
    let small =
        [page(&SMALL, &event(1), 0), page(&SMALL, &event(2), 3 << 30), page(&SMALL, &event(3), 1 << 31)].concat();
    let narrow = [page(&NARROW, &event(1), 0), page(&NARROW, &event(2), 3 << 30)].concat();
    let with = |first: u8, pages: &[u8]| [&[first], pages].concat();
    let whole = page(&PageLayout::USUAL, &all, 0);
    vec![
        // Only as much of the page as is used.
        ("every_sort", with(0, &whole[..16 + all.len()])),
        ("pages", with(1, &small)),
        ("narrow", with(2, &narrow)),
        ("cut", with(0, &whole[..90])),
    ]
}

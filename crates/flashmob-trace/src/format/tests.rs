use proptest::prelude::*;

use super::*;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

/// One field of every shape that kernels use.
const FORMAT: &str = "name: sample
ID: 1234
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:char rwbs[10];	offset:24;	size:10;	signed:0;
	field:short error;	offset:34;	size:2;	signed:1;
	field:signed char tiny;	offset:36;	size:1;	signed:1;
	field:__data_loc char[] cmd;	offset:40;	size:4;	signed:0;
	field:__rel_loc char[] path;	offset:44;	size:4;	signed:0;
	field:const char * filename;	offset:48;	size:8;	signed:0;
	field:int dfd;	offset:56;	size:8;	signed:0;
	field:unsigned long args[2];	offset:64;	size:16;	signed:0;
	field:char comm[TASK_COMM_LEN + 1];	offset:80;	size:4;	signed:1;
	field:struct timespec at;	offset:84;	size:12;	signed:0;
	field:char buf[];	offset:96;	size:0;	signed:0;

print fmt: \"field:%d,%d %s\", ((unsigned int) ((REC->dev) >> 20)), REC->rwbs
";

fn sample() -> EventFormat {
    EventFormat::parse("some", FORMAT).unwrap()
}

/// A record in this format, followed by its strings.
fn record() -> Vec<u8> {
    let mut data = vec![0; 96];
    let mut put = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &1234_u16.to_le_bytes());
    put(4, &77_u32.to_le_bytes());
    put(8, &(7_u32 << 20 | 3).to_le_bytes());
    put(16, &(1_u64 << 40).to_le_bytes());
    put(24, b"WSM\0rubbish"[..10].try_into().unwrap());
    put(34, &(-5_i16).to_le_bytes());
    put(36, &(-1_i8).to_le_bytes());
    // "tail" is at 101 (4 bytes and its NUL), also when counted from the end of its field.
    put(40, &(101_u32 | 5 << 16).to_le_bytes());
    put(44, &((101 - 48) | 5_u32 << 16).to_le_bytes());
    put(48, &0x7fff_0000_1234_u64.to_le_bytes());
    put(56, &0xffff_ff9c_u64.to_le_bytes());
    put(64, &9_u64.to_le_bytes());
    put(80, b"full");
    data.extend(b"open\0tail\0");
    data
}

#[test]
fn values_of_every_shape_are_read() {
    let (format, data) = (sample(), record());
    assert_eq!((format.name.as_str(), format.id, format.fields.len()), ("sample", 1234, 17));
    let number = |name: &str| format.field(name).unwrap().number(&data);
    let text = |name: &str| format.field(name).unwrap().text(&data);
    assert_eq!(number("common_pid"), Some(77));
    assert_eq!(number("dev"), Some(7 << 20 | 3));
    assert_eq!(number("sector"), Some(1 << 40));
    assert_eq!(number("error"), Some(-5_i64 as u64));
    assert_eq!(number("tiny"), Some(-1_i64 as u64));
    assert_eq!(number("filename"), Some(0x7fff_0000_1234));
    assert_eq!(number("dfd"), Some(-100_i64 as u64), "an int in a register has only its lower half");
    assert_eq!(text("rwbs").as_deref(), Some("WSM"));
    assert_eq!(text("cmd").as_deref(), Some("tail"));
    assert_eq!(text("path").as_deref(), Some("tail"));
    assert_eq!(text("comm").as_deref(), Some("full"), "without a NUL");
    assert_eq!(text("buf").as_deref(), Some("open"), "an array without an end goes on to the record's");
    assert_eq!(format.field("args").unwrap().bytes(&data), Some(&data[64..80]));
    assert_eq!(format.field("args").unwrap().c_type, "unsigned long[2]");
    assert_eq!(format.field("at").unwrap().bytes(&data).map(<[u8]>::len), Some(12));
    assert_eq!((number("rwbs"), number("cmd"), text("dev"), text("args"), text("at")), (None, None, None, None, None));
}

#[test]
fn nothing_is_read_from_outside_of_a_record() {
    let (format, mut data) = (sample(), record());
    for field in format.fields.iter().filter(|field| field.size > 0) {
        let cut = &data[..field.offset + field.size - 1];
        assert_eq!((field.number(cut), field.text(cut), field.bytes(cut)), (None, None, None), "{}", field.name);
    }
    assert_eq!(format.field("buf").unwrap().text(&data[..96]).as_deref(), Some(""));
    assert_eq!(format.field("buf").unwrap().text(&data[..95]), None);
    // Locations outside the record, one with a sum that overflows 16 bits.
    for place in [0xffff_ffff_u32, 5 << 16 | 110, 110 | 1 << 16] {
        data[40..44].copy_from_slice(&place.to_le_bytes());
        data[44..48].copy_from_slice(&place.to_le_bytes());
        assert_eq!(format.field("cmd").unwrap().text(&data), None);
        assert_eq!(format.field("path").unwrap().bytes(&data), None);
    }
}

#[test]
fn what_is_no_format_is_refused_with_a_reason() {
    let refused = |text: &str| EventFormat::parse("some", text).unwrap_err().to_string();
    assert_eq!(refused(""), "the format of an event of 'some' has no line 'name:'");
    assert_eq!(refused("name: a\n"), "the format of an event of 'some' has no line 'ID:'");
    assert!(refused("name: a\nID: 70000\n").contains("'70000' where a number up to 65535"));
    for field in [
        "field:int;",
        "field:int a;",
        "field:int a;\toffset:-1;\tsize:4;",
        "field:__data_loc char[] a;\toffset:0;\tsize:8;",
    ] {
        let why = refused(&format!("name: a\nID: 1\nformat:\n\t{field}\n"));
        assert!(why.starts_with("the format of some:a has a field that cannot be understood: 'field:"), "{why}");
    }
}

#[test]
fn the_layout_of_pages_is_read() {
    assert_eq!(PageLayout::parse(HEADER_PAGE), Ok(PageLayout::USUAL));
    let narrow = HEADER_PAGE
        .replace("offset:8;\tsize:8", "offset:8;\tsize:4")
        .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
    let narrow = PageLayout::parse(&narrow).unwrap();
    assert_eq!((narrow.commit_bytes, narrow.data_offset, narrow.page_bytes()), (4, 12, 4096));
    assert_eq!(PageLayout::parse(&HEADER_PAGE.replace("timestamp", "time")), Err(HeaderError::Page("timestamp")));
    assert_eq!(PageLayout::parse(&HEADER_PAGE.replace("4080", "4000000000")), Err(HeaderError::Page("data")));
    assert_eq!(
        PageLayout::parse(&HEADER_PAGE.replace("offset:8;\tsize:8", "offset:8;\tsize:2")),
        Err(HeaderError::Page("commit"))
    );
}

#[test]
fn events_that_begin_differently_are_refused() {
    assert_eq!(PageLayout::check_events(HEADER_EVENT), Ok(()));
    for (from, to, name) in [
        ("27 bits", "26 bits", "time_delta"),
        ("type == 30", "type == 28", "time_extend"),
        ("== 28", "== 27", "data max type_len"),
    ] {
        assert_eq!(PageLayout::check_events(&HEADER_EVENT.replace(from, to)), Err(HeaderError::Event(name)));
    }
}

proptest! {
    #[test]
    fn no_text_and_no_record_panics(text in "(name: [a-z]{0,3}\n)?(ID: [0-9]{0,6}\n)?(\tfield:[ -~]{0,30}(;\t(offset|size|signed):[0-9]{0,20}){0,4};?\n){0,4}", data in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = PageLayout::parse(&text);
        let _ = PageLayout::check_events(&text);
        if let Ok(format) = EventFormat::parse("some", &text) {
            for field in &format.fields {
                let _ = (field.number(&data), field.text(&data), field.bytes(&data));
            }
        }
    }

    #[test]
    fn places_elsewhere_lie_within_or_give_nothing(place: u32, bytes in 48_usize..200) {
        let mut data = vec![0; bytes];
        data[40..44].copy_from_slice(&place.to_le_bytes());
        data[44..48].copy_from_slice(&place.to_le_bytes());
        for name in ["cmd", "path"] {
            let (format, long) = (sample(), (place >> 16) as usize);
            prop_assert!(format.field(name).unwrap().bytes(&data).is_none_or(|found| found.len() == long));
        }
    }
}

//! Linux 6.1 on an SD card: four INSERTs of SQLite, recorded by tests/mmc/record, against what that kernel itself wrote down of them as text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flashmob_results::trace::{Layer, Role, Span, Timeline};
use flashmob_trace::capture::Capture;
use flashmob_trace::join::join;
use flashmob_trace::record::Record;
use flashmob_trace::surroundings::{BlockDevice, NamedFile, Surroundings};

/// The card, and its partition with ext4, which begins at 1 MiB.
const CARD: u32 = 179 << 20;
const PARTITION: u32 = CARD | 1;
const PARTITION_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: u64 = 4096;
const INSERTS: usize = 4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/linux-6.1")
}

/// What the kernel told, by events: a line for each, with what matters of it.
fn told() -> BTreeMap<String, Vec<String>> {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in std::fs::read_to_string(folder().join("kernel.txt")).unwrap().lines() {
        let (event, values) = line.split_once(' ').unwrap_or((line, ""));
        told.entry(event.into()).or_default().push(values.into());
    }
    told
}

/// The same line of an event out of the pages.
fn line(record: &Record<'_>) -> String {
    let number = |field: &str| record.number(field).unwrap_or_else(|| panic!("{} has no {field}", record.format.name));
    let text = |field: &str| record.text(field).unwrap().into_owned();
    let numbers = |fields: &[&str]| fields.iter().map(|f| number(f).to_string()).collect::<Vec<_>>().join(" ");
    let in_hex = |fields: &[&str]| fields.iter().map(|f| format!("{:x}", number(f))).collect::<Vec<_>>().join(" ");
    match record.format.name.as_str() {
        name if name.starts_with("block_") => {
            let device = number("dev");
            let (major, minor) = (device >> 20, device & 0xf_ffff);
            format!("{major},{minor} {} {}", text("rwbs"), numbers(&["sector", "nr_sector"]))
        }
        "mmc_request_start" => format!("{} {}", text("name"), numbers(&["cmd_opcode", "blocks", "blk_addr"])),
        "mmc_request_done" => format!("{} {}", text("name"), numbers(&["cmd_opcode", "bytes_xfered"])),
        "ext4_da_write_begin" => numbers(&["ino", "pos", "len"]),
        "ext4_allocate_blocks" => numbers(&["ino", "block", "len"]),
        "ext4_sync_file_enter" => numbers(&["ino"]),
        name if name.starts_with("jbd2_") => numbers(&["transaction"]),
        name if name.starts_with("sys_exit_") => format!("{:#x}", number("ret")),
        "sys_enter_pread64" | "sys_enter_pwrite64" => in_hex(&["fd", "buf", "count", "pos"]),
        "sys_enter_fdatasync" => in_hex(&["fd"]),
        "sys_enter_unlink" => in_hex(&["pathname"]),
        _ => String::new(),
    }
}

/// What is known of the machine besides its events.
fn surroundings() -> Surroundings {
    Surroundings {
        files: vec![NamedFile {
            path: "/mnt/test.db".into(),
            role: Role::Database,
            device: PARTITION,
            inode: 12,
            from_ns: 0,
            until_ns: u64::MAX,
            extents: Vec::new(),
        }],
        devices: vec![BlockDevice {
            number: PARTITION,
            disk_number: CARD,
            begin_bytes: PARTITION_BYTES,
            name: "mmcblk0p1".into(),
            filesystem: "ext4".into(),
            block_bytes: BLOCK_BYTES,
            ..BlockDevice::default()
        }],
        ..Surroundings::default()
    }
}

fn spans<'a>(timeline: &'a Timeline, layer: Layer, name: &str) -> Vec<&'a Span> {
    timeline.spans.iter().filter(|span| span.layer == layer && timeline.name(span.name) == name).collect()
}

fn role(timeline: &Timeline, span: &Span) -> Role {
    span.file.map_or(Role::Unknown, |file| timeline.files[file as usize].role)
}

#[test]
fn every_event_is_the_one_that_the_kernel_wrote_down() {
    let capture = Capture::load(&folder()).unwrap();
    assert!(capture.kernel.starts_with("6.1."));
    assert_eq!((capture.losses.lost, capture.losses.unreadable_bytes), (0, 0));
    let records = capture.records();
    assert_eq!(records.len() as u64, capture.losses.events);
    assert!(records.is_sorted_by_key(|record| record.time_ns));
    let told = told();
    assert!(told.len() >= 25, "too little to compare with: {:?}", told.keys());
    for (event, lines) in told {
        let ours = records.iter().filter(|record| record.format.name == event).map(line);
        assert_eq!(ours.collect::<Vec<_>>(), lines, "{event}");
    }
}

#[test]
fn commands_of_the_card_are_joined_with_requests_and_files() {
    let capture = Capture::load(&folder()).unwrap();
    let timeline = join(&capture, &surroundings());
    timeline.check().unwrap();
    let told = told();

    // Each command, in their order, with its place.
    let starts = told["mmc_request_start"].iter().map(|line| {
        let numbers: Vec<u64> = line.split(' ').skip(1).map(|number| number.parse().unwrap()).collect();
        (numbers[0], (numbers[1] > 0).then_some(numbers[2] * 512))
    });
    let starts: Vec<(u64, Option<u64>)> = starts.collect();
    let commands = timeline.spans.iter().filter_map(|span| {
        let code = timeline.name(span.name).strip_prefix("mmc CMD")?;
        Some((code.parse().unwrap(), span.address_bytes))
    });
    assert_eq!(commands.collect::<Vec<_>>(), starts);

    // The card is asked after each write whether it is done, also when the next request is on its way already.
    let writes = spans(&timeline, Layer::Driver, "mmc CMD25");
    let asked = spans(&timeline, Layer::Driver, "mmc CMD13");
    let requests = spans(&timeline, Layer::Driver, "write");
    assert_eq!((writes.len(), asked.len(), requests.len()), (27, 27, 27));
    for span in asked {
        let last = writes.iter().rfind(|write| write.begin_ns < span.begin_ns).unwrap();
        assert_eq!(span.file, last.file);
    }
    for write in &writes {
        let of = requests.iter().find(|request| {
            request.address_bytes == write.address_bytes
                && request.begin_ns <= write.begin_ns
                && write.end_ns <= request.end_ns
        });
        assert_eq!(write.file, of.unwrap().file);
    }

    // The journal lies where ext4 allocated blocks for it; the rest of what is no metadata is the database.
    let extents: Vec<std::ops::Range<u64>> = told["ext4_allocate_blocks"]
        .iter()
        .map(|line| {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            let begin = PARTITION_BYTES + numbers[1] * BLOCK_BYTES;
            begin..begin + numbers[2] * BLOCK_BYTES
        })
        .collect();
    let of = |wanted: Role| -> Vec<u64> {
        writes.iter().filter(|span| role(&timeline, span) == wanted).filter_map(|span| span.address_bytes).collect()
    };
    let journal = of(Role::Journal);
    assert!(journal.iter().all(|at| extents.iter().any(|extent| extent.contains(at))));
    let data: Vec<u64> = told["block_rq_issue"]
        .iter()
        .filter(|line| line.contains(" WS "))
        .map(|line| line.split(' ').nth(2).unwrap().parse::<u64>().unwrap() * 512)
        .collect();
    let (in_journal, elsewhere): (Vec<u64>, Vec<u64>) =
        data.into_iter().partition(|at| extents.iter().any(|extent| extent.contains(at)));
    assert_eq!(journal, in_journal);
    assert_eq!(of(Role::Database), elsewhere);
    assert_eq!((journal.len(), elsewhere.len()), (2 * INSERTS, INSERTS));
}

#[test]
fn system_calls_have_the_names_of_their_files() {
    let timeline = join(&Capture::load(&folder()).unwrap(), &surroundings());
    let of = |call: &str, wanted: Role| {
        spans(&timeline, Layer::SystemCall, call).iter().filter(|span| role(&timeline, span) == wanted).count()
    };
    // SQLite writes a header, pages and checksums to the journal: 8; then 2 pages of the database.
    assert_eq!((of("pwrite64", Role::Journal), of("pwrite64", Role::Database)), (8 * INSERTS, 2 * INSERTS));
    assert_eq!((of("fdatasync", Role::Journal), of("fdatasync", Role::Database)), (2 * INSERTS, INSERTS));
    assert_eq!(of("unlink", Role::Journal), INSERTS);
}

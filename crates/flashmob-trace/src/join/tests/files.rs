//! Names are valid for a period of time.

use flashmob_results::trace::{Layer, Role};

use super::builder::{DEVICE, Events, WORKER, file, spans, surroundings};
use crate::surroundings::NamedFile;

fn named(path: &str, role: Role, inode: u64, from_ns: u64, until_ns: u64) -> NamedFile {
    NamedFile {
        path: path.into(),
        role,
        device: u32::try_from(DEVICE).unwrap(),
        inode,
        from_ns,
        until_ns,
        extents: Vec::new(),
    }
}

#[test]
fn an_inode_that_is_used_again_has_another_name() {
    let mut known = surroundings(&[(0, 10_000)]);
    known.files.push(named("/mnt/db-journal", Role::Journal, 13, 1_000, 2_000));
    known.files.push(named("/mnt/notes", Role::Other, 13, 5_000, u64::MAX));
    let mut events = Events::default();
    events
        .inode(1_500, WORKER, "ext4:ext4_allocate_inode", 13)
        .inode(2_500, WORKER, "ext4:ext4_free_inode", 13)
        .inode(5_500, WORKER, "ext4:ext4_allocate_inode", 13)
        .inode(500, WORKER, "ext4:ext4_allocate_inode", 13)
        .inode(600, WORKER, "ext4:ext4_allocate_inode", 77);
    let timeline = events.join(&known);
    let name = |name: &str, at: usize| file(&timeline, spans(&timeline, Layer::FileSystem, name)[at]).to_string();
    assert_eq!(name("new inode", 0), "inode 13 of loop0", "before it had a name, and it had two");
    assert_eq!(name("new inode", 1), "inode 77 of loop0");
    assert_eq!(name("new inode", 2), "/mnt/db-journal");
    assert_eq!(name("free inode", 0), "/mnt/db-journal", "closed, and nobody's else yet");
    assert_eq!(name("new inode", 3), "/mnt/notes");
}

#[test]
fn a_descriptor_gets_its_name_by_what_the_file_system_says_of_it_later() {
    let mut events = Events::default();
    events
        .enter(100, "fcntl", 3)
        .exit(110, "fcntl", 0)
        .enter(200, "pwrite64", 3)
        .inode(210, WORKER, "ext4:ext4_da_write_begin", 12)
        .exit(220, "pwrite64", 4096)
        .enter(300, "close", 3)
        .exit(310, "close", 0)
        .enter(400, "fcntl", 3)
        .exit(410, "fcntl", 0);
    let timeline = events.join(&surroundings(&[(0, 1_000)]));
    let of = |at: usize| file(&timeline, spans(&timeline, Layer::SystemCall, "fcntl")[at]).to_string();
    assert_eq!(of(0), "/mnt/db", "it was the same descriptor");
    assert_eq!(of(1), "", "it was closed between, and what is open now nobody knows");
    assert_eq!(spans(&timeline, Layer::SystemCall, "pwrite64")[0].bytes, 4096);
}

#[test]
fn names_that_calls_were_given_name_their_files() {
    let mut events = Events::default();
    let text = |path: &str| [("bpf_string", format!("flashmob openat n {path}").as_str().into())];
    events
        .at(90, WORKER, "bpf_trace:bpf_trace_printk", &text("a-journal"))
        .enter(100, "openat", 0)
        .inode(120, WORKER, "ext4:ext4_allocate_inode", 44)
        .exit(150, "openat", 5)
        .enter(200, "pwrite64", 5)
        .exit(220, "pwrite64", 512)
        .inode(250, 900, "ext4:ext4_free_inode", 44)
        .enter(300, "openat", 0)
        .at(301, WORKER, "bpf_trace:bpf_trace_printk", &text("a"))
        .exit(310, "openat", u64::MAX - 1)
        .enter(400, "pwrite64", 6)
        .exit(420, "pwrite64", 512);
    let timeline = events.join(&surroundings(&[(0, 1_000)]));
    let of = |name: &str, at: usize| {
        let span = spans(&timeline, Layer::SystemCall, name)[at];
        span.file.map(|file| (timeline.files[file as usize].name.clone(), timeline.files[file as usize].role))
    };
    assert_eq!(of("openat", 0), Some(("a-journal".into(), Role::Journal)));
    assert_eq!(of("pwrite64", 0), Some(("a-journal".into(), Role::Journal)));
    assert_eq!(of("openat", 1), Some(("a".into(), Role::Database)), "for it has a journal; it could not be opened");
    assert_eq!(of("pwrite64", 1), None);
    assert_eq!(file(&timeline, spans(&timeline, Layer::FileSystem, "free inode")[0]), "a-journal");
}

#[test]
fn threads_share_descriptors_and_children_copy_them() {
    let task = |pid: u64, flags: u64| [("pid", pid.into()), ("clone_flags", flags.into())];
    let by = |events: &mut Events, time: u64, thread: u32, fd: u64| {
        events.at(time, thread, "syscalls:sys_enter_fsync", &[("fd", fd.into())]);
        events.at(time + 5, thread, "syscalls:sys_exit_fsync", &[("ret", 0.into())]);
    };
    let mut events = Events::default();
    events.enter(100, "pwrite64", 3).inode(105, WORKER, "ext4:ext4_da_write_begin", 12).exit(110, "pwrite64", 1);
    events.at(120, WORKER, "task:task_newtask", &task(101, 0x10000)).at(
        130,
        WORKER,
        "task:task_newtask",
        &task(102, 0),
    );
    by(&mut events, 200, 101, 3);
    by(&mut events, 210, 102, 3);
    by(&mut events, 220, 103, 3);
    let timeline = events.join(&surroundings(&[(0, 1_000)]));
    let of = |at: usize| file(&timeline, spans(&timeline, Layer::SystemCall, "fsync")[at]).to_string();
    assert_eq!((of(0), of(1), of(2)), ("/mnt/db".into(), "/mnt/db".into(), String::new()));
}

#[test]
fn blocks_belong_to_the_file_that_lay_there_then() {
    let map = |events: &mut Events, time: u64, inode: u64| {
        let fields = [
            ("dev", DEVICE.into()),
            ("ino", inode.into()),
            ("logical", 0.into()),
            ("block", 100.into()),
            ("len", 4.into()),
        ];
        events.at(time, WORKER, "ext4:ext4_allocate_blocks", &fields);
    };
    let mut known = surroundings(&[(0, 10_000)]);
    known.files.push(named("/mnt/old", Role::Other, 20, 0, u64::MAX));
    known.files.push(named("/mnt/new", Role::Other, 21, 0, u64::MAX));
    let mut events = Events::default();
    map(&mut events, 10, 20);
    // Block 101 of 1,024 bytes is sector 202.
    events.block(50, 300, "block_bio_queue", (202, 2), "W").block(60, 300, "block_rq_issue", (202, 2), "W");
    events.block(70, 300, "block_rq_complete", (202, 2), "W");
    map(&mut events, 100, 21);
    events.block(150, 300, "block_bio_queue", (206, 2), "W").block(160, 300, "block_rq_issue", (206, 2), "W");
    events.block(170, 300, "block_rq_complete", (206, 2), "W");
    events.block(250, 300, "block_bio_queue", (208, 2), "W").block(260, 300, "block_rq_issue", (208, 2), "W");
    events.block(270, 300, "block_rq_complete", (208, 2), "W");
    events.block(350, 300, "block_bio_queue", (202, 2), "WM").block(360, 300, "block_rq_issue", (202, 2), "WM");
    events.block(370, 300, "block_rq_complete", (202, 2), "WM");
    let timeline = events.join(&known);
    let of = |at: usize| file(&timeline, spans(&timeline, Layer::Driver, "write")[at]).to_string();
    assert_eq!((of(0), of(1)), ("/mnt/old".into(), "/mnt/new".into()));
    assert_eq!((of(2), of(3)), ("somewhere on loop0".into(), "metadata of loop0".into()));
}

#[test]
fn a_copied_descriptor_is_the_same_file_and_no_longer_what_it_was() {
    let mut events = Events::default();
    let copy = |events: &mut Events, time: u64, call: &str, fields: &[(&str, super::builder::Value)], to: u64| {
        events.at(time, WORKER, &format!("syscalls:sys_enter_{call}"), fields);
        events.exit(time + 5, call, to);
    };
    let write = |events: &mut Events, time: u64, fd: u64, inode: u64| {
        events.enter(time, "pwrite64", fd).inode(time + 1, WORKER, "ext4:ext4_da_write_begin", inode);
        events.exit(time + 5, "pwrite64", 1);
    };
    write(&mut events, 10, 1, 12);
    write(&mut events, 20, 3, 13);
    // Like a shell: descriptor 1 is saved as 10, redirected to another file, and restored.
    copy(&mut events, 30, "fcntl", &[("fd", 1.into()), ("cmd", 0.into())], 10);
    copy(&mut events, 40, "dup2", &[("oldfd", 3.into()), ("newfd", 1.into())], 1);
    events.enter(50, "lseek", 1).exit(55, "lseek", 0);
    copy(&mut events, 60, "dup2", &[("oldfd", 10.into()), ("newfd", 1.into())], 1);
    events.enter(70, "lseek", 1).exit(75, "lseek", 0);
    copy(&mut events, 80, "fcntl", &[("fd", 1.into()), ("cmd", 3.into())], 3);
    events.enter(90, "lseek", 3).exit(95, "lseek", 0);
    copy(&mut events, 100, "close_range", &[("fd", 2.into()), ("max_fd", u64::from(u32::MAX).into())], 0);
    events.enter(110, "lseek", 3).exit(115, "lseek", 0);
    let mut known = surroundings(&[(0, 1_000)]);
    known.files.push(named("/mnt/other", Role::Other, 13, 0, u64::MAX));
    let timeline = events.join(&known);
    let of = |at: usize| file(&timeline, spans(&timeline, Layer::SystemCall, "lseek")[at]).to_string();
    assert_eq!((of(0), of(1)), ("/mnt/other".into(), "/mnt/db".into()));
    assert_eq!(of(2), "/mnt/other", "flags were asked for, nothing was copied");
    assert_eq!(of(3), "", "closed with all others");
}

#[test]
fn a_number_that_went_to_another_file_unseen_is_that_file() {
    let mut events = Events::default();
    for (time, inode) in [(10, 12), (20, 13), (30, 13)] {
        events.enter(time, "pwrite64", 3).inode(time + 1, WORKER, "ext4:ext4_da_write_begin", inode);
        events.exit(time + 5, "pwrite64", 1);
    }
    let mut known = surroundings(&[(0, 1_000)]);
    known.files.push(named("/mnt/other", Role::Other, 13, 0, u64::MAX));
    let timeline = events.join(&known);
    let names: Vec<_> =
        spans(&timeline, Layer::SystemCall, "pwrite64").iter().map(|span| file(&timeline, span)).collect();
    assert_eq!(names, ["/mnt/db", "/mnt/other", "/mnt/other"]);
}

#[test]
fn an_inode_in_hand_counts_for_its_own_disk_alone() {
    let mut events = Events::default();
    let begin = |events: &mut Events, time: u64, device: u64| {
        events.at(time, WORKER, "ext4:ext4_writepages", &[("dev", device.into()), ("ino", 12.into())]);
        events.block(time + 1, WORKER, "block_bio_queue", (202, 2), "W");
        events.block(time + 2, WORKER, "block_rq_issue", (202, 2), "W");
        events.block(time + 3, WORKER, "block_rq_complete", (202, 2), "W");
    };
    begin(&mut events, 10, DEVICE);
    begin(&mut events, 20, 8 << 20);
    let timeline = events.join(&surroundings(&[(0, 1_000)]));
    let of = |at: usize| file(&timeline, spans(&timeline, Layer::Driver, "write")[at]).to_string();
    assert_eq!((of(0), of(1)), ("/mnt/db".into(), "somewhere on loop0".into()));
}

#[test]
fn what_a_page_fault_reads_is_the_mapped_files_and_takes_no_time_of_the_program() {
    let mut events = Events::default();
    let page = [("s_dev", DEVICE.into()), ("i_ino", 12.into()), ("index", 0.into())];
    let read = |events: &mut Events, time: u64| {
        events.block(time, WORKER, "block_bio_queue", (202, 2), "R");
        events.block(time + 1, WORKER, "block_rq_issue", (202, 2), "R");
        events.block(time + 9, 0, "block_rq_complete", (202, 2), "R");
    };
    // The program runs in user mode: there is no system call that could return.
    events.at(10, WORKER, "filemap:mm_filemap_fault", &page);
    read(&mut events, 11);
    events.enter(500, "fsync", 3);
    read(&mut events, 600);
    events.exit(900, "fsync", 0);
    let timeline = events.join(&surroundings(&[(0, 1_000)]));
    let of = |at: usize| file(&timeline, spans(&timeline, Layer::Driver, "read")[at]).to_string();
    assert_eq!((of(0), of(1)), ("/mnt/db".into(), "somewhere on loop0".into()));
    let fault = spans(&timeline, Layer::PageCache, "fault")[0];
    assert_eq!((fault.begin_ns, fault.end_ns), (10, 10));
}

#[test]
fn blocks_that_no_device_has_are_nowhere() {
    let mut events = Events::default();
    let fields = [("dev", DEVICE.into()), ("ino", 12.into()), ("block", u64::MAX.into()), ("len", u64::MAX.into())];
    events.at(1, WORKER, "ext4:ext4_allocate_blocks", &fields);
    events.block(50, 300, "block_bio_queue", (202, 2), "W").block(60, 300, "block_rq_issue", (202, 2), "W");
    events.block(70, 300, "block_rq_complete", (202, 2), "W");
    let timeline = events.join(&surroundings(&[(0, 1_000)]));
    assert_eq!(file(&timeline, spans(&timeline, Layer::Driver, "write")[0]), "somewhere on loop0");
}

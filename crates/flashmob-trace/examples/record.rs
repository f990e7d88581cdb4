//! Runs a command, captures what it does, says how much that was, and saves it: `record OUT -- COMMAND`. Tests read what it saved.
//!
//! `-` as OUT saves nothing. Environment: `EVENTS` (else those below), `DEVICES` (numbers, else all), `BUFFER_BYTES`, `NAMES=1`, `SQLITE` (ELF files).

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

use flashmob_trace::capture::{Event, Scope, Session, Wanted};

/// One of each sort: system calls, the file system, its journal, the page cache, the block layer, the processor.
const EVENTS: &str = "syscalls:sys_enter_openat syscalls:sys_exit_openat syscalls:sys_enter_pwrite64 syscalls:sys_exit_pwrite64 \
    syscalls:sys_enter_fdatasync syscalls:sys_exit_fdatasync syscalls:sys_enter_unlink syscalls:sys_exit_unlink \
    syscalls:sys_enter_write syscalls:sys_exit_write sched:sched_switch sched:sched_waking \
    ext4:ext4_sync_file_enter ext4:ext4_sync_file_exit ext4:ext4_allocate_blocks jbd2:jbd2_start_commit jbd2:jbd2_end_commit \
    filemap:mm_filemap_add_to_page_cache block:block_bio_queue block:block_rq_insert block:block_rq_issue block:block_rq_complete";

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn event(name: &str) -> Option<Event> {
    let (system, name) = name.split_once(':')?;
    let scope = match system {
        "syscalls" | "sched" => Scope::Threads,
        _ => Scope::Devices,
    };
    Some(Event { system: system.into(), name: name.into(), scope, filter: None })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("usage: record OUT -- COMMAND")?;
    let command: Vec<String> = arguments.skip_while(|argument| argument == "--").collect();
    // It waits until it is followed.
    let mut child = Command::new("sh");
    child.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).args(&command).process_group(0);
    let mut child = child.spawn()?;
    rustix::process::waitpid(Some(rustix::process::Pid::from_child(&child)), rustix::process::WaitOptions::UNTRACED)?;
    let begun = std::time::Instant::now();
    let wanted = Wanted {
        events: variable("EVENTS").as_deref().unwrap_or(EVENTS).split_whitespace().filter_map(event).collect(),
        threads: vec![child.id()],
        follow_children: true,
        devices: variable("DEVICES").iter().flat_map(|all| all.split(',')).filter_map(|id| id.parse().ok()).collect(),
        buffer_bytes: variable("BUFFER_BYTES").map_or(Ok(0), |bytes| bytes.parse())?,
        names: variable("NAMES").is_some(),
        sqlite: variable("SQLITE").iter().flat_map(|all| all.split(',')).map(Into::into).collect(),
        ..Wanted::default()
    };
    let mut session = Session::open(&wanted)?;
    session.start()?;
    let opened = begun.elapsed();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::CONT)?;
    let (begun, status) = (std::time::Instant::now(), child.wait()?);
    let ran = begun.elapsed();
    let begun = std::time::Instant::now();
    let capture = session.stop();
    println!("{status}; opened in {opened:?}, ran {ran:?}, stopped in {:?}", begun.elapsed());
    for source in &capture.sources {
        println!("{}: {} {:?} {}", source.name, source.is_used, source.layers, source.why.as_deref().unwrap_or(""));
    }
    println!("{:?}", capture.losses);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let begun = std::time::Instant::now();
    let records = capture.records();
    println!("{} records in {:?}", records.len(), begun.elapsed());
    for record in &records {
        *counts.entry(format!("{}:{}", record.format.system, record.format.name)).or_default() += 1;
        if variable("SHOW").is_some() {
            let fields = record.format.fields.iter().skip(4).map(|field| match field.text(record.data) {
                Some(text) => format!("{}={text:?}", field.name),
                None => format!("{}={:?}", field.name, field.number(record.data)),
            });
            println!(
                "{} cpu{} {} {} {}",
                record.time_ns,
                record.cpu,
                record.thread,
                record.format.name,
                fields.collect::<Vec<_>>().join(" ")
            );
        }
    }
    for (name, count) in counts {
        println!("{count:>9} {name}");
    }
    if out != "-" {
        capture.save(std::path::Path::new(&out))?;
    }
    Ok(())
}

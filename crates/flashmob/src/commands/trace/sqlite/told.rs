//! The workload's own report, as input of the join.

use std::collections::HashMap;

use flashmob_results::trace::{Layer, Role};
use flashmob_sqlite::{FileKind, OpenFile};
use flashmob_trace::surroundings::{AppOperation, AppSpan, NamedFile, Surroundings};

use super::worker::{Ran, Ready};
use crate::commands::trace::surroundings::{self, kernel_number};

/// The name of an operation.
pub const INSERT: &str = "insert";

/// The surroundings of the INSERTs.
pub fn surroundings(ready: &Ready, ran: &Ran) -> Surroundings {
    let report = &ran.report;
    let thread = report.thread_id;
    let (mut files, index_of) = named(&report.files);
    for lying in &ran.lying {
        let device = kernel_number(lying.device);
        let known = files.iter_mut().rev().find(|file| (file.device, file.inode) == (device, lying.inode));
        match known {
            Some(file) => file.extents.clone_from(&lying.extents),
            None => files.push(NamedFile {
                path: lying.path.clone(),
                role: if lying.is_folder { Role::Directory } else { Role::Other },
                device,
                inode: lying.inode,
                from_ns: 0,
                until_ns: u64::MAX,
                extents: lying.extents.clone(),
            }),
        }
    }
    let operation = |&(begin_ns, end_ns): &(u64, u64)| AppOperation { name: INSERT.into(), thread, begin_ns, end_ns };
    let last_end_ns = report.inserts.last().map_or(0, |insert| insert.1);
    // Later calls close the database, and belong to no INSERT.
    let calls = report.calls.iter().filter(|call| call.begin_ns < last_end_ns);
    let spans = calls.map(|call| AppSpan {
        layer: Layer::Sqlite,
        name: call.kind.name().into(),
        thread,
        file: call.file.and_then(|file| index_of.get(file as usize).copied()),
        offset_bytes: call.offset,
        bytes: call.bytes,
        begin_ns: call.begin_ns,
        end_ns: call.end_ns,
    });
    let mut thread_names = surroundings::thread_names();
    thread_names.push((thread, "sqlite".into()));
    Surroundings {
        threads: vec![thread],
        spans: spans.collect(),
        operations: report.inserts.iter().map(operation).collect(),
        files,
        devices: ready.below.device.iter().cloned().collect(),
        thread_names,
    }
}

/// Files by name, device and inode, and the file of each open file. An inode keeps its name until it gets another: a journal's inode is
/// reused by the next.
fn named(open: &[OpenFile]) -> (Vec<NamedFile>, Vec<usize>) {
    let mut files: Vec<NamedFile> = Vec::new();
    let mut last_of: HashMap<(u64, u64), usize> = HashMap::new();
    let mut index_of = Vec::with_capacity(open.len());
    for file in open {
        let role = role(file.kind);
        let last = last_of.get(&(file.device, file.inode)).copied();
        if let Some(last) = last {
            let known = &mut files[last];
            if known.path == file.path && known.role == role {
                index_of.push(last);
                continue;
            }
            known.until_ns = file.opened_ns;
        }
        last_of.insert((file.device, file.inode), files.len());
        index_of.push(files.len());
        files.push(NamedFile {
            path: file.path.clone(),
            role,
            device: kernel_number(file.device),
            inode: file.inode,
            from_ns: file.opened_ns,
            until_ns: u64::MAX,
            extents: Vec::new(),
        });
    }
    (files, index_of)
}

fn role(kind: FileKind) -> Role {
    match kind {
        FileKind::Database => Role::Database,
        FileKind::Journal => Role::Journal,
        FileKind::Wal => Role::Wal,
        FileKind::SharedMemory => Role::SharedMemory,
        FileKind::Other => Role::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &str, kind: FileKind, inode: u64, opened_ns: u64) -> OpenFile {
        OpenFile { path: path.into(), kind, device: 0x700, inode, opened_ns, closed_ns: Some(opened_ns + 5) }
    }

    #[test]
    fn an_inode_keeps_its_name_until_it_gets_another() {
        let journal = |inode, at| open("/a-journal", FileKind::Journal, inode, at);
        let list = [
            open("/a", FileKind::Database, 12, 10),
            journal(13, 20),
            journal(13, 30),
            open("/tmp/b", FileKind::Other, 13, 40),
            journal(13, 50),
            journal(14, 60),
        ];
        let (files, index_of) = named(&list);
        assert_eq!(index_of, [0, 1, 1, 2, 3, 4]);
        let times: Vec<_> = files.iter().map(|file| (file.inode, file.from_ns, file.until_ns)).collect();
        assert_eq!(times, [(12, 10, u64::MAX), (13, 20, 40), (13, 40, 50), (13, 50, u64::MAX), (14, 60, u64::MAX)]);
        assert_eq!(files[0].device, 7 << 20, "as the kernel's events have it");
    }
}

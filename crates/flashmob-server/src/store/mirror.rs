//! The mirror of its volume's map that an extent keeps beside it (`<file>.map`): the bytes of the map's file, as the gateway sends them.
//!
//! Writing and reading it blocks, so a thread does that, which is started by the first operation. After an error the mirror is removed: the
//! kernel may have dropped bytes that it still shows. The gateway sends a new one later. Both have reserved room: see [`super::spare`].

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use flashmob_core::copies::mirror_state;
use flashmob_core::node::{LinkId, MirrorOp};
use flashmob_core::units::KIB;
use flashmob_core::wire::mirror::{MIRROR_BYTES_MAX, MIRROR_FRAME_BYTES_MAX, MirrorState, PutMirror};

use super::open::sync_parent;
use super::permanent::Permanent;
use super::private::create_anew;
use super::sealed::read_bounded;
use super::spare::{self, spare_path};
use super::sums::SumsError;
use crate::worker::Worker;

/// How many times its snapshot a mirror may have before the gateway sends a new one, and how much it has in any case: that of signed ones.
const ROOM_FACTOR: u64 = 4;
const ROOM_BYTES_MIN: u64 = 256 * KIB;

/// What the thread has done.
#[derive(Debug)]
pub enum MirrorAnswer {
    /// Bytes are stored, or the mirror is gone.
    Put {
        /// Of the operation.
        link: LinkId,
        /// Of the operation.
        put: PutMirror,
        /// Whether they are.
        is_kept: bool,
    },
    /// Bytes were read; none if the mirror cannot be read.
    Read {
        /// Of the operation.
        link: LinkId,
        /// Bytes of the mirror.
        mirror_bytes: u64,
        /// At most [`MIRROR_FRAME_BYTES_MAX`] bytes.
        bytes: Vec<u8>,
    },
}

/// The mirror of an extent, and its thread.
pub struct Mirror {
    path: PathBuf,
    keep_age: Box<dyn Fn() -> KeepAge + Send>,
    wake: Box<dyn Fn() -> Box<dyn Fn() + Send> + Send>,
    thread: Option<Thread>,
    /// Answers to operations that no thread takes.
    untaken: Vec<MirrorAnswer>,
}

/// Stores the age of the extent, durably.
type KeepAge = Box<dyn Fn((u64, u64)) -> Result<(), SumsError> + Send>;

struct Thread {
    ops: Worker<MirrorOp>,
    done: Receiver<MirrorAnswer>,
}

impl Mirror {
    /// The mirror at `path`, and what it has. A part of it that was not written whole is cut off. From its thread, `keep_age` is called with epoch
    /// and version of what it has durably, and `wake` when something is done.
    pub fn open(
        path: PathBuf,
        keep_age: impl Fn((u64, u64)) -> Result<(), SumsError> + Clone + Send + 'static,
        wake: impl Fn() + Clone + Send + 'static,
    ) -> (Mirror, Option<([u8; 16], MirrorState)>) {
        let found = look(&path).unwrap_or_else(|error| {
            log::warn!("{}: the mirror of the volume's map cannot be read: {error}", path.display());
            None
        });
        let wake = Box::new(move || Box::new(wake.clone()) as Box<dyn Fn() + Send>);
        let keep_age = Box::new(move || Box::new(keep_age.clone()) as KeepAge);
        (Mirror { path, keep_age, wake, thread: None, untaken: Vec::new() }, found)
    }

    /// Begins operations. They are done one after another.
    pub fn begin(&mut self, ops: &mut Vec<MirrorOp>) {
        if ops.is_empty() {
            return;
        }
        if self.thread.is_none() {
            self.thread = Thread::start(self.path.clone(), (self.keep_age)(), (self.wake)())
                .inspect_err(|error| log::error!("no thread for the mirror of the volume's map: {error}"))
                .ok();
        }
        for op in ops.drain(..) {
            let given = match &self.thread {
                Some(thread) => thread.ops.give(op),
                None => Err(op),
            };
            if let Err(op) = given {
                self.untaken.push(failed(&op));
                (self.wake)()();
            }
        }
    }

    /// What was done since the last call.
    pub fn take_done(&mut self) -> Option<MirrorAnswer> {
        let untaken = self.untaken.pop();
        untaken.or_else(|| self.thread.as_ref()?.done.try_recv().ok())
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Thread {
    fn start(path: PathBuf, keep_age: KeepAge, wake: Box<dyn Fn() + Send>) -> io::Result<Thread> {
        let (finished, done) = channel();
        let work = move |waiting: Receiver<MirrorOp>| {
            let mut file = MirrorFile::new(path, keep_age);
            for op in waiting {
                let if_it_fails = failed(&op);
                // One that panics has said so on standard error: without an answer, its link would wait for ever.
                let answer = catch_unwind(AssertUnwindSafe(|| file.carry_out(op))).unwrap_or(if_it_fails);
                // If nobody receives it, the extent is being closed.
                let _ = finished.send(answer);
                wake();
            }
        };
        Ok(Thread { ops: Worker::start("mirror", work)?, done })
    }
}

/// The answer to an operation that is not done.
fn failed(op: &MirrorOp) -> MirrorAnswer {
    match *op {
        MirrorOp::Put { link, put, .. } => MirrorAnswer::Put { link, put, is_kept: false },
        MirrorOp::Recall { link, .. } => MirrorAnswer::Read { link, mirror_bytes: 0, bytes: Vec::new() },
    }
}

/// Reads a mirror: its bytes, which may end in a part that was not written whole. None if there is none.
pub fn read_mirror(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_bounded(path, MIRROR_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a mirror, if there is one.
pub(crate) fn forget_mirror(path: &Path) -> io::Result<()> {
    [path.to_path_buf(), spare_path(path)].iter().try_for_each(|path| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

/// Reserves the room that a mirror needs until the gateway sends a new one, and that for the new one.
fn keep_room(path: &Path, file: &File, whole_bytes: u64) {
    let room_bytes = whole_bytes.saturating_mul(ROOM_FACTOR).max(ROOM_BYTES_MIN);
    if let Err(error) = spare::reserve(file, room_bytes).and_then(|_| spare::keep(path, room_bytes)) {
        log::warn!("{}: no room is reserved for the mirror of the volume's map: {error}", path.display());
    }
}

/// What a mirror has.
fn look(path: &Path) -> io::Result<Option<([u8; 16], MirrorState)>> {
    let Some(bytes) = read_mirror(path)? else { return Ok(None) };
    let Some((map_id, state)) = mirror_state(&bytes) else {
        log::warn!("{}: the mirror of the volume's map is damaged; the gateway sends a new one", path.display());
        return Ok(None);
    };
    let file = OpenOptions::new().write(true).open(path)?;
    if state.len_bytes < bytes.len() as u64 {
        file.set_len(state.len_bytes)?;
    }
    // An earlier process may have been killed before it was, and decisions count on it.
    Permanent::of(path).sync(&file)?;
    keep_room(path, &file, state.len_bytes / ROOM_FACTOR);
    Ok(Some((map_id, state)))
}

/// The files of a mirror, as its thread uses them.
struct MirrorFile {
    path: PathBuf,
    new_path: PathBuf,
    file: Option<File>,
    /// The new mirror, and how much of it is there.
    new: Option<(File, u64)>,
    permanent: Permanent,
    keep_age: KeepAge,
}

impl MirrorFile {
    fn new(path: PathBuf, keep_age: KeepAge) -> MirrorFile {
        let (new_path, permanent) = (spare_path(&path), Permanent::of(&path));
        MirrorFile { path, new_path, file: None, new: None, permanent, keep_age }
    }

    fn carry_out(&mut self, op: MirrorOp) -> MirrorAnswer {
        match op {
            MirrorOp::Put { link, put, bytes } => {
                let written = if put.is_new { self.put_new(&put, &bytes) } else { self.append(&put, &bytes) };
                let written = written.and_then(|()| match put.is_durable {
                    true => (self.keep_age)(put.state.age()).map_err(io::Error::other),
                    false => Ok(()),
                });
                if let Err(error) = &written {
                    log::warn!("{}: the mirror of the volume's map cannot be written: {error}", self.path.display());
                    self.give_up();
                }
                MirrorAnswer::Put { link, put, is_kept: written.is_ok() }
            }
            MirrorOp::Recall { link, offset_bytes } => {
                let (mirror_bytes, bytes) = self.read(offset_bytes).unwrap_or_else(|error| {
                    if error.kind() != io::ErrorKind::NotFound {
                        log::warn!("{}: the mirror of the volume's map cannot be read: {error}", self.path.display());
                    }
                    (0, Vec::new())
                });
                MirrorAnswer::Read { link, mirror_bytes, bytes }
            }
        }
    }

    fn put_new(&mut self, put: &PutMirror, bytes: &[u8]) -> io::Result<()> {
        if put.offset_bytes == 0 {
            let spare = spare::take(&self.path).map_or_else(|| create_anew(&self.new_path), Ok);
            self.new = Some((spare?, 0));
        }
        let (file, len_bytes) = self.new.as_mut().ok_or_else(|| out_of_place("its beginning is missing"))?;
        if *len_bytes != put.offset_bytes {
            return Err(out_of_place("a part of it is missing"));
        }
        file.write_all(bytes)?;
        *len_bytes += bytes.len() as u64;
        if put.is_last
            && let Some((file, len_bytes)) = self.new.take()
        {
            file.sync_all()?;
            self.file = None;
            fs::rename(&self.new_path, &self.path)?;
            sync_parent(&self.path)?;
            keep_room(&self.path, &file, len_bytes);
        }
        Ok(())
    }

    fn append(&mut self, put: &PutMirror, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().write(true).open(&self.path)?),
        };
        let len_bytes = file.metadata()?.len();
        if len_bytes < put.offset_bytes {
            return Err(out_of_place("a part of it is missing"));
        }
        if len_bytes > put.offset_bytes {
            file.set_len(put.offset_bytes)?;
        }
        file.write_all_at(bytes, put.offset_bytes)?;
        if put.is_durable {
            self.permanent.sync(file)?;
        }
        Ok(())
    }

    fn read(&self, offset_bytes: u64) -> io::Result<(u64, Vec<u8>)> {
        let file = File::open(&self.path)?;
        let mirror_bytes = file.metadata()?.len();
        let mut bytes = vec![0; (mirror_bytes.saturating_sub(offset_bytes) as usize).min(MIRROR_FRAME_BYTES_MAX)];
        file.read_exact_at(&mut bytes, offset_bytes)?;
        Ok((mirror_bytes, bytes))
    }

    /// Removes the mirror: nobody knows what the flash has of it. The room for the next one stays.
    fn give_up(&mut self) {
        (self.file, self.new) = (None, None);
        let removed = match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        // So that a power cut does not bring an old one back.
        if let Err(error) = removed.and_then(|()| sync_parent(&self.path)) {
            log::warn!("{}: the mirror of the volume's map cannot be removed: {error}", self.path.display());
        }
    }
}

fn out_of_place(text: &str) -> io::Error {
    io::Error::other(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashmob_core::copies::{MapImage, Member, Record, encode_batch, encode_snapshot};
    use flashmob_core::node::Node;
    use flashmob_core::node::NodeConfig;

    fn image() -> MapImage {
        let member = |n: u8| Member {
            extent_id: [n + 1; 16],
            boot_id: None,
            seen: None,
            size_bytes: 8 << 20,
            domain: format!("d{n}"),
        };
        MapImage::new([9; 16], 4 << 20, 2, (0..3).map(member).collect()).unwrap()
    }

    fn link() -> LinkId {
        Node::new(NodeConfig::new([1; 16], [2; 16], 4096)).link_opened()
    }

    /// Puts bytes, and tells whether they were kept.
    fn put(file: &mut MirrorFile, offset_bytes: u64, kind: (bool, bool), bytes: &[u8]) -> bool {
        let len_bytes = offset_bytes + bytes.len() as u64;
        let state = MirrorState { epoch: 1, nonce: 2, version: 3, len_bytes };
        let put = PutMirror { offset_bytes, is_new: kind.0, is_last: kind.1, is_durable: true, state };
        match file.carry_out(MirrorOp::Put { link: link(), put, bytes: bytes.to_vec() }) {
            MirrorAnswer::Put { is_kept, .. } => is_kept,
            MirrorAnswer::Read { .. } => false,
        }
    }

    fn read(file: &mut MirrorFile, offset_bytes: u64) -> (u64, Vec<u8>) {
        match file.carry_out(MirrorOp::Recall { link: link(), offset_bytes }) {
            MirrorAnswer::Read { mirror_bytes, bytes, .. } => (mirror_bytes, bytes),
            MirrorAnswer::Put { .. } => (0, Vec::new()),
        }
    }

    #[test]
    fn a_mirror_is_replaced_whole_and_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.map");
        let (mut image, mut file) = (image(), MirrorFile::new(path.clone(), Box::new(|_| Ok(()))));
        assert_eq!((look(&path).unwrap(), read(&mut file, 0)), (None, (0, Vec::new())));
        let snapshot = encode_snapshot(&image);
        let (head, tail) = snapshot.split_at(100);
        assert!(put(&mut file, 0, (true, false), head));
        assert_eq!(look(&path).unwrap(), None, "it is not whole");
        assert!(put(&mut file, 100, (true, true), tail));
        let state = |image: &MapImage, len_bytes: usize| {
            let (epoch, nonce, version) = (image.epoch(), image.nonce(), image.version());
            Some((image.map_id(), MirrorState { epoch, nonce, version, len_bytes: len_bytes as u64 }))
        };
        assert_eq!(look(&path).unwrap(), state(&image, snapshot.len()));
        let (mut batch, record) = (Vec::new(), Record::Epoch { epoch: 4, nonce: 5 });
        encode_batch(&mut batch, image.version() + 1, std::slice::from_ref(&record)).unwrap();
        image.apply(&record).unwrap();
        assert!(put(&mut file, snapshot.len() as u64, (false, false), &batch));
        assert_eq!(look(&path).unwrap(), state(&image, snapshot.len() + batch.len()));
        // What was written in part is written over.
        assert!(put(&mut file, (snapshot.len() + batch.len()) as u64, (false, false), &batch[..20]));
        assert!(put(&mut file, (snapshot.len() + batch.len()) as u64, (false, false), &[]));
        assert_eq!(look(&path).unwrap(), state(&image, snapshot.len() + batch.len()));
        let whole = [&snapshot[..], &batch].concat();
        assert_eq!(read(&mut file, 0), (whole.len() as u64, whole.clone()));
        assert_eq!(read(&mut file, 50), (whole.len() as u64, whole[50..].to_vec()));
        assert_eq!(read(&mut file, 1 << 40), (whole.len() as u64, Vec::new()), "behind its end");
    }

    #[test]
    fn a_mirror_has_room_for_what_follows_and_for_the_next_one() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.map");
        let (snapshot, mut file) = (encode_snapshot(&image()), MirrorFile::new(path.clone(), Box::new(|_| Ok(()))));
        let room_bytes = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
        assert!(put(&mut file, 0, (true, true), &snapshot));
        for _ in 0..3 {
            let spare = fs::metadata(spare_path(&path)).unwrap();
            assert!(spare.len() == 0 && room_bytes(&spare_path(&path)) >= ROOM_BYTES_MIN);
            assert!(room_bytes(&path) >= ROOM_BYTES_MIN);
            // One that was begun and not ended.
            assert!(put(&mut file, 0, (true, false), &snapshot[..50]));
            assert!(put(&mut file, 0, (true, true), &snapshot));
            assert_eq!(fs::metadata(&path).unwrap().ino(), spare.ino(), "it is in the room that was kept");
            assert_eq!(fs::read(&path).unwrap(), snapshot);
        }
        forget_mirror(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        // That of an earlier program gets it when it is opened.
        fs::write(&path, &snapshot).unwrap();
        assert!(look(&path).unwrap().is_some());
        assert!(room_bytes(&path) >= ROOM_BYTES_MIN && room_bytes(&spare_path(&path)) >= ROOM_BYTES_MIN);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_no_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.map");
        let snapshot = encode_snapshot(&image());
        for (offset, kind) in [(7, (true, false)), (snapshot.len() as u64 + 1, (false, false))] {
            let mut file = MirrorFile::new(path.clone(), Box::new(|_| Ok(())));
            assert!(put(&mut file, 0, (true, true), &snapshot));
            assert!(!put(&mut file, offset, kind, b"x"), "{offset}");
            assert_eq!((look(&path).unwrap(), fs::read_dir(dir.path()).unwrap().count()), (None, 1), "but its room");
            assert!(spare_path(&path).is_file());
            assert!(!put(&mut file, 0, (false, false), b"x"), "there is none to append to");
        }
    }

    #[test]
    fn a_torn_end_is_cut_off_and_damage_is_no_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.map");
        let snapshot = encode_snapshot(&image());
        fs::write(&path, [&snapshot[..], &[1; 30]].concat()).unwrap();
        assert_eq!(look(&path).unwrap().map(|(_, state)| state.len_bytes), Some(snapshot.len() as u64));
        assert_eq!(fs::metadata(&path).unwrap().len(), snapshot.len() as u64);
        fs::write(&path, &snapshot[1..]).unwrap();
        assert_eq!(look(&path).unwrap(), None);
    }

    #[test]
    fn its_thread_answers_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, woken) = channel();
        let wake = move || sender.send(()).unwrap_or_default();
        let (mut mirror, found) = Mirror::open(dir.path().join("x.map"), |_| Ok(()), wake);
        assert_eq!(found, None);
        let snapshot = encode_snapshot(&image());
        let state = MirrorState { len_bytes: snapshot.len() as u64, ..MirrorState::default() };
        let put = PutMirror { offset_bytes: 0, is_new: true, is_last: true, is_durable: true, state };
        let link = link();
        let bytes = snapshot.clone();
        mirror.begin(&mut vec![MirrorOp::Put { link, put, bytes }, MirrorOp::Recall { link, offset_bytes: 0 }]);
        for _ in 0..2 {
            woken.recv().unwrap();
        }
        assert!(matches!(mirror.take_done(), Some(MirrorAnswer::Put { is_kept: true, .. })));
        assert!(matches!(mirror.take_done(), Some(MirrorAnswer::Read { bytes, .. }) if bytes == snapshot));
    }
}

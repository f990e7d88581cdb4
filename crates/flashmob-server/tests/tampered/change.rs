//! What is changed in one direction of a connection, record by record.

use std::sync::Mutex;

/// Bytes of the header of a TLS record: kind, version, length.
pub const RECORD_HEADER_BYTES: usize = 5;
/// What is put between two records: the kind, version and length of no record.
const GARBAGE: [u8; 16] = [0x5a; 16];

/// What is done to one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// A bit of a byte of the stream is inverted.
    Flip { at: usize, bit: u8 },
    /// Everything from this byte on is withheld, and the direction closed.
    Cut { at: usize },
    /// This record is passed on behind the next one.
    Swap { record: usize },
    /// This record is passed on twice.
    Double { record: usize },
    /// 16 bytes of garbage are put before this record.
    Insert { record: usize },
}

/// Where a change took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// The kind of the record, as its first byte says.
    pub kind: u8,
    /// Which of its bytes, from its header on.
    pub offset: usize,
}

/// Applies a change to the records of one direction.
pub struct Changer<'a> {
    change: Change,
    touched: &'a Mutex<Option<Touched>>,
    /// Bytes and records that have passed.
    passed_bytes: usize,
    records: usize,
    /// The record that is passed on behind the next one.
    held: Option<Vec<u8>>,
    is_cut: bool,
}

impl<'a> Changer<'a> {
    /// Says in `touched` where it was applied.
    pub fn new(change: Change, touched: &'a Mutex<Option<Touched>>) -> Changer<'a> {
        Changer { change, touched, passed_bytes: 0, records: 0, held: None, is_cut: false }
    }

    /// Takes all whole records, and says whether the direction ends here.
    pub fn pass(&mut self, waiting: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
        if self.change == Change::None {
            out.append(waiting);
            return false;
        }
        let was_cut = self.is_cut;
        while let Some(len) = record_bytes(waiting) {
            let record: Vec<u8> = waiting.drain(..len).collect();
            self.pass_record(record, out);
        }
        self.is_cut && !was_cut
    }

    fn pass_record(&mut self, mut record: Vec<u8>, out: &mut Vec<u8>) {
        let (number, first) = (self.records, self.passed_bytes);
        let place = |offset| Some(Touched { kind: record[0], offset });
        self.records += 1;
        self.passed_bytes += record.len();
        let mut touched = None;
        match self.change {
            Change::Flip { at, bit } if (first..first + record.len()).contains(&at) => {
                touched = place(at - first);
                record[at - first] ^= 1 << bit;
            }
            Change::Cut { at } if !self.is_cut && at < first + record.len() => {
                touched = place(at - first);
                record.truncate(at - first);
                self.is_cut = true;
                out.append(&mut record);
            }
            Change::Swap { record: which } if which == number => {
                self.held = Some(std::mem::take(&mut record));
                touched = Some(Touched { kind: 0, offset: 0 });
            }
            Change::Double { record: which } if which == number => {
                touched = place(0);
                out.extend_from_slice(&record);
            }
            Change::Insert { record: which } if which == number => {
                touched = place(0);
                out.extend_from_slice(&GARBAGE);
            }
            _ => {}
        }
        if touched.is_some() {
            *self.touched.lock().expect("what was changed") = touched;
        }
        if self.is_cut {
            return;
        }
        let is_held_now = record.is_empty();
        out.append(&mut record);
        if !is_held_now && let Some(mut held) = self.held.take() {
            out.append(&mut held);
        }
    }
}

/// Bytes of the record at the front, if it is whole.
pub fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..RECORD_HEADER_BYTES)?;
    let len = RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
    (bytes.len() >= len).then_some(len)
}

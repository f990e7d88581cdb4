//! NBD sessions: a client's bytes, in any chunks, with a server that answers at once, late or never.

use flashmob_core::buffers::{Budget, RxBuf};
use flashmob_core::checksum::checksum;
use flashmob_core::nbd::{
    Event, ExportInfo, Exports, FindError, MAP_COST_BYTES, REQUEST_COST_BYTES, Session, UNREAD_BYTES_MAX,
};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::request::{REQUEST_BYTES_MAX, Request};

use crate::bytes::{Choices, chunk_lengths};
use crate::nbd_client::{opening, request};

/// The most bytes that answers to one option have: two strings and some numbers.
const ANSWER_BYTES_MAX: usize = 32 * 1024;

/// Two volumes, and one that is not ready.
struct Volumes;

const SIZES_BYTES: [u64; 2] = [(1 << 20) + 3, 1 << 40];

impl Exports for Volumes {
    fn names(&self) -> Vec<String> {
        vec!["pool".to_string(), "disk".to_string(), "late".to_string()]
    }

    fn find(&self, name: &str) -> Result<(usize, ExportInfo), FindError> {
        let index = match name {
            "" | "pool" => 0,
            "disk" => 1,
            "late" => return Err(FindError::NotReady("waiting for node b".to_string())),
            _ => return Err(FindError::Unknown),
        };
        let description = if index == 0 { String::new() } else { "d".repeat(5000) };
        let name = self.names()[index].clone();
        Ok((index, ExportInfo { name, description, size_bytes: SIZES_BYTES[index], read_only: index == 1 }))
    }
}

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Server {
    /// It answers, and the client reads, after every event.
    Prompt,
    /// It answers, and the client reads, only when nothing else can go on.
    Late,
}

/// One session with what is owed to its client.
struct Conn {
    session: Session,
    rx: RxBuf,
    budget: Budget,
    export: Option<usize>,
    owed: Vec<(Request, u64)>,
    server: Server,
    ended: bool,
    /// What was sent and what happened, to be compared between chunkings.
    sent: Vec<u8>,
    events: Vec<String>,
}

impl Conn {
    fn new(server: Server, budget_bytes: u64) -> Conn {
        Conn {
            session: Session::default(),
            rx: RxBuf::new(),
            budget: Budget::new(budget_bytes),
            export: None,
            owed: Vec::new(),
            server,
            ended: false,
            sent: Vec::new(),
            events: Vec::new(),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.rx.extend(bytes);
        let mut relieved = false;
        while !self.ended {
            let event = self.session.next(&mut self.rx, &Volumes, &mut self.budget);
            self.check_limits();
            match event {
                Ok(Event::NeedMore) => break,
                Ok(Event::Blocked) => {
                    assert!(!relieved, "blocked with nothing held and nothing to send");
                    self.relieve();
                    relieved = true;
                    continue;
                }
                Ok(Event::WaitsToArrive) => unreachable!("nothing else arrives"),
                Ok(Event::Opened { export }) => {
                    assert!(self.export.is_none() && self.session.is_open());
                    self.export = Some(export);
                    self.events.push(format!("opened {export}"));
                }
                Ok(Event::Request { request, reserved_bytes }) => {
                    self.check_request(&request, reserved_bytes);
                    let Request { cookie, op, flags, offset_bytes, len_bytes, .. } = request;
                    let sum = checksum(&request.payload);
                    self.events.push(format!("{cookie} {op:?} {flags:?} {offset_bytes}+{len_bytes} {sum}"));
                    self.owed.push((request, reserved_bytes));
                }
                Ok(Event::StartTls) => unreachable!("it was not demanded"),
                Ok(Event::Closed) => self.end("closed".to_string()),
                Err(error) => self.end(error.to_string()),
            }
            relieved = false;
            if self.server == Server::Prompt {
                self.relieve();
            }
        }
        if self.server == Server::Prompt {
            self.relieve();
        }
    }

    fn end(&mut self, how: String) {
        self.ended = true;
        self.events.push(how);
        let again = self.session.next(&mut self.rx, &Volumes, &mut self.budget);
        assert_eq!(again, Ok(Event::Closed), "an end is for ever");
    }

    /// Memory: nothing but what is owed and one write on its way in, within the limit or alone.
    fn check_limits(&self) {
        assert!(self.session.out().len() <= UNREAD_BYTES_MAX + ANSWER_BYTES_MAX);
        let owed: u64 = self.owed.iter().map(|(_, bytes)| bytes).sum();
        let used = self.budget.used_bytes();
        assert!(used >= owed);
        let single = REQUEST_COST_BYTES + u64::from(REQUEST_BYTES_MAX);
        assert!(used <= self.budget.limit_bytes() || (used <= single && (owed == 0 || owed == used)), "{used} {owed}");
    }

    fn check_request(&self, request: &Request, reserved_bytes: u64) {
        let Some(export) = self.export else { panic!("a request before an export is open") };
        let is_read_only = export == 1;
        assert!(!(request.op.mutates() && is_read_only), "a change of a read-only export");
        let known = match request.op {
            Op::Map => OpFlags::ONE_RUN.0,
            op if op.mutates() => OpFlags::KNOWN,
            _ => 0,
        };
        assert_eq!(request.flags.0 & !known, 0);
        let carries = matches!(request.op, Op::Read | Op::Write);
        if request.op == Op::Flush {
            assert_eq!((request.offset_bytes, request.len_bytes), (0, 0));
        } else {
            let end = request.offset_bytes.checked_add(u64::from(request.len_bytes));
            assert!(request.len_bytes > 0 && end.is_some_and(|end| end <= SIZES_BYTES[export]), "{request:?}");
        }
        assert!(!carries || request.len_bytes <= REQUEST_BYTES_MAX);
        let payload_bytes = if request.op == Op::Write { request.len_bytes as usize } else { 0 };
        assert_eq!(request.payload.len(), payload_bytes);
        let data_bytes = match request.op {
            Op::Map => u64::from(MAP_COST_BYTES),
            _ if carries => u64::from(request.len_bytes),
            _ => 0,
        };
        assert_eq!(reserved_bytes, REQUEST_COST_BYTES + data_bytes);
    }

    /// Answers all that is owed and lets the client read it.
    fn relieve(&mut self) {
        for (request, reserved_bytes) in self.owed.drain(..) {
            let Request { cookie, op, offset_bytes, len_bytes, .. } = request;
            match op {
                Op::Read if len_bytes <= 4096 => {
                    self.session.reply_read(cookie, offset_bytes, &vec![1; len_bytes as usize]);
                }
                Op::Read if len_bytes <= 100_000 => {
                    self.session.reply_read_buffer(cookie, offset_bytes, vec![2; len_bytes as usize]);
                }
                Op::Flush => self.session.reply_error(cookie, Failure::Io, false),
                Op::Read => self.session.reply_error(cookie, Failure::TooLarge, true),
                Op::Map => self.session.reply_map(cookie, &[(len_bytes, len_bytes & 1 == 0)]),
                Op::Write | Op::Trim | Op::WriteZeroes => self.session.reply_done(cookie),
                Op::Digest => panic!("a client asks for a digest"),
            }
            self.budget.release(reserved_bytes);
        }
        let waiting = self.session.out().len();
        let sent = self.session.out_mut().take_all();
        assert_eq!(sent.len(), waiting);
        self.sent.extend(sent);
    }

    /// The connection is gone.
    fn close(mut self) -> (Vec<u8>, Vec<String>) {
        self.relieve();
        self.session.abandon(&mut self.budget);
        assert_eq!(self.budget.used_bytes(), 0, "memory is held for a client that is gone");
        assert_eq!(self.session.next(&mut self.rx, &Volumes, &mut self.budget), Ok(Event::Closed));
        (self.sent, self.events)
    }
}

fn serve(server: Server, budget_bytes: u64, stream: &[u8], seed: u8) -> (Vec<u8>, Vec<String>) {
    let mut conn = Conn::new(server, budget_bytes);
    let mut rest = stream;
    for len in chunk_lengths(seed) {
        let (chunk, later) = rest.split_at(len.min(rest.len()));
        conn.receive(chunk);
        rest = later;
        if rest.is_empty() || conn.ended {
            break;
        }
    }
    conn.close()
}

/// Serves a stream in chunks under limits, and checks that with memory enough the chunks make no difference.
fn serve_both_ways(control: u8, seed: u8, stream: &[u8]) {
    let budget_bytes = if control & 1 == 0 { 64 << 10 } else { 48 << 20 };
    serve(if control & 2 == 0 { Server::Late } else { Server::Prompt }, budget_bytes, stream, seed);
    if seed != 0 {
        let whole = serve(Server::Prompt, 48 << 20, stream, 0);
        assert_eq!(serve(Server::Prompt, 48 << 20, stream, seed), whole, "chunks make a difference");
    }
}

/// Two bytes of control, then all that the client says.
pub fn handshake(data: &[u8]) {
    let mut choices = Choices(data);
    let (control, seed) = (choices.u8(), choices.u8());
    serve_both_ways(control, seed, choices.0);
}

/// Two bytes of control, then what the client says once an export is open: raw, or requests made of choices.
pub fn requests(data: &[u8]) {
    let mut choices = Choices(data);
    let (control, seed) = (choices.u8(), choices.u8());
    let export = usize::from(control >> 2 & 1);
    let mut stream = opening(["pool", "disk"][export], control & 8 != 0);
    if control & 16 == 0 {
        let mut cookie = 0;
        while !choices.is_empty() && stream.len() < 1 << 20 {
            cookie += 1;
            stream.extend(request(&mut choices, cookie, SIZES_BYTES[export]).0);
        }
    } else {
        stream.extend_from_slice(choices.0);
    }
    serve_both_ways(control, seed, &stream);
}

//! A small NBD server over memory, for tests only: right in every respect, or wrong in exactly one.

#![allow(dead_code)] // Each test file uses its own part.

pub mod blocking;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flashmob_bench::Uri;
use flashmob_bench::nbd::{be16, be32, be64};
use flashmob_core::nbd::protocol as p;

/// What the server does wrong, from the first request after the handshake on unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Accepts, and never says a word.
    SilentHandshake,
    /// Sends something that is not NBD.
    NotNbd,
    /// Greets as servers did before export names.
    Oldstyle,
    /// Closes after half of its greeting.
    CloseInGreeting,
    /// Answers GO with "unknown export" and a text.
    RefuseExport,
    /// Describes the export for ever and never gives it.
    EndlessInfo,
    /// Claims an option reply of 4 GiB.
    HugeOptionReply,
    /// Never answers a request.
    NeverAnswers,
    /// Never reads a request either.
    NeverReads,
    /// Does not answer the tenth request, but all others.
    LosesOne,
    /// Closes in the middle of its first reply.
    CloseInReply,
    /// Begins a reply with a wrong magic.
    WrongMagic,
    /// Replies to a request that was never made.
    UnknownCookie,
    /// Replies twice to everything.
    RepliesTwice,
    /// Answers every request with that error.
    Errors(u32),
    /// Sends one wrong byte at this offset of the export.
    WrongByte(u64),
    /// Structured: leaves the second half of a read out.
    LeavesOut,
    /// Structured: sends the first half of a read twice.
    Overlaps,
    /// Structured: sends data behind the end of the read.
    Outside,
    /// Sends a structured reply although none was agreed, or a simple one although they were.
    WrongKind,
}

/// What to serve.
#[derive(Clone, Debug)]
pub struct Behaviour {
    pub size_bytes: usize,
    pub flags: u16,
    /// Knows structured replies. It then sends a read as a hole if all is zero, else in two halves.
    pub structured: bool,
    /// Smallest, preferred and largest block, if it says.
    pub blocks: Option<(u32, u32, u32)>,
    /// Answers in pieces of so many bytes with pauses between them, to exercise the decoder.
    pub dribble: Option<usize>,
    pub fault: Fault,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            size_bytes: 1 << 20,
            flags: p::FLAG_HAS_FLAGS
                | p::FLAG_SEND_FLUSH
                | p::FLAG_SEND_FUA
                | p::FLAG_SEND_TRIM
                | p::FLAG_SEND_WRITE_ZEROES
                | p::FLAG_CAN_MULTI_CONN,
            structured: false,
            blocks: None,
            dribble: None,
            fault: Fault::None,
        }
    }
}

/// A running server; its threads end with the test program.
pub struct Server {
    pub uri: Uri,
    pub memory: Arc<Mutex<Vec<u8>>>,
    /// Requests seen, by their type.
    pub commands: Arc<Mutex<Vec<(u16, u64, u32)>>>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Serves on a TCP port of its own.
pub fn serve(behaviour: Behaviour) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = Uri::tcp("127.0.0.1", listener.local_addr().unwrap().port(), "volume");
    start(uri, behaviour, move || listener.accept().map(|(stream, _)| nodelay(stream)))
}

/// Serves on a unix socket at `path`.
pub fn serve_unix(behaviour: Behaviour, path: &Path) -> Server {
    let listener = UnixListener::bind(path).unwrap();
    start(Uri::unix(path, "volume"), behaviour, move || listener.accept().map(|(stream, _)| stream))
}

fn nodelay(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream
}

fn start<S: Stream + 'static>(
    uri: Uri,
    behaviour: Behaviour,
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
) -> Server {
    let memory = Arc::new(Mutex::new(vec![0; behaviour.size_bytes]));
    let commands = Arc::new(Mutex::new(Vec::new()));
    let server = Server { uri, memory: memory.clone(), commands: commands.clone() };
    std::thread::spawn(move || {
        while let Ok(stream) = accept() {
            let session = Session {
                stream,
                behaviour: behaviour.clone(),
                memory: memory.clone(),
                commands: commands.clone(),
                structured: false,
                requests: 0,
            };
            // A client that hangs up ends the session, and that is all right.
            std::thread::spawn(move || session.run());
        }
    });
    server
}

struct Session<S> {
    stream: S,
    behaviour: Behaviour,
    memory: Arc<Mutex<Vec<u8>>>,
    commands: Arc<Mutex<Vec<(u16, u64, u32)>>>,
    structured: bool,
    requests: u64,
}

impl<S: Stream> Session<S> {
    fn run(mut self) -> io::Result<()> {
        if !self.handshake()? {
            return Ok(());
        }
        if self.behaviour.fault == Fault::NeverReads {
            return sleep_for_ever();
        }
        let mut received = Vec::new();
        let mut chunk = vec![0; 256 * 1024];
        let mut out = Vec::new();
        loop {
            let n = self.stream.read(&mut chunk)?;
            if n == 0 {
                return Ok(());
            }
            received.extend_from_slice(&chunk[..n]);
            let mut used = 0;
            while let Some(len) = request_len(&received[used..]) {
                let go_on = self.request(&received[used..used + len], &mut out);
                used += len;
                if !go_on {
                    self.stream.write_all(&out)?;
                    return Ok(());
                }
            }
            received.drain(..used);
            self.send(&out)?;
            out.clear();
        }
    }

    fn send(&mut self, out: &[u8]) -> io::Result<()> {
        let Some(step) = self.behaviour.dribble else { return self.stream.write_all(out) };
        for piece in out.chunks(step) {
            self.stream.write_all(piece)?;
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    fn handshake(&mut self) -> io::Result<bool> {
        let fault = self.behaviour.fault;
        match fault {
            Fault::SilentHandshake => return sleep_for_ever().map(|()| false),
            Fault::NotNbd => {
                self.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
                return Ok(false);
            }
            _ => {}
        }
        let mut greeting = p::GREETING_MAGIC.to_be_bytes().to_vec();
        let second = if fault == Fault::Oldstyle { 0x0000_4202_8186_1253 } else { p::OPTION_MAGIC };
        greeting.extend_from_slice(&second.to_be_bytes());
        greeting.extend_from_slice(&(p::FLAG_FIXED_NEWSTYLE | p::FLAG_NO_ZEROES).to_be_bytes());
        if fault == Fault::CloseInGreeting {
            greeting.truncate(12);
            self.stream.write_all(&greeting)?;
            return Ok(false);
        }
        self.stream.write_all(&greeting)?;
        self.stream.read_exact(&mut [0; 4])?;
        loop {
            let mut header = [0; 16];
            self.stream.read_exact(&mut header)?;
            let (option, len) = (be32(&header, 8), be32(&header, 12));
            let mut data = vec![0; len as usize];
            self.stream.read_exact(&mut data)?;
            match option {
                p::OPT_STRUCTURED_REPLY if self.behaviour.structured => {
                    self.structured = true;
                    self.option_reply(option, p::REP_ACK, &[])?;
                }
                p::OPT_GO if fault == Fault::RefuseExport => {
                    self.option_reply(option, p::REP_FLAG_ERROR | 6, b"try 'backup'")?;
                }
                p::OPT_GO if fault == Fault::EndlessInfo => loop {
                    self.option_reply(option, p::REP_INFO, &[0, 9, 0])?;
                },
                p::OPT_GO if fault == Fault::HugeOptionReply => {
                    let mut reply = p::OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
                    for number in [option, p::REP_INFO, u32::MAX] {
                        reply.extend_from_slice(&number.to_be_bytes());
                    }
                    self.stream.write_all(&reply)?;
                }
                p::OPT_GO => {
                    let mut info = p::INFO_EXPORT.to_be_bytes().to_vec();
                    info.extend_from_slice(&(self.behaviour.size_bytes as u64).to_be_bytes());
                    info.extend_from_slice(&self.behaviour.flags.to_be_bytes());
                    self.option_reply(option, p::REP_INFO, &info)?;
                    if let Some((min, preferred, max)) = self.behaviour.blocks {
                        let mut info = p::INFO_BLOCK_SIZE.to_be_bytes().to_vec();
                        for number in [min, preferred, max] {
                            info.extend_from_slice(&number.to_be_bytes());
                        }
                        self.option_reply(option, p::REP_INFO, &info)?;
                    }
                    self.option_reply(option, p::REP_ACK, &[])?;
                    return Ok(true);
                }
                _ => self.option_reply(option, p::REP_FLAG_ERROR | 1, &[])?,
            }
        }
    }

    fn option_reply(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let mut reply = p::OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        for number in [option, kind, data.len() as u32] {
            reply.extend_from_slice(&number.to_be_bytes());
        }
        reply.extend_from_slice(data);
        self.stream.write_all(&reply)
    }

    /// Answers one request; whether to go on.
    fn request(&mut self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let (command, cookie) = (be16(request, 6), be64(request, 8));
        let (offset, len) = (be64(request, 16), be32(request, 24));
        self.commands.lock().unwrap().push((command, offset, len));
        self.requests += 1;
        match self.behaviour.fault {
            Fault::NeverAnswers => return true,
            Fault::LosesOne if self.requests == 10 => return true,
            Fault::Errors(errno) => {
                self.error(cookie, errno, command, out);
                return true;
            }
            Fault::UnknownCookie => {
                simple(cookie ^ 0x8000, 0, out);
                return true;
            }
            Fault::WrongMagic => {
                out.extend_from_slice(&[0xaa; 64]);
                return true;
            }
            _ => {}
        }
        let fits = offset.checked_add(len.into()).is_some_and(|end| end <= self.behaviour.size_bytes as u64);
        if command == p::CMD_DISC {
            return false;
        }
        if command != p::CMD_FLUSH && !fits {
            self.error(cookie, 22, command, out);
            return true;
        }
        let range = if command == p::CMD_FLUSH { 0..0 } else { offset as usize..offset as usize + len as usize };
        let memory = self.memory.clone();
        let mut memory = memory.lock().unwrap();
        match command {
            p::CMD_READ => self.read(cookie, offset, &memory[range], out),
            p::CMD_WRITE => {
                memory[range].copy_from_slice(&request[28..]);
                simple(cookie, 0, out);
            }
            p::CMD_WRITE_ZEROES | p::CMD_TRIM => {
                memory[range].fill(0);
                simple(cookie, 0, out);
            }
            p::CMD_FLUSH => simple(cookie, 0, out),
            _ => simple(cookie, 22, out),
        }
        if self.behaviour.fault == Fault::RepliesTwice {
            simple(cookie, 0, out);
        }
        if self.behaviour.fault == Fault::CloseInReply {
            out.truncate(out.len().min(100));
            return false;
        }
        true
    }

    fn error(&self, cookie: u64, errno: u32, command: u16, out: &mut Vec<u8>) {
        if self.structured && command == p::CMD_READ {
            let mut payload = errno.to_be_bytes().to_vec();
            payload.extend_from_slice(&[0, 5]);
            payload.extend_from_slice(b"words");
            chunk(cookie, true, p::REPLY_TYPE_FLAG_ERROR | 1, &[&payload], out);
        } else {
            simple(cookie, errno, out);
        }
    }

    fn read(&self, cookie: u64, offset: u64, bytes: &[u8], out: &mut Vec<u8>) {
        let fault = self.behaviour.fault;
        let begin = out.len();
        if self.structured == (fault == Fault::WrongKind) {
            simple(cookie, 0, out);
            out.extend_from_slice(bytes);
        } else if bytes.len() > 1 && bytes.iter().all(|&b| b == 0) && fault == Fault::None {
            let payload = [&offset.to_be_bytes()[..], &(bytes.len() as u32).to_be_bytes()].concat();
            chunk(cookie, true, p::REPLY_TYPE_OFFSET_HOLE, &[&payload], out);
        } else {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            let middle = match fault {
                Fault::Outside => offset + bytes.len() as u64,
                Fault::Overlaps => offset,
                _ => offset + first.len() as u64,
            };
            // The second half first: the order is the server's choice.
            if fault != Fault::LeavesOut && !second.is_empty() {
                chunk(cookie, false, p::REPLY_TYPE_OFFSET_DATA, &[&middle.to_be_bytes(), second], out);
            }
            if !first.is_empty() {
                chunk(cookie, false, p::REPLY_TYPE_OFFSET_DATA, &[&offset.to_be_bytes(), first], out);
            }
            chunk(cookie, true, p::REPLY_TYPE_NONE, &[], out);
        }
        if let Fault::WrongByte(at) = fault
            && let Some(inside) = at.checked_sub(offset).filter(|&inside| inside < bytes.len() as u64)
        {
            out[begin + p::SIMPLE_REPLY_BYTES + inside as usize] ^= 1;
        }
    }
}

fn request_len(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < p::REQUEST_HEADER_BYTES {
        return None;
    }
    assert_eq!(be32(bytes, 0), p::REQUEST_MAGIC, "the client lost its place");
    let payload = if be16(bytes, 6) == p::CMD_WRITE { be32(bytes, 24) as usize } else { 0 };
    let len = p::REQUEST_HEADER_BYTES + payload;
    (bytes.len() >= len).then_some(len)
}

fn simple(cookie: u64, errno: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&p::SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&errno.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

fn chunk(cookie: u64, last: bool, kind: u16, payload: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(&p::STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&u16::from(last).to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&(payload.iter().map(|part| part.len()).sum::<usize>() as u32).to_be_bytes());
    for part in payload {
        out.extend_from_slice(part);
    }
}

fn sleep_for_ever() -> io::Result<()> {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

//! A client with one request at a time, each awaited.

#![allow(dead_code)] // Each test file uses its own part.

use std::time::Instant;

use flashmob_bench::nbd::connection::{Connection, Options};
use flashmob_bench::nbd::handshake::Export;
use flashmob_bench::nbd::pump::Single;
use flashmob_bench::nbd::reply::Replies;
use flashmob_bench::nbd::slots::Request;
use flashmob_bench::{Error, ServerError, Uri};
use flashmob_core::nbd::protocol as p;
use flashmob_core::op::Op;

#[derive(Debug)]
pub struct Client {
    single: Single,
}

struct Answer<'a> {
    into: &'a mut [u8],
    outcome: Option<Result<(), ServerError>>,
}

impl Replies for Answer<'_> {
    fn data(&mut self, request: &Request, offset_bytes: u64, bytes: &[u8]) {
        let begin = (offset_bytes - request.offset_bytes) as usize;
        self.into[begin..begin + bytes.len()].copy_from_slice(bytes);
    }

    fn done(&mut self, _request: &Request, outcome: Result<(), &ServerError>, _at: Instant) {
        self.outcome = Some(outcome.map_err(Clone::clone));
    }
}

impl Client {
    pub fn connect(uri: &Uri) -> Result<Client, Error> {
        Client::connect_with(uri, &Options::default())
    }

    pub fn connect_with(uri: &Uri, options: &Options) -> Result<Client, Error> {
        Ok(Client { single: Single::new(Connection::open(uri, options)?)? })
    }

    pub fn export(&self) -> &Export {
        self.single.connection.export()
    }

    pub fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.ask(Op::Read, 0, offset_bytes, bytes.len() as u32, &[], bytes)
    }

    pub fn write_at(&mut self, offset_bytes: u64, bytes: &[u8], fua: bool) -> Result<(), Error> {
        let flags = if fua { p::CMD_FLAG_FUA } else { 0 };
        self.ask(Op::Write, flags, offset_bytes, bytes.len() as u32, bytes, &mut [])
    }

    pub fn flush(&mut self) -> Result<(), Error> {
        self.ask(Op::Flush, 0, 0, 0, &[], &mut [])
    }

    pub fn trim(&mut self, offset_bytes: u64, len_bytes: u32) -> Result<(), Error> {
        self.ask(Op::Trim, 0, offset_bytes, len_bytes, &[], &mut [])
    }

    pub fn write_zeroes(&mut self, offset_bytes: u64, len_bytes: u32, flags: u16) -> Result<(), Error> {
        self.ask(Op::WriteZeroes, flags, offset_bytes, len_bytes, &[], &mut [])
    }

    pub fn disconnect(self) {
        self.single.connection.disconnect();
    }

    fn ask(
        &mut self,
        op: Op,
        flags: u16,
        offset_bytes: u64,
        len_bytes: u32,
        payload: &[u8],
        into: &mut [u8],
    ) -> Result<(), Error> {
        let connection = &mut self.single.connection;
        let submitted = Instant::now();
        assert!(
            connection.submit(submitted, op, flags, offset_bytes, len_bytes, |bytes| bytes.copy_from_slice(payload))
        );
        let mut answer = Answer { into, outcome: None };
        loop {
            self.single.turn(&mut answer)?;
            if let Some(outcome) = answer.outcome.take() {
                let what = Request { op, offset_bytes, len_bytes, submitted }.describe();
                let server = self.single.connection.server().to_string();
                return outcome.map_err(|error| Error::Request { server, what, error });
            }
        }
    }
}

//! Clients: NBD over a connection, or native calls. They ask at random, remember what they asked, and hand every
//! answer to the oracle.

use std::collections::BTreeMap;
use std::time::Duration;

use flashmob_core::buffers::{OutQueue, RxBuf};
use flashmob_core::gateway::NativeCall;
use flashmob_core::nbd::client::{ClientHandshake, ReplyHeader, decode_block_status, decode_error_chunk};
use flashmob_core::nbd::protocol::*;
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Time;
use rand::Rng;

use super::fault::Fault;
use super::net::{ConnId, ConnKind};
use super::oracle::{Leaves, Stamp, WriteId, pattern};
use super::scenario::ClientPlan;
use super::trace::What;
use super::{Event, World};

/// How long a client's loop needs to notice something, at most, in nanoseconds.
const WAKE_NS_MAX: u64 = 20_000;
/// Pause before a client that lost its connection comes back.
const RETURN_PAUSE: Duration = Duration::from_millis(15);

#[derive(Debug)]
pub(super) struct Pending {
    pub op: Op,
    /// FUA; of a map, that one run is wanted.
    fua: bool,
    pub spans: Vec<(u64, u32)>,
    pub asked: Stamp,
    pub at: Time,
    pub write: Option<WriteId>,
}

#[derive(Debug)]
enum Stage {
    /// Comes (back) at that time.
    Away(Time),
    Handshake(ClientHandshake),
    Open,
}

#[derive(Debug)]
pub(super) struct Client {
    plan: ClientPlan,
    stage: Stage,
    conn: Option<ConnId>,
    rx: RxBuf,
    out: OutQueue,
    structured: bool,
    /// The size of the volume, as it was told.
    pub size_bytes: u64,
    /// The gateway's number of `base:allocation`, if it was chosen.
    context: Option<u32>,
    pub open: BTreeMap<u64, Pending>,
    next_cookie: u64,
    pub left: u32,
    next_issue: Time,
    is_awake: bool,
    /// Spans that the final check still has to read, in descending order.
    pub to_verify: Vec<(u64, u32)>,
    /// Requests that died with their connection, which the gateway may not know yet.
    abandoned: Vec<(ConnId, Pending)>,
}

impl Client {
    pub fn is_native(&self) -> bool {
        self.plan.native
    }

    pub fn new(plan: ClientPlan) -> Client {
        Client {
            left: plan.requests,
            plan,
            stage: Stage::Away(Time::default()),
            conn: None,
            rx: RxBuf::new(),
            out: OutQueue::new(),
            structured: false,
            size_bytes: 0,
            context: None,
            open: BTreeMap::new(),
            next_cookie: 0,
            next_issue: Time::default(),
            is_awake: false,
            to_verify: Vec::new(),
            abandoned: Vec::new(),
        }
    }

    pub fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// Whether it has nothing to ask and waits for nothing.
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.open.is_empty() && self.to_verify.is_empty()
    }
}

enum Answer<'a> {
    Done,
    Read(&'a [u8]),
    /// Lengths, and whether each is a hole.
    Map(Vec<(u32, bool)>),
    Error(u32),
}

/// A native call's failure as an NBD error, so that both kinds of clients are checked alike.
fn errno_of(failure: Failure) -> u32 {
    match failure {
        Failure::Io => EIO,
        Failure::NoSpace => ENOSPC,
        // Behind the end of a volume that was made smaller.
        Failure::Invalid => EINVAL,
        // None that a client may see here.
        other => 1000 + other as u32,
    }
}

impl World {
    /// Requests that were not answered until the end.
    pub(super) fn take_unanswered(&mut self) -> Vec<(usize, Pending)> {
        let clients = self.clients.iter_mut().enumerate();
        let of_client = |(c, client): (usize, &mut Client)| {
            let open = std::mem::take(&mut client.open).into_values();
            open.chain(client.abandoned.drain(..).map(|(_, pending)| pending)).map(|p| (c, p)).collect::<Vec<_>>()
        };
        clients.flat_map(of_client).collect()
    }

    pub(super) fn wake_client(&mut self, c: usize) {
        let at = self.ctx.now + Duration::from_nanos(self.ctx.rng.random_range(0..WAKE_NS_MAX));
        self.wake_client_at(c, at);
    }

    fn wake_client_at(&mut self, c: usize, at: Time) {
        if !std::mem::replace(&mut self.clients[c].is_awake, true) {
            self.ctx.at(at, Event::ClientTurn { client: c });
        }
    }

    /// Something happened on a client's connection.
    pub(super) fn client_conn_event(&mut self, c: usize, conn: ConnId, is_closed: bool) {
        if is_closed && self.clients[c].conn == Some(conn) {
            self.client_reads(c);
            if self.clients[c].conn == Some(conn) {
                self.client_leaves(c);
            }
        }
        // A pause may be under way; news end it.
        self.ctx.at(self.ctx.now, Event::ClientTurn { client: c });
    }

    pub(super) fn client_turn(&mut self, c: usize) {
        self.clients[c].is_awake = false;
        if let Stage::Away(until) = self.clients[c].stage {
            if self.clients[c].is_done() {
                return;
            }
            if self.ctx.now < until {
                return self.wake_client_at(c, until);
            }
            self.client_arrives(c);
        }
        self.client_reads(c);
        if matches!(self.clients[c].stage, Stage::Open) {
            self.client_asks(c);
        }
        let client = &mut self.clients[c];
        if let Some(conn) = client.conn {
            let n = self.net.write(&mut self.ctx, conn, 0, &client.out);
            client.out.advance(n);
        }
    }

    fn client_arrives(&mut self, c: usize) {
        if self.clients[c].plan.native {
            if self.native_opens(c) {
                self.clients[c].stage = Stage::Open;
                self.client_opened(c);
            } else {
                self.client_waits(c);
            }
            return;
        }
        if self.gateway.core.is_none() {
            return self.client_waits(c);
        }
        let structured = self.clients[c].plan.structured;
        let has_maps = self.clients[c].plan.map_rate > 0.0;
        match ClientHandshake::new("v", structured) {
            Ok(handshake) if has_maps => self.clients[c].stage = Stage::Handshake(handshake.with_maps()),
            Ok(handshake) => self.clients[c].stage = Stage::Handshake(handshake),
            Err(error) => return self.ctx.fail(format!("client {c}: {error}")),
        }
        let conn = self.net.connect(ConnKind::Client(c), &self.scenario.client_link);
        let client = &mut self.clients[c];
        (client.conn, client.rx, client.out) = (Some(conn), RxBuf::new(), OutQueue::new());
        self.gateway_accepts(conn);
    }

    fn client_waits(&mut self, c: usize) {
        let until = self.ctx.now + RETURN_PAUSE;
        self.clients[c].stage = Stage::Away(until);
        self.wake_client_at(c, until);
    }

    fn client_opened(&mut self, c: usize) {
        self.ctx.trace(What::Opened { client: c as u8 });
        self.oracle.client_opened(c);
        self.wake_client(c);
    }

    /// The client has no connection any more, for whatever reason.
    pub(super) fn client_leaves(&mut self, c: usize) {
        self.ctx.trace(What::Left { client: c as u8 });
        let client = &mut self.clients[c];
        let open = std::mem::take(&mut client.open).into_values();
        if let Some(conn) = client.conn.take() {
            client.abandoned.extend(open.map(|p| (conn, p)));
            self.net.close(&mut self.ctx, conn, 0, Duration::ZERO);
            if self.gone.contains(&conn) {
                self.client_gone(conn);
            }
        } else {
            let is_of_former = self.has_former_native(c);
            self.native_closes(c);
            open.for_each(|p| self.abandons(c, p, is_of_former));
        }
        self.client_waits(c);
    }

    /// The gateway knows that a connection has ended: what came over it changes nothing that is asked from now on.
    pub(super) fn client_gone(&mut self, conn: ConnId) {
        self.gone.insert(conn);
        let ConnKind::Client(c) = self.net.conns[conn].kind else { return };
        let is_of_former = self.of_former.contains(&conn);
        let abandoned: Vec<_> = self.clients[c].abandoned.extract_if(.., |(of, _)| *of == conn).collect();
        abandoned.into_iter().for_each(|(_, p)| self.abandons(c, p, is_of_former));
    }

    /// A request will not be answered.
    fn abandons(&mut self, c: usize, pending: Pending, is_of_former: bool) {
        if pending.op.mutates() {
            self.note_changed(false);
        }
        self.note_change(c, &pending, false);
        match pending.write {
            Some(write) if !is_of_former => self.oracle.goes_on(write, pending.asked),
            write => self.oracle.abandoned(pending.asked, write, pending.op == Op::Flush),
        }
    }

    /// The gateway that a native client belonged to is gone.
    pub(super) fn native_gone(&mut self, c: usize) {
        self.client_leaves(c);
    }

    fn client_reads(&mut self, c: usize) {
        let Some(conn) = self.clients[c].conn else { return };
        let mut rx = std::mem::take(&mut self.clients[c].rx);
        let mut more = true;
        while more && self.net.has_unread(conn, 0) {
            self.net.read(&mut self.ctx, conn, 0, &mut rx);
            more = self.client_decodes(c, &mut rx);
        }
        self.clients[c].rx = rx;
    }

    /// Decodes what has come. False when the client gave up.
    fn client_decodes(&mut self, c: usize, rx: &mut RxBuf) -> bool {
        let client = &mut self.clients[c];
        if let Stage::Handshake(handshake) = &mut client.stage {
            match handshake.next(rx, &mut client.out) {
                Ok(None) => {}
                Ok(Some(connected)) => {
                    (client.structured, client.context) = (connected.structured, connected.context);
                    client.stage = Stage::Open;
                    client.size_bytes = connected.size_bytes;
                    if !self.has_had_size(connected.size_bytes) {
                        self.ctx.fail(format!("the volume has {} bytes for client {c}", connected.size_bytes));
                    }
                    self.client_opened(c);
                }
                Err(_) => {
                    // The volume is not ready yet; anything worse shows when no client ever gets anywhere.
                    self.client_leaves(c);
                    return false;
                }
            }
        }
        while matches!(self.clients[c].stage, Stage::Open) {
            match self.client_takes_reply(c, rx) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(text) => {
                    self.ctx.fail(format!("client {c}: {text}"));
                    return false;
                }
            }
        }
        true
    }

    /// Takes one reply; false if it is not all there.
    fn client_takes_reply(&mut self, c: usize, rx: &mut RxBuf) -> Result<bool, String> {
        let Some((header, header_bytes)) = ReplyHeader::decode(rx.data()).map_err(|e| e.to_string())? else {
            return Ok(false);
        };
        let cookie = match header {
            ReplyHeader::Simple { cookie, .. } | ReplyHeader::Chunk { cookie, .. } => cookie,
        };
        let pending = self.clients[c].open.get(&cookie).ok_or(format!("an answer to #{cookie}, which is not open"))?;
        let (is_read, is_map) = (pending.op == Op::Read, pending.op == Op::Map);
        let (offset, len) = pending.spans.first().copied().unwrap_or_default();
        let data_bytes = match header {
            ReplyHeader::Simple { errno: 0, .. } if is_read => len as usize,
            ReplyHeader::Simple { .. } => 0,
            ReplyHeader::Chunk { len_bytes, .. } => len_bytes as usize,
        };
        if rx.len() < header_bytes + data_bytes {
            return Ok(false);
        }
        let body = rx.data()[header_bytes..header_bytes + data_bytes].to_vec();
        rx.consume(header_bytes + data_bytes);
        let answer = match header {
            ReplyHeader::Simple { errno: 0, .. } if is_read => Answer::Read(&body),
            ReplyHeader::Simple { errno: 0, .. } => Answer::Done,
            ReplyHeader::Simple { errno, .. } => Answer::Error(errno),
            ReplyHeader::Chunk { flags, .. } if flags != REPLY_FLAG_DONE => {
                return Err("an answer of several chunks".to_string());
            }
            ReplyHeader::Chunk { kind: REPLY_TYPE_ERROR, .. } => {
                Answer::Error(decode_error_chunk(&body).map_err(|e| e.to_string())?.0)
            }
            ReplyHeader::Chunk { kind: REPLY_TYPE_OFFSET_DATA, .. } if is_read => {
                let (at, data) = body.split_first_chunk::<8>().ok_or("a chunk without an offset")?;
                if u64::from_be_bytes(*at) != offset || data.len() != len as usize {
                    return Err(format!("#{cookie} is answered with another range"));
                }
                Answer::Read(data)
            }
            ReplyHeader::Chunk { kind: REPLY_TYPE_BLOCK_STATUS, .. } if is_map => {
                let (context, extents) = decode_block_status(&body).map_err(|e| e.to_string())?;
                let is_known = |&(_, status): &(u32, u32)| status == 0 || status == STATE_HOLE | STATE_ZERO;
                if Some(context) != self.clients[c].context || !extents.iter().all(is_known) {
                    return Err(format!("#{cookie} is answered with another context or status"));
                }
                Answer::Map(extents.into_iter().map(|(len, status)| (len, status != 0)).collect())
            }
            ReplyHeader::Chunk { kind, .. } => return Err(format!("a chunk of kind {kind} for #{cookie}")),
        };
        self.client_answered(c, cookie, &answer)?;
        Ok(true)
    }

    pub(super) fn native_answered(&mut self, c: usize, cookie: u64, result: Result<Vec<u8>, Failure>) {
        let is_read = self.clients[c].open.get(&cookie).is_some_and(|p| p.op == Op::Read);
        let answer = match &result {
            Ok(data) if is_read => Answer::Read(data),
            Ok(_) => Answer::Done,
            Err(failure) => Answer::Error(errno_of(*failure)),
        };
        if let Err(text) = self.client_answered(c, cookie, &answer) {
            self.ctx.fail(format!("client {c}: {text}"));
        }
    }

    fn client_answered(&mut self, c: usize, cookie: u64, answer: &Answer<'_>) -> Result<(), String> {
        let pending = self.clients[c].open.remove(&cookie).ok_or(format!("a second answer to #{cookie}"))?;
        let errno = if let Answer::Error(errno) = answer { *errno } else { 0 };
        self.ctx.trace(What::Answered { client: c as u8, cookie, errno });
        self.ctx.trace.mix(cookie << 8 | u64::from(errno));
        self.ctx.totals.answers += 1;
        let is_of_former = self.is_client_of_former(c);
        if errno != 0 {
            self.ctx.totals.errors += 1;
        }
        if errno != 0 && !is_of_former {
            self.check_error(c, cookie, &pending, errno)?;
        } else if errno == 0 && self.scenario.record_latencies {
            self.latencies.push((c, self.ctx.now.nanos_since(pending.at)));
        }
        if pending.op == Op::Flush && errno == 0 {
            self.note_flushed(pending.at);
        }
        let by_fault = is_of_former || (0..self.nodes.len()).any(|n| self.is_excused(n, pending.at));
        let is_leased = self.is_leased();
        let oracle = &mut self.oracle;
        match (pending.op, answer) {
            // It may be old.
            (Op::Read | Op::Map, _) if is_of_former && !is_leased => oracle.read_failed(pending.asked),
            (Op::Read, Answer::Read(data)) => {
                let expected: usize = pending.spans.iter().map(|s| s.1 as usize).sum();
                if data.len() != expected {
                    return Err(format!("#{cookie} is answered with {} bytes instead of {expected}", data.len()));
                }
                self.note_read(c, &pending, data);
                let oracle = &mut self.oracle;
                let mut rest = *data;
                for &(offset, len) in &pending.spans {
                    let (part, later) = rest.split_at(len as usize);
                    oracle.read_ended(pending.asked, offset, part)?;
                    rest = later;
                }
            }
            (Op::Map, Answer::Map(runs)) => self.check_map(c, &pending, runs)?,
            (Op::Read | Op::Map, _) => oracle.read_failed(pending.asked),
            (Op::Flush, _) => oracle.flush_ended(c, pending.asked, errno == 0, by_fault)?,
            (_, _) => {
                let write = pending.write.ok_or("a change without a number")?;
                self.note_change(c, &pending, errno == 0);
                self.note_changed(errno == 0);
                if errno == 0 && !is_of_former {
                    self.check_enough(&pending.spans, pending.at)?;
                }
                let oracle = &mut self.oracle;
                if errno == 0 || is_of_former {
                    oracle.write_ended(write, pending.fua, errno == 0);
                } else {
                    oracle.goes_on(write, pending.asked);
                }
            }
        }
        self.wake_client(c);
        Ok(())
    }

    /// A hole reads as zeros, and no write that the client had sent before it asked is under way there.
    fn check_map(&mut self, c: usize, pending: &Pending, runs: &[(u32, bool)]) -> Result<(), String> {
        let (offset, len) = pending.spans.first().copied().unwrap_or_default();
        let covered: u64 = runs.iter().map(|&(len, _)| u64::from(len)).sum();
        if covered == 0 || covered > len.into() || (pending.fua && runs.len() > 1) {
            return Err(format!("a map of {offset}+{len} covers {covered} bytes in {} runs", runs.len()));
        }
        let mut at = offset;
        for &(len, is_hole) in runs {
            let end = at + u64::from(len);
            if is_hole {
                self.ctx.totals.hole_bytes += u64::from(len);
                self.oracle.hole_seen(pending.asked, at, len)?;
                let place = |of: &Pending| of.spans.first().map_or((0, 0), |&(at, len)| (at, at + u64::from(len)));
                let under_way = self.clients[c].open.values().find(|other| {
                    let (first, last) = (place(other).0.max(at), place(other).1.min(end));
                    other.op == Op::Write
                        && other.asked < pending.asked
                        && first < last
                        && !self.oracle.is_zeroed_since(other.asked, (first, last))
                        && !self.oracle.nodes_of(first, last - first).any(|n| self.is_excused(n, pending.at))
                });
                if let Some(write) = under_way {
                    let (first, last) = place(write);
                    return Err(format!(
                        "bytes {at}..{end} are shown as a hole while a write to {first}..{last} is under way"
                    ));
                }
            } else {
                self.ctx.totals.mapped_data_bytes += u64::from(len);
            }
            at = end;
        }
        self.oracle.read_failed(pending.asked);
        Ok(())
    }

    /// Errors are allowed only where a fault can be the reason.
    fn check_error(&mut self, c: usize, cookie: u64, pending: &Pending, errno: u32) -> Result<(), String> {
        let is_known = errno == EIO || (errno == ENOSPC && pending.op.mutates());
        let is_excused = match &self.scenario.copies {
            Some(_) => self.are_copies_excused(&pending.spans, pending.at),
            None => self.touched(&pending.spans).any(|n| self.is_excused(n, pending.at)),
        };
        // A flush that a store failed is told to every client once, whenever it asks next.
        let store_failed = || self.scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::StoreErrors(..)));
        let is_loss = pending.op == Op::Flush && (self.oracle.may_flush_fail(c) || store_failed());
        // Where memory is short, requests of sick nodes hold up others.
        let is_crowded = self.is_crowded() && (0..self.nodes.len()).any(|n| self.is_excused(n, pending.at));
        let is_of_map = self.is_map_to_blame(pending.op, pending.at);
        let is_refused = errno == EINVAL || (errno == ENOSPC && pending.op.mutates());
        if is_refused && self.is_behind_end(pending.op, &pending.spans, pending.at) {
            return Ok(());
        }
        let is_of_rot = errno == EIO && self.is_rot_to_blame(pending.op, &pending.spans);
        if is_known && (is_excused || is_loss || is_crowded || is_of_map || is_of_rot) {
            return Ok(());
        }
        Err(format!(
            "#{cookie} ({}) failed with error {errno}, but no node that it touches had a fault",
            pending.op.name()
        ))
    }

    /// The nodes that a request concerns: all of them, for a flush.
    pub(super) fn touched<'a>(&'a self, spans: &'a [(u64, u32)]) -> impl Iterator<Item = usize> + 'a {
        let all = if spans.is_empty() { 0..self.nodes.len() } else { 0..0 };
        spans.iter().flat_map(|&(at, len)| self.oracle.nodes_of(at, u64::from(len))).chain(all)
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.scenario.gateway_memory_bytes < 1 << 20
    }

    fn client_asks(&mut self, c: usize) {
        while let Some(span) = self.clients[c].to_verify.last().copied() {
            if self.clients[c].open.len() >= 2 {
                return;
            }
            self.clients[c].to_verify.pop();
            self.ask(c, Op::Read, false, vec![span]);
        }
        loop {
            let client = &self.clients[c];
            if client.left == 0 || client.open.len() >= client.plan.depth {
                return;
            }
            if client.next_issue > self.ctx.now {
                let at = client.next_issue;
                return self.wake_client_at(c, at);
            }
            let (think_ns, leave_rate) = (client.plan.think_ns, client.plan.leave_rate);
            let pause_ns = if think_ns == 0 { 0 } else { self.ctx.rng.random_range(0..2 * think_ns) };
            self.clients[c].next_issue = self.ctx.now + Duration::from_nanos(pause_ns);
            if leave_rate > 0.0 && self.ctx.rng.random_bool(leave_rate) {
                // What it has written may still arrive.
                return self.client_leaves(c);
            }
            self.clients[c].left -= 1;
            let (op, fua, spans) = self.draw_request(c);
            self.ask(c, op, fua, spans);
        }
    }

    fn draw_request(&mut self, c: usize) -> (Op, bool, Vec<(u64, u32)>) {
        // Without it, the volume was not ready yet when the client asked for the context.
        let has_maps = self.clients[c].context.is_some();
        let size_bytes = self.size_for(c);
        let (rng, plan) = (&mut self.ctx.rng, &self.clients[c].plan);
        let mut ticket = rng.random_range(0..plan.mix.iter().sum());
        let kinds = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes];
        let mut op = Op::Read;
        for (kind, &weight) in kinds.into_iter().zip(&plan.mix) {
            if ticket < weight {
                op = kind;
                break;
            }
            ticket -= weight;
        }
        if op == Op::Flush {
            return (op, false, Vec::new());
        }
        let parts = if plan.native && op == Op::Read && rng.random_bool(0.3) { rng.random_range(2..6) } else { 1 };
        let mut spans = Vec::with_capacity(parts);
        for _ in 0..parts {
            let longest = if rng.random_bool(0.4) { plan.len_max.min(16) } else { plan.len_max };
            let len = rng.random_range(1..=longest).min(size_bytes);
            let at = match plan.busy.get(rng.random_range(0..plan.busy.len().max(1))) {
                Some(&(start, busy)) if rng.random_bool(plan.busy_rate) => start + rng.random_range(0..busy),
                _ => rng.random_range(0..size_bytes),
            };
            spans.push((at.min(size_bytes - len), len as u32));
        }
        if op == Op::Read && has_maps && rng.random_bool(plan.map_rate) {
            // Often longer than what one answer tells.
            let (at, _) = spans[0];
            let longest = u32::try_from(size_bytes - at).unwrap_or(u32::MAX);
            return (Op::Map, rng.random_ratio(1, 4), vec![(at, rng.random_range(1..=longest))]);
        }
        (op, op.mutates() && rng.random_bool(plan.fua_rate), spans)
    }

    fn ask(&mut self, c: usize, op: Op, fua: bool, spans: Vec<(u64, u32)>) {
        let (offset, len) = spans.first().copied().unwrap_or_default();
        let asked = self.oracle.asked();
        let range = (offset, offset + u64::from(len));
        let leaves = match op {
            Op::Write => Some(Leaves::Pattern),
            Op::WriteZeroes => Some(Leaves::Zeros),
            // On copies it leaves zeros, so that all have the same.
            Op::Trim if self.scenario.copies.is_some() => Some(Leaves::Zeros),
            Op::Trim => Some(Leaves::MaybeZeros),
            Op::Read | Op::Flush | Op::Map | Op::Digest => None,
        };
        if op == Op::Flush {
            self.oracle.flush_asked();
        }
        let write = leaves.map(|leaves| self.oracle.write_asked(c, asked, range, leaves));
        let payload: Vec<u8> = match write {
            Some(id) if op == Op::Write => (range.0..range.1).map(|at| pattern(id, at)).collect(),
            _ => Vec::new(),
        };
        let client = &mut self.clients[c];
        client.next_cookie += 1;
        let cookie = client.next_cookie;
        self.ctx.trace(What::Asked { client: c as u8, cookie, op, offset, len, fua });
        self.ctx.totals.requests[op as usize] += 1;
        let flags = if fua { OpFlags::FUA } else { OpFlags::NONE };
        let pending = Pending { op, fua, spans: spans.clone(), asked, at: self.ctx.now, write };
        client.open.insert(cookie, pending);
        if client.plan.native {
            return self.native_calls(c, NativeCall { cookie, op, flags, spans, payload });
        }
        let command = match op {
            Op::Read => CMD_READ,
            Op::Write => CMD_WRITE,
            Op::Flush => CMD_FLUSH,
            Op::Trim => CMD_TRIM,
            Op::WriteZeroes => CMD_WRITE_ZEROES,
            Op::Map => CMD_BLOCK_STATUS,
            // NBD has none, and no client draws it.
            Op::Digest => u16::MAX,
        };
        let flags = match (fua, op) {
            (false, _) => 0,
            (true, Op::Map) => CMD_FLAG_REQ_ONE,
            (true, _) => CMD_FLAG_FUA,
        };
        let header = RequestHeader { flags, command, cookie, offset_bytes: offset, len_bytes: len };
        client.out.push_bytes(&header.encode());
        client.out.push_bytes(&payload);
    }
}

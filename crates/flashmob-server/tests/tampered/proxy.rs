//! A proxy between a gateway and a node that changes what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::change::{Change, Changer, Touched};

/// A connection that was tampered with is ended after this silence: its ends may wait for bytes that never come.
const SILENCE_MS: u64 = 150;
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// Connections from one address. A node lets each address, and all unknown ones together, begin few handshakes a second.
const PER_SOURCE: u64 = 12;

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the gateway to the node.
    ToNode,
    /// From the node to the gateway.
    ToGateway,
}

/// Both directions.
pub const DIRECTIONS: [Direction; 2] = [Direction::ToNode, Direction::ToGateway];

/// What is done to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Where it leads, if not to the node that it is meant for.
    pub elsewhere: Option<SocketAddr>,
    pub direction: Direction,
    pub change: Change,
}

impl Plan {
    /// Everything is passed on.
    pub const NONE: Plan = Plan::new(Direction::ToNode, Change::None);

    pub const fn new(direction: Direction, change: Change) -> Plan {
        Plan { elsewhere: None, direction, change }
    }

    pub const fn elsewhere(address: SocketAddr) -> Plan {
        Plan { elsewhere: Some(address), ..Plan::NONE }
    }
}

/// A connection through the proxy.
pub struct Connection {
    near: TcpStream,
    far: TcpStream,
    plan: Plan,
    start: Instant,
    moved_ms: AtomicU64,
    touched: Mutex<Option<Touched>>,
    /// What came from either end, before any change.
    came: [Mutex<Vec<u8>>; 2],
}

impl Connection {
    /// Where it was changed, if it was.
    pub fn touched(&self) -> Option<Touched> {
        *self.touched.lock().expect("what was changed")
    }

    /// What came so far, before any change.
    pub fn came(&self, direction: Direction) -> Vec<u8> {
        self.came[direction as usize].lock().expect("what came").clone()
    }

    /// Ends it in both directions.
    pub fn kill(&self) {
        for stream in [&self.near, &self.far] {
            // It may have ended.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn is_silent(&self) -> bool {
        self.touched().is_some()
            && self.start.elapsed().as_millis() as u64 > self.moved_ms.load(Ordering::SeqCst) + SILENCE_MS
    }

    fn pump(&self, direction: Direction) {
        let (mut from, mut to) = match direction {
            Direction::ToNode => (&self.near, &self.far),
            Direction::ToGateway => (&self.far, &self.near),
        };
        let change = if self.plan.direction == direction { self.plan.change } else { Change::None };
        let mut changer = Changer::new(change, &self.touched);
        let (mut waiting, mut room) = (Vec::new(), [0; 16_384]);
        loop {
            match from.read(&mut room) {
                Ok(0) => break,
                Ok(n) => {
                    self.moved_ms.store(self.start.elapsed().as_millis() as u64, Ordering::SeqCst);
                    self.came[direction as usize].lock().expect("what came").extend_from_slice(&room[..n]);
                    waiting.extend_from_slice(&room[..n]);
                    let mut out = Vec::new();
                    let is_cut = changer.pass(&mut waiting, &mut out);
                    if to.write_all(&out).is_err() {
                        break;
                    }
                    if is_cut {
                        // The rest of this direction is read, and withheld.
                        let _ = to.shutdown(Shutdown::Write);
                    }
                }
                Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    if self.is_silent() {
                        return self.kill();
                    }
                }
                Err(_) => break,
            }
        }
        // The other end learns that there is no more.
        let _ = to.shutdown(Shutdown::Write);
    }
}

/// The proxy.
pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    to: SocketAddr,
    next: Option<Plan>,
    /// All connections are subject to the next plan.
    is_for_all: bool,
    /// The connection that took the last plan, and the last connection.
    planned: Option<Arc<Connection>>,
    last: Option<Arc<Connection>>,
    count: u64,
}

impl Proxy {
    /// Passes connections on to `to`, unchanged until told otherwise.
    pub fn new(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state =
            Arc::new(Mutex::new(State { to, next: None, is_for_all: false, planned: None, last: None, count: 0 }));
        let accepting = Arc::clone(&state);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                accept(&accepting, near);
            }
        });
        Proxy { address, state }
    }

    /// Ends the current connection. The next one is subject to the plan, and those after it to none.
    pub fn plan(&self, plan: Plan) {
        let mut state = self.state.lock().expect("the proxy");
        (state.next, state.planned) = (Some(plan), None);
        if let Some(last) = state.last.take() {
            last.kill();
        }
    }

    /// From now on every connection is subject to the plan.
    pub fn plan_for_all(&self, plan: Plan) {
        self.state.lock().expect("the proxy").is_for_all = true;
        self.plan(plan);
    }

    /// How many connections there were.
    pub fn count(&self) -> u64 {
        self.state.lock().expect("the proxy").count
    }

    /// Whether no other connection has taken the place of the one that was subject to the last plan.
    pub fn has_planned(&self) -> bool {
        let state = self.state.lock().expect("the proxy");
        matches!((&state.planned, &state.last), (Some(planned), Some(last)) if Arc::ptr_eq(planned, last))
    }

    /// The connection that was subject to the last plan, if there was one already.
    pub fn planned(&self) -> Option<Arc<Connection>> {
        self.state.lock().expect("the proxy").planned.clone()
    }
}

fn accept(state: &Mutex<State>, near: TcpStream) {
    let mut state = state.lock().expect("the proxy");
    let plan = state.next.unwrap_or(Plan::NONE);
    state.count += 1;
    let Ok(far) = connect(plan.elsewhere.unwrap_or(state.to), state.count / PER_SOURCE) else { return };
    for stream in [&near, &far] {
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(LOOK_EVERY)).expect("a timeout");
    }
    let connection = Arc::new(Connection {
        near,
        far,
        plan,
        start: Instant::now(),
        moved_ms: AtomicU64::new(0),
        touched: Mutex::new(None),
        came: Default::default(),
    });
    if state.next.is_some() {
        state.planned = Some(Arc::clone(&connection));
    }
    if !state.is_for_all {
        state.next = None;
    }
    state.last = Some(Arc::clone(&connection));
    for direction in DIRECTIONS {
        let connection = Arc::clone(&connection);
        std::thread::spawn(move || connection.pump(direction));
    }
}

/// Connects from an address of this machine of that number: all of 127.0.0.0/8 are.
fn connect(to: SocketAddr, number: u64) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    let from = [127, 1 + (number / 62_500) as u8, (number / 250 % 250) as u8, 1 + (number % 250) as u8];
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

//! One test, from the connection to the counts of both ends.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use flashmob_results::net::{Direction, Interval, Messages, Protocol, Repetition};

use super::control::Control;
use super::course::{Course, Ending};
use super::error::NetError;
use super::protocol::parameters::{BLOCK_BYTES_DEFAULT, Parameters};
use super::protocol::results::Results;
use super::protocol::{Cookie, RESULTS_BYTES_MAX, State, datagram, stream_id};
use super::stream::{self, Socket, Stream};
use super::traffic::{Counted, Traffic};
use super::{outcome, setup};
use flashmob_host::addresses_of;

/// Time limit for a step without data.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the server to close the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after which a hello is repeated.
const HELLO_AGAIN: Duration = Duration::from_secs(2);
/// Time without progress after which the other end is considered gone.
const SILENCE: Duration = Duration::from_secs(10);

/// The server, and the time limit for connecting.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Address of this device to connect from.
    pub bind: Option<IpAddr>,
    /// Time limit for connecting, and for the server's first message.
    pub connect_timeout: Duration,
}

/// The length of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This time.
    Time(Duration),
    /// This many bytes in each direction.
    Bytes(u64),
}

/// The parameters of a test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// TCP, datagrams or messages.
    pub protocol: Protocol,
    /// Direction of the data.
    pub direction: Direction,
    /// Streams in each direction.
    pub streams: u32,
    /// Congestion control of all sockets.
    pub congestion: Option<String>,
    /// Maximum rate of each stream.
    pub rate_bits_per_second: Option<u64>,
    /// Bytes of each write or datagram; `None`: iperf3's default.
    pub block_bytes: Option<u32>,
    /// Size of both buffers of each socket.
    pub window_bytes: Option<u64>,
    /// Sizes and number of messages.
    pub messages: Option<Messages>,
    /// Its length.
    pub length: Length,
    /// Seconds before anything counts.
    pub omit_s: u32,
    /// Interval of reports.
    pub interval: Duration,
}

/// The result of a test.
#[derive(Debug)]
pub struct Run {
    /// The measurement.
    pub repetition: Repetition,
    /// Bytes of each write or datagram.
    pub block_bytes: u32,
    /// It was cancelled: the figures are the counts of this end.
    pub is_cancelled: bool,
}

/// Runs a test. `watch` gets the figures of all streams after each interval.
///
/// # Errors
/// The test failed: the error names the other end and the remedy. [`NetError::Cancelled`] if it was cancelled before data was sent.
pub fn run(
    target: &Target,
    plan: &Plan,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(&[Interval]),
) -> Result<Run, NetError> {
    let host = if target.host.contains(':') { format!("[{}]", target.host) } else { target.host.clone() };
    let peer = format!("{host}:{}", target.port);
    let (control, address) = connect(target, &peer)?;
    let parameters = parameters(plan, &control);
    let cookie = cookie()?;
    control.write(cookie.bytes(), "sending the cookie")?;
    let session = Session { control, address, target, parameters, cookie, cancel };
    match session.run(plan, watch) {
        // The server need not wait for more.
        Err(error @ (NetError::Cancelled | NetError::Plain { .. } | NetError::System { .. })) => {
            let _ = session.control.say(State::ClientTerminate, "ending");
            Err(error)
        }
        other => other,
    }
}

fn parameters(plan: &Plan, control: &Control) -> Parameters {
    let default =
        if plan.protocol == Protocol::Udp { setup::datagram_bytes(control.stream()) } else { BLOCK_BYTES_DEFAULT };
    let (time_s, bytes) = match plan.length {
        // iperf3 knows whole seconds only; this end ends the test.
        Length::Time(time) => (time.as_secs_f64().ceil() as u32, None),
        Length::Bytes(bytes) => (0, Some(bytes)),
    };
    Parameters {
        protocol: plan.protocol,
        direction: plan.direction,
        streams: plan.streams,
        omit_s: plan.omit_s,
        time_s,
        bytes,
        block_bytes: plan.block_bytes.unwrap_or(default),
        rate_bits_per_second: plan.rate_bits_per_second,
        window_bytes: plan.window_bytes,
        congestion: plan.congestion.clone(),
        nodelay: false,
        mss_bytes: None,
        counters_64bit: false,
        messages: plan.messages,
        client_version: format!("flashmob {}", env!("CARGO_PKG_VERSION")),
        is_flashmob: true,
    }
}

fn cookie() -> Result<Cookie, NetError> {
    let mut random = [0; super::protocol::COOKIE_BYTES - 1];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| NetError::System { doing: "get random bytes", source: error.into() })?;
    Ok(Cookie::new(random))
}

/// Connects to the first of the host's addresses that answers, within the time limit for all of them.
fn connect(target: &Target, peer: &str) -> Result<(Control, SocketAddr), NetError> {
    let addresses: Vec<SocketAddr> = addresses_of(&target.host, target.port)
        .map_err(|source| NetError::Name { host: target.host.clone(), source })?
        .into_iter()
        .filter(|address| target.bind.is_none_or(|from| from.is_ipv4() == address.is_ipv4()))
        .collect();
    let until = Instant::now() + target.connect_timeout;
    let mut is_ipv4 = true;
    let mut failure = io::Error::new(io::ErrorKind::AddrNotAvailable, "it has no address of the family of --bind");
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match setup::connect(address, target.bind, None, left) {
            Ok(stream) => return Ok((Control::new(stream, peer.to_string())?, address)),
            Err(error) => (failure, is_ipv4) = (error, address.ip().to_canonical().is_ipv4()),
        }
    }
    let peer = peer.to_string();
    Err(match failure.kind() {
        io::ErrorKind::ConnectionRefused => NetError::Refused { peer, is_ipv4 },
        io::ErrorKind::TimedOut => NetError::NoAnswer { peer, after: target.connect_timeout },
        _ => NetError::Connect { peer, source: failure },
    })
}

struct Session<'a> {
    control: Control,
    address: SocketAddr,
    target: &'a Target,
    parameters: Parameters,
    cookie: Cookie,
    cancel: &'a AtomicBool,
}

impl Session<'_> {
    fn run(&self, plan: &Plan, watch: &mut dyn FnMut(&[Interval])) -> Result<Run, NetError> {
        self.expect(State::ParameterExchange, self.target.connect_timeout, "waiting for its first message")?;
        self.control.write_json(&self.parameters.to_json(), "sending the parameters")?;
        if self.parameters.messages.is_some() {
            match self.state(STEP_TIMEOUT, "waiting for its reply on messages")? {
                State::Granted => {}
                State::CreateStreams => return Err(NetError::Plain(self.control.peer.clone())),
                state => return Err(self.unexpected(state, State::Granted)),
            }
        }
        self.expect(State::CreateStreams, STEP_TIMEOUT, "waiting for its reply to the parameters")?;
        let streams = self.streams()?;
        self.expect(State::TestStart, STEP_TIMEOUT, "waiting for the beginning of the test")?;
        self.expect(State::TestRunning, STEP_TIMEOUT, "waiting for the beginning of the test")?;
        let mut intervals = Vec::new();
        let mut keep = |all: &[Interval]| {
            intervals.extend_from_slice(all);
            watch(all);
        };
        let (counted, peer) = self.measure(streams, plan, &mut keep)?;
        let mut repetition = outcome::repetition(&counted, peer.as_ref(), &self.parameters);
        repetition.intervals = intervals;
        Ok(Run { repetition, block_bytes: self.parameters.block_bytes, is_cancelled: peer.is_none() })
    }

    /// The transfer and the results of both ends. Those of the other end are missing if the user cancelled the test.
    fn measure(
        &self,
        streams: Vec<Stream>,
        plan: &Plan,
        watch: &mut dyn FnMut(&[Interval]),
    ) -> Result<(Counted, Option<Results>), NetError> {
        let p = &self.parameters;
        let (time, bytes) = match plan.length {
            Length::Time(time) => (Some(time), None),
            Length::Bytes(bytes) => (None, Some(bytes)),
        };
        let course = Course {
            omit: Duration::from_secs(p.omit_s.into()),
            time,
            bytes,
            stops_at_bytes: true,
            interval: Some(plan.interval),
            silence: silence(p),
            limit: None,
            is_leading: true,
        };
        let mut traffic = Traffic::start(streams, p, &course)?;
        let ending = traffic.drive(&self.control, &course, self.cancel, watch);
        match ending {
            Ending::Over => {}
            Ending::Cancelled => {
                let stopping = traffic.stop(&course, watch);
                let said = self.control.say(State::ClientTerminate, "ending");
                let counted = stopping.end();
                return said.map(|()| (counted, None));
            }
            other => {
                // The threads must not outlive the test.
                traffic.stop(&course, &mut |_| {}).end();
                return Err(self.ended(&other, course.silence));
            }
        }
        let stopping = traffic.stop(&course, watch);
        self.control.say(State::TestEnd, "ending the test")?;
        let outcome = self.expect(State::ExchangeResults, STEP_TIMEOUT, "waiting for its results");
        let counted = stopping.end();
        outcome?;
        let own = outcome::results(&counted, p, true);
        self.control.write_json(&own.to_json(), "sending the results")?;
        let text = self.control.read_json(RESULTS_BYTES_MAX, STEP_TIMEOUT, "waiting for its results")?;
        let peer = Results::parse(&text).map_err(|error| self.control.protocol(error.to_string()))?;
        self.expect(State::DisplayResults, STEP_TIMEOUT, "waiting for the end")?;
        self.control.say(State::Done, "ending")?;
        // When the server has closed as well, it is ready for the next test. That is not required.
        let _ = self.control.byte(CLOSE_TIMEOUT, "waiting for the end", self.cancel);
        Ok((counted, Some(peer)))
    }

    fn ended(&self, ending: &Ending, silence: Duration) -> NetError {
        let doing = "data was being transferred";
        match ending {
            Ending::Said(byte) => match State::of(*byte) {
                Some(state) => self.refusal(state).unwrap_or_else(|| self.unexpected(state, State::TestRunning)),
                None => self.control.foreign(*byte),
            },
            Ending::Silent => self.control.silent(doing, silence),
            Ending::Dead => self.control.closed("the data connections broke"),
            _ => self.control.closed(doing),
        }
    }

    /// The data connections, or flows, upward streams first.
    fn streams(&self) -> Result<Vec<Stream>, NetError> {
        let is_udp = self.parameters.protocol == Protocol::Udp;
        let works = stream::works(&self.parameters, true).into_iter().enumerate();
        works
            .map(|(at, (direction, work))| {
                let socket = if is_udp { self.flow()? } else { self.connection()? };
                Ok(Stream::new(stream_id(at), direction, work, socket))
            })
            .collect()
    }

    fn connection(&self) -> Result<Socket, NetError> {
        let (peer, limit) = (|| self.control.peer.clone(), self.target.connect_timeout);
        let broken = |source| NetError::Broken { peer: peer(), doing: "opening a data connection".into(), source };
        let stream = setup::connect(self.address, self.target.bind, Some(&self.parameters), limit).map_err(
            |source| match source.kind() {
                io::ErrorKind::TimedOut => NetError::NoAnswer { peer: peer(), after: limit },
                _ => broken(source),
            },
        )?;
        (&stream).write_all(self.cookie.bytes()).map_err(broken)?;
        setup::set_tcp(&stream, &self.parameters)?;
        Ok(Socket::Tcp(Arc::new(stream)))
    }

    /// Sends hellos until the server answers.
    fn flow(&self) -> Result<Socket, NetError> {
        let socket = setup::connect_udp(self.address, self.target.bind, self.parameters.window_bytes)?;
        socket.set_read_timeout(Some(HELLO_AGAIN)).map_err(NetError::system("set up a socket for datagrams"))?;
        let until = Instant::now() + STEP_TIMEOUT;
        while Instant::now() < until {
            // A failure to send is like a lost datagram.
            let _ = socket.send(&datagram::hello());
            let mut answer = [0; 64];
            match socket.recv(&mut answer) {
                // Data after a lost answer shows that the server is there.
                Ok(bytes) if bytes > datagram::HELLO_BYTES || datagram::is_answer(&answer[..bytes]) => {
                    return Ok(Socket::Udp(Arc::new(socket)));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                _ => {}
            }
        }
        Err(self.control.silent("datagrams were sent to it: a firewall that drops them?", STEP_TIMEOUT))
    }

    fn state(&self, limit: Duration, doing: &str) -> Result<State, NetError> {
        let state = self.control.state(limit, doing, self.cancel)?;
        self.refusal(state).map_or(Ok(state), Err)
    }

    fn expect(&self, expected: State, limit: Duration, doing: &str) -> Result<(), NetError> {
        let state = self.state(limit, doing)?;
        if state == expected { Ok(()) } else { Err(self.unexpected(state, expected)) }
    }

    fn unexpected(&self, state: State, expected: State) -> NetError {
        let reason = format!("it sent {state:?} where {expected:?} was expected");
        self.control.protocol(reason)
    }

    /// The error of a state that ends the test.
    fn refusal(&self, state: State) -> Option<NetError> {
        let peer = self.control.peer.clone();
        match state {
            State::AccessDenied => Some(NetError::Busy(peer)),
            State::ServerTerminate => Some(NetError::Ended { peer, reason: "it was stopped there".into() }),
            State::ServerError => {
                let reason = match self.control.numbers(STEP_TIMEOUT, "saying what is wrong") {
                    Ok((number, errno)) => super::server::failure::words(number, errno),
                    Err(_) => "it gave no reason".into(),
                };
                Some(NetError::Ended { peer, reason })
            }
            _ => None,
        }
    }
}

/// Time limit without progress: longer for low rates.
fn silence(parameters: &Parameters) -> Duration {
    let rate = parameters.rate_bits_per_second.filter(|&rate| rate > 0);
    let block_s = rate.map_or(0.0, |rate| 8.0 * f64::from(parameters.block_bytes) / rate as f64);
    SILENCE + Duration::from_secs_f64((3.0 * block_s).min(86_400.0))
}

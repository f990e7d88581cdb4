//! One test, at the server.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use flashmob_path::congestion;
use flashmob_results::net::{Direction, Protocol};

use super::Desk;
use super::failure::Failure;
use crate::net::control::{Control, Heard};
use crate::net::course::{Course, Ending};
use crate::net::error::NetError;
use crate::net::protocol::parameters::Parameters;
use crate::net::protocol::results::Results;
use crate::net::protocol::{PARAMETERS_BYTES_MAX, RESULTS_BYTES_MAX, State, datagram, stream_id};
use crate::net::stream::{self, Socket, Stream};
use crate::net::traffic::{Counted, Traffic};
use crate::net::{outcome, setup};

/// Time limit for a step without data.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a client to end its test.
const GRACE: Duration = Duration::from_secs(30);
/// Time without progress after which the client is considered gone.
const SILENCE: Duration = Duration::from_secs(60);
/// Interval of checks for the client while data connections are awaited.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Session<'a> {
    control: Control,
    client: SocketAddr,
    desk: &'a Desk,
    listener: Arc<TcpListener>,
    arriving: Receiver<(u64, TcpStream)>,
}

impl<'a> Session<'a> {
    pub fn new(
        control: Control,
        client: SocketAddr,
        desk: &'a Desk,
        listener: Arc<TcpListener>,
        arriving: Receiver<(u64, TcpStream)>,
    ) -> Session<'a> {
        Session { control, client, desk, listener, arriving }
    }

    /// Serves it; its outcome, in words.
    pub fn run(&self) -> Result<String, NetError> {
        let outcome = self.serve();
        if let Err(NetError::Cancelled) = &outcome {
            // Saves the client a timeout.
            let _ = self.control.say(State::ServerTerminate, "ending");
        }
        outcome
    }

    fn serve(&self) -> Result<String, NetError> {
        self.control.say(State::ParameterExchange, "asking for parameters")?;
        let text = self.control.read_json(PARAMETERS_BYTES_MAX, STEP_TIMEOUT, "its parameters were awaited")?;
        let parameters = match Parameters::parse(&text) {
            Ok(parameters) => parameters,
            Err(error) => return Err(self.refuse(Failure::Parameters, 0, error.to_string())),
        };
        let (asked, longest) = (time(&parameters), self.desk.longest);
        if asked > longest {
            self.fail(Failure::TooLong, 0);
            let (asked, longest) = (asked.as_secs_f64(), longest.as_secs_f64());
            return Err(NetError::Unsuitable(format!(
                "it asked for a test of {asked} s, and the longest allowed here is {longest} s; --longest sets that limit"
            )));
        }
        let streams = self.streams(&parameters)?;
        self.control.say(State::TestStart, "beginning")?;
        self.control.say(State::TestRunning, "beginning")?;
        let (counted, ended) = self.measure(streams, &parameters)?;
        ended?;
        self.control.say(State::ExchangeResults, "asking for results")?;
        let text = self.control.read_json(RESULTS_BYTES_MAX, STEP_TIMEOUT, "its results were awaited")?;
        let theirs = Results::parse(&text).map_err(|error| self.control.protocol(error.to_string()))?;
        let own = outcome::results(&counted, &parameters, false);
        self.control.write_json(&own.to_json(), "sending results")?;
        self.control.say(State::DisplayResults, "ending")?;
        // The client has its results; its last state changes nothing.
        let _ = self.control.byte(STEP_TIMEOUT, "its end was awaited", &self.desk.cancel);
        Ok(words(&parameters, &counted, &theirs))
    }

    /// Refuses the test, with iperf3's error numbers.
    fn refuse(&self, failure: Failure, errno: i32, reason: String) -> NetError {
        self.fail(failure, errno);
        self.control.protocol(reason)
    }

    /// Sends iperf3's error numbers.
    fn fail(&self, failure: Failure, errno: i32) {
        // The client may be gone; the log has the reason.
        let _ = self.control.say(State::ServerError, "refusing");
        let _ = self.control.write(&failure.numbers(errno), "refusing");
    }

    fn streams(&self, p: &Parameters) -> Result<Vec<Stream>, NetError> {
        if let Some(name) = &p.congestion
            && let Err(error) = setup::check_congestion(name)
        {
            let is_there = congestion::available().iter().any(|there| there == name);
            let errno = if is_there { libc::EPERM } else { libc::ENOENT };
            return Err(self.refuse(Failure::Congestion, errno, error.to_string()));
        }
        let listening = match p.protocol {
            Protocol::Udp => Some(setup::bind_udp(self.desk.bind, self.desk.port, p.window_bytes)?),
            Protocol::Tcp | Protocol::Messages => None,
        };
        // Restored for later tests, on any outcome.
        let window = setup::ListenersWindow::set(&self.listener, p.window_bytes.filter(|_| listening.is_none()))?;
        self.desk.want_streams(count(p));
        if p.messages.is_some() {
            self.control.say(State::Granted, "granting messages")?;
        }
        self.control.say(State::CreateStreams, "asking for data connections")?;
        let sockets = match listening {
            Some(listening) => self.flows(listening, p),
            None => self.connections(p),
        };
        self.desk.want_streams(0);
        drop(window);
        let streams = sockets?.into_iter().zip(stream::works(p, false)).enumerate();
        Ok(streams
            .map(|(at, (socket, (direction, work)))| Stream::new(stream_id(at), direction, work, socket))
            .collect())
    }

    fn connections(&self, p: &Parameters) -> Result<Vec<Socket>, NetError> {
        let until = Instant::now() + STEP_TIMEOUT;
        let mut sockets = Vec::new();
        while sockets.len() < count(p) {
            match self.arriving.recv_timeout(LOOKS_EVERY) {
                Ok((count, stream)) => {
                    stream.set_read_timeout(None).map_err(NetError::system("set up a data connection"))?;
                    setup::set_tcp(&stream, p)?;
                    setup::set_window(stream.as_fd(), p.window_bytes)?;
                    sockets.push((count, Socket::Tcp(Arc::new(stream))));
                }
                Err(RecvTimeoutError::Timeout) => self.check(until, "its data connections were awaited")?,
                Err(RecvTimeoutError::Disconnected) => return Err(NetError::Cancelled),
            }
        }
        // Their cookies may have been read in another order than they arrived, and the order determines their direction.
        sockets.sort_by_key(|(count, _)| *count);
        Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
    }

    /// Each flow takes the socket that received its hello; the next one gets a new socket.
    fn flows(&self, mut listening: UdpSocket, p: &Parameters) -> Result<Vec<Socket>, NetError> {
        let until = Instant::now() + STEP_TIMEOUT;
        let mut sockets = Vec::new();
        while sockets.len() < count(p) {
            listening.set_read_timeout(Some(LOOKS_EVERY)).map_err(NetError::system("set up a socket for datagrams"))?;
            let mut hello = [0; 64];
            let heard = match listening.recv_from(&mut hello) {
                Ok(heard) => Some(heard),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
                Err(source) => return Err(NetError::System { doing: "receive datagrams", source }),
            };
            // Datagrams may come from other hosts.
            let heard = heard.filter(|(_, from)| from.ip().to_canonical() == self.client.ip());
            let hello = heard.and_then(|(bytes, from)| Some((datagram::answer_to(&hello[..bytes])?, from)));
            let Some((answer, from)) = hello else {
                self.check(until, "its first datagrams were awaited")?;
                continue;
            };
            listening.connect(from).map_err(NetError::system("set up a socket for datagrams"))?;
            let next = setup::bind_udp(self.desk.bind, self.desk.port, p.window_bytes)?;
            let flow = std::mem::replace(&mut listening, next);
            flow.set_read_timeout(None).map_err(NetError::system("set up a socket for datagrams"))?;
            // If it is lost, the client repeats its hello, which is not a datagram of the test.
            let _ = flow.send(&answer);
            sockets.push(Socket::Udp(Arc::new(flow)));
        }
        Ok(sockets)
    }

    /// An error if there is no point in waiting any longer.
    fn check(&self, until: Instant, doing: &str) -> Result<(), NetError> {
        if self.desk.cancel.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(NetError::Cancelled);
        }
        if Instant::now() >= until {
            self.refuse(Failure::Streams, 0, String::new());
            return Err(self.control.silent(doing, STEP_TIMEOUT));
        }
        match self.control.hear(Duration::ZERO) {
            Ok(Heard::Nothing) => Ok(()),
            Ok(Heard::Byte(byte)) => Err(self.said(byte)),
            Ok(Heard::Closed) | Err(_) => Err(self.control.closed(doing)),
        }
    }

    fn said(&self, byte: u8) -> NetError {
        let reason = match State::of(byte) {
            Some(State::ClientTerminate) => "it was stopped there".to_string(),
            _ => format!("it sent byte {byte}, which is not valid here"),
        };
        NetError::Ended { peer: self.control.peer.clone(), reason }
    }

    /// The transfer: the counts, and whether the client ended it properly.
    fn measure(&self, streams: Vec<Stream>, p: &Parameters) -> Result<(Counted, Result<(), NetError>), NetError> {
        // Without a time of its own, or with a number of bytes, a test ends at the limit for all tests.
        let is_timed = p.bytes.is_none() && p.time_s > 0;
        let longest = self.desk.longest;
        let course = Course {
            omit: Duration::from_secs(p.omit_s.into()),
            time: None,
            bytes: p.bytes,
            // iperf3 counts received bytes, and waits for more if some were lost.
            stops_at_bytes: p.is_flashmob,
            interval: None,
            silence: SILENCE,
            limit: Some(if is_timed { time(p) + GRACE } else { longest }),
            is_leading: false,
        };
        let mut traffic = Traffic::start(streams, p, &course)?;
        let ending = traffic.drive(&self.control, &course, &self.desk.cancel, &mut |_| {});
        let is_end = matches!(ending, Ending::Said(byte) if byte == State::TestEnd.byte());
        if let (true, Some(bytes)) = (is_end, p.bytes) {
            traffic.drain(bytes);
        }
        // Before its data connections break, so that the client knows the reason.
        match ending {
            Ending::Cancelled => drop(self.control.say(State::ServerTerminate, "ending")),
            Ending::Late if !is_timed => self.fail(Failure::TooLong, 0),
            _ => {}
        }
        let counted = traffic.stop(&course, &mut |_| {}).end();
        let doing = "data was being transferred";
        let ended = match ending {
            _ if is_end => Ok(()),
            Ending::Cancelled => Err(NetError::Cancelled),
            Ending::Said(byte) => Err(self.said(byte)),
            Ending::Silent => Err(self.control.silent(doing, SILENCE)),
            Ending::Late if is_timed => Err(self.control.silent("its test was over", GRACE)),
            Ending::Late => Err(NetError::Unsuitable(format!(
                "its test was ended after {} s, the longest allowed here; --longest sets that limit",
                longest.as_secs_f64()
            ))),
            _ => Err(self.control.closed(doing)),
        };
        Ok((counted, ended))
    }
}

/// The time that a client asks for, with the omitted time.
fn time(p: &Parameters) -> Duration {
    Duration::from_secs(u64::from(p.omit_s) + u64::from(p.time_s))
}

/// Data connections, or flows, of both directions together.
fn count(p: &Parameters) -> usize {
    p.streams as usize * if p.direction == Direction::Both { 2 } else { 1 }
}

/// A line for the log.
fn words(p: &Parameters, counted: &Counted, theirs: &Results) -> String {
    let seconds = counted.elapsed.as_secs_f64().max(1e-9);
    let rate = |way: &str, is_up: bool| {
        let streams = counted.streams.iter().filter(|s| outcome::is_up(s.stream_id, p) == is_up);
        let bytes: u64 = streams.map(|s| s.bytes).sum();
        format!("{way} {:.1} Mbit/s", 8.0 * bytes as f64 / seconds / 1e6)
    };
    let what = match p.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Messages => "messages",
    };
    let rates = match p.direction {
        Direction::Up => rate("received", true),
        Direction::Down => rate("sent", false),
        Direction::Both => format!("{}, {}", rate("received", true), rate("sent", false)),
    };
    let kind = if theirs.flashmob.is_some() { "" } else { "iperf3 " };
    let streams = if p.streams == 1 { String::new() } else { format!(", {} streams", p.streams) };
    format!("{what}{streams}, {seconds:.2} s: {rates} ({kind}{})", p.client_version)
}

//! A client and a server in one process, and peers that misbehave.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashmob_bench::net::protocol::datagram::{Header, hello};
use flashmob_bench::net::protocol::{COOKIE_BYTES, Cookie, State, framed};
use flashmob_bench::net::{Length, NetError, Plan, Run, Server, Target, Told, run};
use flashmob_results::net::{Direction, Messages, Protocol};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LONGEST: Duration = Duration::from_secs(300);

struct Served {
    address: SocketAddr,
    cancel: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Told>>>,
}

impl Served {
    fn start() -> Served {
        Served::at(HERE, LONGEST)
    }

    fn at(address: IpAddr, longest: Duration) -> Served {
        let server = Server::bind(address, 0, longest).unwrap();
        let (address, cancel) = (server.address(), Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&cancel);
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            server.run(false, &stop, &mut |told| all.push(told.clone()));
            all
        });
        Served { address, cancel, thread: Some(thread) }
    }

    fn target(&self) -> Target {
        target(self.address)
    }

    fn told(mut self) -> Vec<Told> {
        self.cancel.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

fn target(address: SocketAddr) -> Target {
    Target {
        host: address.ip().to_string(),
        port: address.port(),
        bind: None,
        connect_timeout: Duration::from_secs(60),
    }
}

fn plan(length: Length) -> Plan {
    Plan {
        protocol: Protocol::Tcp,
        direction: Direction::Up,
        streams: 1,
        congestion: None,
        rate_bits_per_second: None,
        block_bytes: None,
        window_bytes: None,
        messages: None,
        length,
        omit_s: 0,
        interval: Duration::from_millis(100),
    }
}

fn measure(target: &Target, plan: &Plan) -> Result<Run, NetError> {
    run(target, plan, &AtomicBool::new(false), &mut |_| {})
}

/// The same once the server is free: it may still be ending the test before.
fn measured(target: &Target, plan: &Plan) -> Result<Run, NetError> {
    loop {
        match measure(target, plan) {
            Err(NetError::Busy(_)) => std::thread::sleep(Duration::from_millis(5)),
            outcome => return outcome,
        }
    }
}

const SHORT: Length = Length::Time(Duration::from_millis(300));

/// The same on a machine that let every stream run in every interval. One that stops for the whole of a short test gets other tries.
fn measured_throughout(target: &Target, plan: &Plan) -> Run {
    let all_ran = |run: &Run| {
        let r = &run.repetition;
        let moved: u64 = r.intervals.iter().map(|i| i.bytes).sum();
        r.intervals.len() >= 3 * r.streams.len() && 2 * moved > own_bytes(run)
    };
    (0..50)
        .map(|_| measured(target, plan).unwrap())
        .find(all_ran)
        .expect("one of 50 tests has three intervals with most of its bytes")
}

/// The bytes that this end sent or received.
fn own_bytes(run: &Run) -> u64 {
    let streams = run.repetition.streams.iter();
    streams.map(|s| if s.direction == Direction::Up { s.sent_bytes } else { s.received_bytes }).sum()
}

#[test]
fn every_way_with_several_streams_counts_at_both_ends() {
    let served = Served::start();
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let run = measured_throughout(&served.target(), &Plan { direction, streams: 3, ..plan(SHORT) });
        let r = &run.repetition;
        let ways = if direction == Direction::Both { 2 } else { 1 };
        assert_eq!((r.flows.len(), r.streams.len()), (ways, 3 * ways), "{direction}");
        assert!(r.peer.starts_with("flashmob") && !r.is_void && !run.is_cancelled);
        for flow in &r.flows {
            assert!(flow.sent_bytes >= flow.received_bytes && flow.received_bytes > 0, "{flow:?}");
            assert!(flow.retransmissions.is_some());
        }
        for stream in &r.streams {
            let (sender, receiver) = (stream.sender.as_ref().unwrap(), stream.receiver.as_ref().unwrap());
            assert!(sender.packets_sent > 0 && receiver.receive_buffer_bytes > 0 && sender.packet_bytes > 0.0);
        }
        let intervals: u64 = r.intervals.iter().map(|i| i.bytes).sum();
        assert!(intervals <= own_bytes(&run), "{intervals} of {}", own_bytes(&run));
    }
    let told = served.told();
    assert!(told.len() >= 3 && told.iter().all(|t| matches!(t, Told::Test { .. })), "{told:?}");
}

#[test]
fn so_many_bytes_arrive_and_no_more_than_a_block_beyond() {
    let served = Served::start();
    for (direction, streams) in [(Direction::Up, 1), (Direction::Down, 4), (Direction::Both, 2)] {
        let plan = Plan { direction, streams, ..plan(Length::Bytes(1_000_000)) };
        let run = measured(&served.target(), &plan).unwrap();
        for flow in &run.repetition.flows {
            let range = 1_000_000..1_000_000 + 5 * 131_072;
            assert!(range.contains(&flow.received_bytes), "{direction}: {flow:?}");
        }
    }
}

#[test]
fn datagrams_keep_their_rate_and_are_counted() {
    let served = Served::start();
    let plan = Plan {
        protocol: Protocol::Udp,
        direction: Direction::Both,
        rate_bits_per_second: Some(4_000_000),
        block_bytes: Some(1000),
        ..plan(Length::Time(Duration::from_secs(1)))
    };
    let run = measured(&served.target(), &plan).unwrap();
    for flow in &run.repetition.flows {
        let udp = flow.udp.unwrap();
        assert!((400..=510).contains(&udp.sent), "500 in a second: {udp:?}");
        assert!(flow.received_bytes <= flow.sent_bytes && udp.lost <= udp.sent, "{flow:?}");
    }
}

#[test]
fn a_window_holds_for_one_test_and_not_for_the_next() {
    let served = Served::start();
    let receive_buffer = |window_bytes| {
        let run = measured(&served.target(), &Plan { window_bytes, ..plan(SHORT) }).unwrap();
        run.repetition.streams[0].receiver.as_ref().unwrap().receive_buffer_bytes
    };
    assert_eq!(receive_buffer(Some(20_000)), 40_000, "the kernel doubles it");
    assert!(receive_buffer(None) > 40_000);
}

#[test]
fn messages_are_answered() {
    let served = Served::start();
    for (request_bytes, answer_bytes, depth) in [(40, 4096, 1), (1, 1, 64), (300_000, 2_000_000, 4)] {
        let messages = Messages { request_bytes, answer_bytes, depth };
        let plan = Plan { protocol: Protocol::Messages, messages: Some(messages), streams: 2, ..plan(SHORT) };
        let run = measured(&served.target(), &plan).unwrap();
        let exchange = run.repetition.exchange.unwrap();
        let answered = run.repetition.flows[1].received_bytes / u64::from(answer_bytes);
        assert!(exchange.requests > 0 && exchange.latency_ns.count == exchange.requests);
        // What came in the last moments is in the one count or in both; some answers are half there.
        assert!(exchange.requests <= answered + 2 * u64::from(depth) + 100_000 / u64::from(answer_bytes).max(1) * 10);
    }
}

/// A server that plays a part.
fn part(play: impl FnOnce(TcpStream, TcpListener) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        play(stream, listener);
    });
    address
}

fn failure(address: SocketAddr, change: impl FnOnce(&mut Target, &mut Plan)) -> NetError {
    let (mut target, mut plan) = (target(address), plan(SHORT));
    change(&mut target, &mut plan);
    measure(&target, &plan).map(|run| panic!("{run:?}")).unwrap_err()
}

#[test]
fn whoever_is_no_iperf3_is_named() {
    let ssh = part(|mut stream, _| {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        let _ = stream.read(&mut [0; 100]);
    });
    let error = failure(ssh, |_, _| {});
    assert!(
        matches!(error, NetError::Foreign { .. }) && error.to_string().contains("'SSH-2.0-OpenSSH_9.2'"),
        "{error}"
    );
    let silent = part(|mut stream, _| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = failure(silent, |target, _| target.connect_timeout = Duration::from_millis(300));
    assert!(matches!(error, NetError::Silent { .. }), "{error}");
    let gone = part(|stream, _| drop(stream));
    assert!(matches!(failure(gone, |_, _| {}), NetError::Closed { .. } | NetError::Broken { .. }));
}

#[test]
fn a_plain_iperf3_is_told_that_it_is_over() {
    let (sender, said) = std::sync::mpsc::channel();
    let plain = part(move |mut stream, _| {
        stream.read_exact(&mut [0; COOKIE_BYTES]).unwrap();
        stream.write_all(&[State::ParameterExchange.byte()]).unwrap();
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).unwrap();
        stream.read_exact(&mut vec![0; u32::from_be_bytes(prefix) as usize]).unwrap();
        stream.write_all(&[State::CreateStreams.byte()]).unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        sender.send(byte[0]).unwrap();
    });
    let error = failure(plain, |_, plan| {
        plan.protocol = Protocol::Messages;
        plan.messages = Some(Messages { request_bytes: 1, answer_bytes: 1, depth: 1 });
    });
    assert!(error.to_string().contains("plain iperf3: messages need flashmob at both ends"), "{error}");
    assert_eq!(State::of(said.recv().unwrap()), Some(State::ClientTerminate));
}

#[test]
fn results_that_are_too_long_are_not_waited_for() {
    let liar = part(|mut stream, listener| {
        stream.read_exact(&mut [0; COOKIE_BYTES]).unwrap();
        stream.write_all(&[State::ParameterExchange.byte(), State::CreateStreams.byte()]).unwrap();
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).unwrap();
        stream.read_exact(&mut vec![0; u32::from_be_bytes(prefix) as usize]).unwrap();
        let (_data, _) = listener.accept().unwrap();
        stream.write_all(&[State::TestStart.byte(), State::TestRunning.byte()]).unwrap();
        let mut end = [0];
        stream.read_exact(&mut end).unwrap();
        assert_eq!(State::of(end[0]), Some(State::TestEnd));
        stream.write_all(&[State::ExchangeResults.byte(), 0xFF, 0xFF, 0xFF, 0xFF]).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = failure(liar, |_, plan| plan.rate_bits_per_second = Some(1000));
    assert!(matches!(error, NetError::Protocol { .. }) && error.to_string().contains("of at most"), "{error}");
}

#[test]
fn data_connections_that_break_are_no_result() {
    let breaking = part(|mut stream, listener| {
        stream.read_exact(&mut [0; COOKIE_BYTES]).unwrap();
        stream.write_all(&[State::ParameterExchange.byte(), State::CreateStreams.byte()]).unwrap();
        let (mut data, _) = listener.accept().unwrap();
        stream.write_all(&[State::TestStart.byte(), State::TestRunning.byte()]).unwrap();
        data.read_exact(&mut [0; 1000]).unwrap();
        drop(data);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = failure(breaking, |_, plan| plan.length = Length::Bytes(1 << 40));
    assert!(matches!(error, NetError::Closed { .. }) && error.to_string().contains("data connections"), "{error}");
}

#[test]
fn the_place_of_a_client_that_gives_up_is_free_at_once() {
    let served = Served::start();
    let cookie = Cookie::new([9; COOKIE_BYTES - 1]);
    // A sender of datagrams sleeps between two of them when its client goes.
    let wanted = r#"{"udp":true,"reverse":true,"time":60,"len":1000,"bandwidth":80000,"parallel":1}"#;
    let mut control = ask(&served, wanted, &cookie);
    let mut said = |expected: State| {
        let mut byte = [0];
        control.read_exact(&mut byte).unwrap();
        assert_eq!(State::of(byte[0]), Some(expected));
    };
    said(State::CreateStreams);
    let flow = UdpSocket::bind((HERE, 0)).unwrap();
    flow.connect(served.address).unwrap();
    flow.send(&hello()).unwrap();
    said(State::TestStart);
    said(State::TestRunning);
    drop(control);
    measure(&served.target(), &plan(SHORT)).unwrap();
}

#[test]
fn an_iperf3_that_counts_what_came_gets_more_datagrams_for_those_that_were_lost() {
    let served = Served::start();
    let mut control = TcpStream::connect(served.address).unwrap();
    control.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    control.write_all(Cookie::new([7; COOKIE_BYTES - 1]).bytes()).unwrap();
    let mut said = |expected: State| {
        let mut byte = [0];
        control.read_exact(&mut byte).unwrap();
        assert_eq!(State::of(byte[0]), Some(expected));
        control.try_clone().unwrap()
    };
    let wanted = r#"{"udp":true,"reverse":true,"num":10000,"len":1000,"bandwidth":8000000,"parallel":1}"#;
    said(State::ParameterExchange).write_all(&framed(&serde_json::from_str(wanted).unwrap())).unwrap();
    said(State::CreateStreams);
    let flow = UdpSocket::bind((HERE, 0)).unwrap();
    flow.connect(served.address).unwrap();
    flow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    flow.send(&hello()).unwrap();
    let mut datagram = [0; 2000];
    assert_eq!(flow.recv(&mut datagram).unwrap(), 4);
    said(State::TestStart);
    said(State::TestRunning);
    // As if the first ten were lost: the eleventh would never come from a server that stops at 10,000 bytes.
    let numbers = (0..20).map(|_| {
        assert_eq!(flow.recv(&mut datagram).unwrap(), 1000);
        Header::read(&datagram, false).unwrap().number
    });
    assert!(numbers.last().unwrap() >= 20);
}

#[test]
fn a_server_survives_everybody_and_serves_the_next() {
    let served = Served::start();
    let talk = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let cookie = Cookie::new([3; COOKIE_BYTES - 1]);
    // Half a cookie, garbage, and nobody: none of them keeps the next one waiting.
    let _held = (talk(b"half a cook"), talk(b""), talk(&[0xFF; 200]));
    drop(talk(cookie.bytes()));
    let mut long = talk(cookie.bytes());
    let mut byte = [0];
    while long.read(&mut byte).unwrap_or(0) == 0 || byte[0] == State::AccessDenied.byte() {
        // The one before is not over yet.
        long = talk(cookie.bytes());
    }
    assert_eq!(State::of(byte[0]), Some(State::ParameterExchange));
    // While that test waits for its parameters, others are sent away.
    let error = failure(served.address, |_, _| {});
    assert!(matches!(error, NetError::Busy { .. }) && error.to_string().contains("busy with another test"), "{error}");
    long.write_all(&[0x7F, 0xFF, 0xFF, 0xFF]).unwrap();
    let mut rest = Vec::new();
    long.read_to_end(&mut rest).ok();
    let refused = talk_until_served(&served, r#"{"tcp":true,"parallel":129}"#, &cookie);
    assert_eq!(refused.first().copied(), Some(State::ServerError.byte()));
    assert!(refused.len() == 9, "two numbers follow: {refused:?}");
    while let Err(error) = measure(&served.target(), &plan(SHORT)) {
        assert!(matches!(error, NetError::Busy { .. }), "{error}");
    }
    let told = served.told();
    let failed = told.iter().filter(|t| matches!(t, Told::Failed { .. })).count();
    assert!(failed >= 3 && told.iter().any(|t| matches!(t, Told::Test { .. })), "{told:?}");
}

/// What the server says after these parameters, once it is free.
fn talk_until_served(served: &Served, parameters: &str, cookie: &Cookie) -> Vec<u8> {
    let mut said = Vec::new();
    ask(served, parameters, cookie).read_to_end(&mut said).ok();
    said
}

/// A connection on which these parameters were sent, once the server was free.
fn ask(served: &Served, parameters: &str, cookie: &Cookie) -> TcpStream {
    loop {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(cookie.bytes()).unwrap();
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 1 && byte[0] == State::ParameterExchange.byte() {
            stream.write_all(&framed(&serde_json::from_str(parameters).unwrap())).unwrap();
            return stream;
        }
    }
}

/// The reason of each failed test.
fn failures(told: &[Told]) -> Vec<&str> {
    let failed = told.iter().filter_map(|told| if let Told::Failed { why, .. } = told { Some(why) } else { None });
    failed.map(String::as_str).collect()
}

/// What a server sends that refuses or ends a test as too long.
const TOO_LONG: [u8; 9] = [State::ServerError as u8, 0, 0, 0, 5, 0, 0, 0, 0];

#[test]
fn a_test_beyond_the_limit_is_refused_at_once() {
    let served = Served::at(HERE, Duration::from_secs(3));
    let cookie = Cookie::new([1; COOKIE_BYTES - 1]);
    for (omit, time) in [(0, 2), (1, 1), (1, 2), (0, 3), (3, 0)] {
        let mut byte = [0];
        let parameters = format!(r#"{{"tcp":true,"omit":{omit},"time":{time}}}"#);
        ask(&served, &parameters, &cookie).read_exact(&mut byte).unwrap();
        assert_eq!(State::of(byte[0]), Some(State::CreateStreams), "{parameters}");
    }
    for (omit, time) in [(0, 4), (1, 3), (4, 0), (86_400, 86_400)] {
        let parameters = format!(r#"{{"tcp":true,"omit":{omit},"time":{time}}}"#);
        assert_eq!(talk_until_served(&served, &parameters, &cookie), TOO_LONG, "{parameters}");
    }
    let long = plan(Length::Time(Duration::from_secs(60)));
    let error = measured(&served.target(), &long).unwrap_err().to_string();
    assert!(error.contains("the test is longer than it allows") && error.contains("--longest"), "{error}");
    let told = served.told();
    let why = failures(&told).last().copied().unwrap_or_default();
    assert!(["60 s", "3 s", "--longest"].iter().all(|part| why.contains(part)), "{told:?}");
}

#[test]
fn a_test_without_a_time_is_ended_at_the_limit() {
    let longest = Duration::from_secs(1);
    let served = Served::at(HERE, longest);
    for direction in [Direction::Up, Direction::Down] {
        let begun = Instant::now();
        let endless = Plan { direction, rate_bits_per_second: Some(1_000_000), ..plan(Length::Bytes(4_000_000)) };
        let error = measured(&served.target(), &endless).unwrap_err().to_string();
        assert!(error.contains("the test is longer than it allows"), "{direction}: {error}");
        assert!(begun.elapsed() >= longest);
    }
    for end in [r#""time":0"#, r#""num":1000000000000"#, r#""blockcount":1000000000"#] {
        let cookie = Cookie::new([2; COOKIE_BYTES - 1]);
        let mut control = ask(&served, &format!("{{\"tcp\":true,{end}}}"), &cookie);
        control.read_exact(&mut [0]).unwrap();
        let mut data = TcpStream::connect(served.address).unwrap();
        data.write_all(cookie.bytes()).unwrap();
        let mut said = Vec::new();
        control.read_to_end(&mut said).unwrap();
        let states = [State::TestStart.byte(), State::TestRunning.byte()];
        assert_eq!(said, [&states[..], &TOO_LONG[..]].concat(), "{end}");
    }
    let told = served.told();
    let ended = failures(&told).iter().filter(|why| why.contains("ended after 1 s, the longest")).count();
    assert_eq!(ended, 5, "{told:?}");
}

/// Held by a test with hundreds of threads, and by the one that counts threads.
static MANY_THREADS: Mutex<()> = Mutex::new(());

/// Threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Raises the limit of open files: both ends of many connections are in this process.
#[cfg(target_os = "linux")]
fn allow_open_files(files: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls use the valid structure above only while they run.
    let is_set = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_cur.max(files).min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
    };
    assert!(is_set && limit.rlim_cur >= files, "{files} open files are not allowed here");
}

#[test]
#[cfg(target_os = "linux")]
fn silent_connections_keep_nobody_waiting_and_start_no_threads() {
    allow_open_files(2048);
    let _alone = MANY_THREADS.lock();
    let served = Served::start();
    let before = threads();
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    // A client whose cookie comes late, when more than enough are waiting.
    let mut slow = TcpStream::connect(served.address).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    slow.write_all(Cookie::new([4; COOKIE_BYTES - 1]).bytes()).unwrap();
    let mut byte = [0];
    slow.read_exact(&mut byte).unwrap();
    assert_eq!(State::of(byte[0]), Some(State::ParameterExchange));
    drop(slow);
    while let Err(error) = measure(&served.target(), &plan(SHORT)) {
        assert!(matches!(error, NetError::Busy(_)), "{error}");
    }
    // Other tests start some, but not as many.
    assert!(threads() < before + 300, "{} threads, {before} before", threads());
    let told = served.told();
    drop(silent);
    let (failed, mut more) = (failures(&told).len() as u64, 0);
    for told in &told {
        if let Told::More { number, what } = told
            && what.contains("cookie")
        {
            more += number;
        }
    }
    // Those that made room for others; few are told one by one.
    assert!(failed + more >= 88 && failed < 88, "{told:?}");
}

#[test]
fn many_streams_at_once_are_all_taken() {
    let _alone = MANY_THREADS.lock();
    let served = Served::start();
    let run = measured(&served.target(), &Plan { streams: 128, ..plan(SHORT) }).unwrap();
    assert_eq!(run.repetition.streams.len(), 128);
    assert!(matches!(served.told()[..], [Told::Test { .. }]));
}

#[test]
fn all_addresses_are_those_of_ipv4_as_well() {
    for all in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
        let served = Served::at(all, LONGEST);
        let here = SocketAddr::new(HERE, served.address.port());
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            measured(&target(here), &Plan { protocol, ..plan(SHORT) }).unwrap();
        }
    }
}

#[test]
fn stopping_in_the_middle_keeps_what_was_measured() {
    let served = Served::start();
    let cancel = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&cancel);
    let run = run(&served.target(), &plan(Length::Time(Duration::from_secs(60))), &cancel, &mut |_| {
        stop.store(true, Ordering::Relaxed);
    });
    let run = run.unwrap();
    assert!(run.is_cancelled && run.repetition.is_void && run.repetition.flows[0].sent_bytes > 0);
    let told = loop {
        if let Ok(run) = measure(&served.target(), &plan(SHORT)) {
            assert!(!run.repetition.is_void);
            break served.told();
        }
    };
    assert!(told.iter().any(|t| matches!(t, Told::Failed { why, .. } if why.contains("stopped there"))), "{told:?}");
}

#[test]
fn a_server_that_stops_says_so() {
    let served = Served::start();
    let stop = Arc::clone(&served.cancel);
    let plan = plan(Length::Time(Duration::from_secs(60)));
    let error = run(&served.target(), &plan, &AtomicBool::new(false), &mut |_| stop.store(true, Ordering::Relaxed))
        .unwrap_err();
    assert!(error.to_string().contains("it was stopped there"), "{error}");
}

#[test]
fn nobody_listens_and_no_such_name() {
    let free = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap();
    let error = failure(free, |_, _| {});
    assert!(
        matches!(error, NetError::Refused { .. }) && error.to_string().contains("nothing listens there"),
        "{error}"
    );
    let error = failure(free, |target, _| target.host = "no such name".into());
    assert!(matches!(error, NetError::Name { .. }), "{error}");
}

//! Strangers that flood a port, in virtual time: what the doorman and the choice of who makes room decide, without sockets.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use flashmob_core::strangers::{Unproven, to_replace};

use flashmob_server::admin::http::CONNECTIONS_MAX as ADMIN_PLACES;
use flashmob_server::gateway::CHOOSING_MAX;
use flashmob_server::keys::Doorman;
use flashmob_server::keys::enroll::serve::CONNECTIONS_MAX as JOIN_PLACES;
use flashmob_server::node::UNPROVEN_MAX;

/// A slow network, in ms: what comes back takes so long.
const RTT_MS: u64 = 100;
/// A client has to be in by then.
const LIMIT_MS: u64 = 5000;
/// Connections that are not in after this time are closed.
const PATIENCE_MS: u64 = 10_000;
/// The cost of a handshake to the port.
const COST: Duration = Duration::from_micros(200);

/// A port, and how many round trips come before and behind the beginning of the handshake.
#[derive(Debug, Clone, Copy)]
struct Port {
    places: usize,
    before: u32,
    behind: u32,
}

const NBD: Port = Port { places: CHOOSING_MAX, before: 2, behind: 1 };
const NODE: Port = Port { places: UNPROVEN_MAX, before: 0, behind: 1 };
const JOIN: Port = Port { places: JOIN_PLACES, before: 0, behind: 2 };
const ADMIN: Port = Port { places: ADMIN_PLACES, before: 0, behind: 1 };

#[derive(Debug, Clone, Copy)]
struct Conn {
    key: u64,
    from: IpAddr,
    opened_ms: u64,
    stepped_ms: u64,
    /// Round trips that it has made, and the beginning of the handshake.
    steps: u32,
    /// How many it will make.
    steps_max: u32,
    next_ms: u64,
    waits_until_ms: u64,
}

struct Flood {
    port: Port,
    doorman: Doorman,
    start: Instant,
    conns: Vec<Conn>,
    came: u64,
}

impl Flood {
    fn new(port: Port) -> Flood {
        Flood { port, doorman: Doorman::default(), start: Instant::now(), conns: Vec::new(), came: 0 }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn come(&mut self, now_ms: u64, from: IpAddr, steps_max: u32) -> u64 {
        if self.conns.len() >= self.port.places {
            let unproven = self.conns.iter().map(|conn| Unproven {
                key: conn.key,
                from: Some(conn.from),
                was_let_in: self.doorman.was_let_in(Some(conn.from)),
                stepped: conn.stepped_ms,
            });
            let key = to_replace(unproven).expect("one makes room");
            self.conns.retain(|conn| conn.key != key);
        }
        self.came += 1;
        let (key, next_ms) = (self.came, now_ms + if self.port.before > 0 { RTT_MS } else { RTT_MS / 2 });
        let (opened_ms, stepped_ms) = (now_ms, now_ms);
        self.conns.push(Conn { key, from, opened_ms, stepped_ms, steps: 0, steps_max, next_ms, waits_until_ms: 0 });
        key
    }

    /// One millisecond. Returns who has proven its key.
    fn step(&mut self, now_ms: u64) -> Vec<u64> {
        let (now, start, port) = (self.at(now_ms), self.start, self.port);
        self.conns.retain(|conn| now_ms < conn.opened_ms + PATIENCE_MS);
        let mut due: Vec<Conn> =
            self.conns.iter().copied().filter(|conn| conn.next_ms <= now_ms && conn.steps < conn.steps_max).collect();
        due.sort_by_key(|conn| self.doorman.turn_of(Some(conn.from), start + Duration::from_millis(conn.stepped_ms)));
        let mut proven = Vec::new();
        for mut conn in due {
            if conn.steps == port.before {
                if now_ms < conn.waits_until_ms {
                    continue;
                }
                let has_waited = conn.waits_until_ms > 0;
                match self.doorman.admit(now, Some(conn.from)) {
                    Ok(()) => {
                        self.doorman.took(Some(conn.from), COST);
                        (conn.steps, conn.stepped_ms) = (conn.steps + 1, now_ms);
                        conn.next_ms = now_ms + RTT_MS;
                    }
                    Err(wait) => {
                        conn.waits_until_ms = now_ms + 1 + wait.as_millis() as u64;
                        if !has_waited {
                            conn.stepped_ms = now_ms;
                        }
                    }
                }
            } else {
                conn.steps += 1;
                conn.next_ms = now_ms + RTT_MS;
                if conn.steps > port.before + port.behind {
                    proven.push(conn.key);
                } else if conn.steps > port.before {
                    conn.stepped_ms = now_ms;
                }
            }
            if let Some(own) = self.conns.iter_mut().find(|own| own.key == conn.key) {
                *own = conn;
            }
        }
        proven.iter().for_each(|key| self.conns.retain(|conn| conn.key != *key));
        proven
    }
}

/// How many of 20 clients get in, one after the other, beside `rate` connections a second from addresses that `address` makes, each of which goes `steps` far.
fn let_in(port: Port, rate: u64, steps: u32, address: impl Fn(u64) -> IpAddr, client: impl Fn(u64) -> IpAddr) -> usize {
    let mut flood = Flood::new(port);
    let (mut sent, mut now_ms, mut count) = (0, 0, 0);
    for number in 0..20 {
        // All places are taken by then, and what may be begun at once is used up. Phases differ.
        let comes_ms = now_ms + if number == 0 { 1000 } else { 100 } + 7 * number;
        let mut key = None;
        while now_ms < comes_ms + LIMIT_MS {
            now_ms += 1;
            while sent < rate * now_ms / 1000 {
                sent += 1;
                flood.come(now_ms, address(sent), steps);
            }
            if now_ms == comes_ms {
                key = Some(flood.come(now_ms, client(number), u32::MAX));
            }
            let proven = flood.step(now_ms);
            if key.is_some_and(|key| proven.contains(&key)) {
                count += 1;
                break;
            }
        }
    }
    count
}

fn of_one_device(number: u64) -> IpAddr {
    Ipv6Addr::from((0x2001_0db8_0000_0001u128 << 64) | u128::from(number)).into()
}

fn fresh(number: u64) -> IpAddr {
    IpAddr::from((0x0a00_0000u32 + number as u32).to_be_bytes())
}

fn client(number: u64) -> IpAddr {
    IpAddr::from([192, 168, 1, number as u8])
}

fn all_ports(mut judge: impl FnMut(Port, u32)) {
    for port in [NBD, NODE, JOIN, ADMIN] {
        // Silent, and each further step, but for the last one: that needs a key.
        (0..=port.before + port.behind).for_each(|steps| judge(port, steps));
    }
}

#[test]
fn a_new_client_gets_in_beside_a_thousand_connections_a_second_from_one_device() {
    all_ports(|port, steps| {
        assert_eq!(let_in(port, 1000, steps, of_one_device, client), 20, "{port:?}, {steps} steps");
    });
    for port in [NBD, NODE, JOIN, ADMIN] {
        assert_eq!(let_in(port, 1000, 0, |_| fresh(1), client), 20, "{port:?}, one IPv4 address");
    }
}

#[test]
fn a_new_client_gets_in_beside_200_fresh_addresses_a_second() {
    all_ports(|port, steps| {
        assert_eq!(let_in(port, 200, steps, fresh, client), 20, "{port:?}, {steps} steps");
    });
}

#[test]
fn a_client_that_was_let_in_gets_in_beside_any_number_also_from_its_own_network() {
    all_ports(|port, steps| {
        for (rate, address) in [(2000, fresh as fn(u64) -> IpAddr), (2000, of_one_device)] {
            let own = of_one_device(1 << 60);
            let mut flood = Flood::new(port);
            flood.doorman.let_in(Some(own));
            let (mut sent, mut key, mut is_in) = (0, 0, false);
            for now_ms in 1..3000 {
                while sent < rate * now_ms / 1000 {
                    sent += 1;
                    flood.come(now_ms, address(sent), steps);
                }
                if now_ms == 1000 {
                    key = flood.come(now_ms, own, u32::MAX);
                }
                is_in |= flood.step(now_ms).contains(&key);
            }
            assert!(is_in, "{port:?}, {steps} steps");
        }
    });
}

#[test]
fn nobody_keeps_a_place_by_trickling() {
    // All places are taken by those who go as far as they can without a key; newcomers displace them all.
    let mut flood = Flood::new(NODE);
    (0..NODE.places as u64).for_each(|number| _ = flood.come(1, fresh(number), 1));
    (2..500).for_each(|now_ms| drop(flood.step(now_ms)));
    (0..NODE.places as u64).for_each(|number| _ = flood.come(500, fresh(10_000 + number), 0));
    assert!(flood.conns.iter().all(|conn| conn.opened_ms == 500));
}

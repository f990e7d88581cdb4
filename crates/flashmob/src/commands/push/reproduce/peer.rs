//! P4's other end: a server of this machine at the address that the device reaches without adb.
//!
//! A port that adb forwards would measure the cable, so it is never used here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;

use super::super::session::Session;

/// Interfaces of Wi-Fi and Ethernet; those of mobile data have other names.
const INTERFACES: [&str; 4] = ["wlan", "swlan", "mlan", "eth"];
/// Any port: nothing is sent.
const PORT: u16 = 9;
/// Longest test that is served: P4's tests take a few seconds.
const LONGEST: Duration = Duration::from_secs(60);

/// A server in the background; ends when dropped.
pub struct Server {
    pub address: SocketAddr,
    cancel: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it at this address of this machine.
    pub fn start(address: IpAddr) -> anyhow::Result<Server> {
        let server = flashmob_bench::net::Server::bind(address, 0, LONGEST)
            .with_context(|| format!("cannot serve at {address} for P4; give another --address, or leave it out"))?;
        let (address, cancel) = (server.address(), Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&cancel);
        let serve = move || {
            server.run(false, &stop, &mut |told| log::debug!("{told:?}"));
        };
        let thread = std::thread::Builder::new().name("p4 server".into()).spawn(serve)?;
        Ok(Server { address, cancel, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The address of this machine on the way to the device's own; `None` if the device has none, or there is no way to it.
pub fn toward(session: &Session) -> anyhow::Result<Option<IpAddr>> {
    // Android before 5 may lack the first command.
    let text = session.try_shell("ip -f inet addr show || ifconfig wlan0")?.text;
    Ok(own_address(&text).and_then(|device| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((device, PORT)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    }))
}

/// The device's address on Wi-Fi or Ethernet, from the output of `ip addr` (`2: wlan0: ...`, `inet 10.0.0.5/24`) or of old devices' `ifconfig`
/// (`wlan0: ip 10.0.0.5 mask ...`).
fn own_address(text: &str) -> Option<Ipv4Addr> {
    let mut is_wanted = false;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if word.ends_with(':') && word.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            is_wanted = INTERFACES.iter().any(|name| word.starts_with(name));
        } else if is_wanted && matches!(word, "inet" | "ip") {
            let address =
                words.peek().map(|text| text.trim_start_matches("addr:").split('/').next().unwrap_or_default());
            if let Some(address) = address.and_then(|text| text.parse().ok()) {
                return Some(address);
            }
        } else if INTERFACES.iter().any(|name| word.starts_with(name)) && !text.contains(": <") {
            // `wlan0     Link encap:Ethernet`
            is_wanted = true;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_address_is_that_of_its_wifi() {
        let new = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000\n    inet 127.0.0.1/8 scope host lo\n\
            14: rmnet_data1: <UP,LOWER_UP> mtu 1500 qdisc mq state UNKNOWN qlen 1000\n    inet 10.1.2.3/30 scope global rmnet_data1\n\
            30: wlan0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP qlen 3000\n    inet 192.168.1.7/24 brd 192.168.1.255 scope global wlan0\n";
        assert_eq!(own_address(new), Some(Ipv4Addr::new(192, 168, 1, 7)));
        let old = "/system/bin/sh: ip: not found\nwlan0: ip 192.168.1.8 mask 255.255.255.0 flags [up broadcast running multicast]\n";
        assert_eq!(own_address(old), Some(Ipv4Addr::new(192, 168, 1, 8)));
        let toybox = "wlan0     Link encap:Ethernet  HWaddr 00:11:22:33:44:55\n          inet addr:192.168.1.9  Bcast:192.168.1.255  Mask:255.255.255.0\n";
        assert_eq!(own_address(toybox), Some(Ipv4Addr::new(192, 168, 1, 9)));
        let without =
            "1: lo: <LOOPBACK,UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n30: wlan0: <NO-CARRIER> mtu 1500\n";
        assert_eq!((own_address(without), own_address(""), own_address("wlan0: inet")), (None, None, None));
    }

    #[test]
    fn a_server_ends_when_it_is_dropped() {
        let server = Server::start(Ipv4Addr::LOCALHOST.into()).unwrap();
        let address = server.address;
        // Its port is not looked at: another test may have it by then.
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        drop(server);
        let ended = std::io::Read::read_to_end(&mut stream, &mut Vec::new()).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)), "{ended:?}");
    }
}

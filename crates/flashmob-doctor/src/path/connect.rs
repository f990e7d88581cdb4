//! Round-trip times of connections.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::Answer;

/// Number of connections, of which the fastest counts.
const ROUNDS: u32 = 7;
/// Time limit for all rounds, for long round trips.
const ENOUGH: Duration = Duration::from_secs(2);
/// Shorter times are below the machine's precision.
const RTT_S_MIN: f64 = 1e-6;

/// The peer's answer, and the minimum round-trip time.
pub(super) fn round_trip(address: SocketAddr, timeout: Duration) -> (Answer, Option<f64>) {
    let begun = Instant::now();
    let (mut answer, mut least) = match once(address, timeout) {
        (answer @ (Answer::Open | Answer::Refused), elapsed_s) => (answer, elapsed_s),
        // A silent peer is not asked again: the kernel has retransmitted the first packet meanwhile.
        (answer, _) => return (answer, None),
    };
    for _ in 1..ROUNDS {
        if begun.elapsed() > ENOUGH {
            break;
        }
        // A single loss does not make the peer silent.
        if let (again @ (Answer::Open | Answer::Refused), elapsed_s) = once(address, timeout) {
            answer = again;
            least = least.min(elapsed_s);
        }
    }
    (answer, Some(least))
}

fn once(address: SocketAddr, timeout: Duration) -> (Answer, f64) {
    let sent = Instant::now();
    let outcome = TcpStream::connect_timeout(&address, timeout);
    let elapsed_s = sent.elapsed().as_secs_f64().max(RTT_S_MIN);
    let answer = match outcome {
        Ok(_) => Answer::Open,
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => Answer::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Answer::Silent(timeout),
            _ => Answer::Failed(error.to_string()),
        },
    };
    (answer, elapsed_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn open_and_refused_both_tell_the_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, rtt_s) = round_trip(address, Duration::from_secs(5));
        assert_eq!(answer, Answer::Open);
        assert!(rtt_s.unwrap() > 0.0);
        drop(listener);
        let (answer, rtt_s) = round_trip(address, Duration::from_secs(5));
        assert_eq!(answer, Answer::Refused);
        assert!(rtt_s.is_some());
    }
}

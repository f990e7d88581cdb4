//! P4's measurements, as labs with two hosts each: one for each round trip, each loss and each pair of receive maxima.

use crate::commands::bench::net::in_lab::LabPath;

/// P4's round trips, in milliseconds.
pub const RTTS_MS: [f64; 8] = [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
/// Those of a quick run.
pub const RTTS_QUICK_MS: [f64; 4] = [0.0, 16.0, 64.0, 128.0];
/// The round trip of P4's packet captures.
const RTT_OF_CAPTURES_MS: f64 = 16.0;
/// Packet loss, where there is any, in parts per million: 1 %.
const LOSS_PPM: u32 = 10_000;
/// Captures, by the receiver's maximum: the small one, the tenfold one, the system's own.
pub const CAPTURES: [&str; 3] = ["small", "tenfold", "own"];
/// The larger receive maximum in units of the smaller one, as in P4's table 2.
pub const TENFOLD: u64 = 10;
/// Rate of datagrams as a multiple of the path's rate: a little more, to fill it.
const UDP_RATE: f64 = 1.25;
/// P4's, and with the one that came later.
const CONGESTIONS: &str = "reno,cubic";
const CONGESTIONS_AND_BBR: &str = "reno,cubic,bbr";
const CONGESTION: &str = "cubic";
/// Most further rounds in which points with void repetitions are measured again.
const REPLACE_VOID: u32 = 6;
/// Estimated startup and shutdown of a lab, and overhead of a point, until the first run has completed.
const RUN_S: f64 = 1.5;
const POINT_S: f64 = 0.4;

/// Settings common to all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Added round-trip times.
    pub rtts_ms: Vec<f64>,
    /// Rate of the path each way.
    pub rate_bits_per_second: u64,
    /// Queue limit at its entry, in packets.
    pub queue_packets: u32,
    /// The smaller receive maximum.
    pub receive_max_bytes: u64,
    /// Seconds of each repetition that count.
    pub time_s: f64,
    /// Seconds omitted at the beginning of each.
    pub omit_s: f64,
    /// Repetitions of each point.
    pub repeat: u32,
    /// Random seed.
    pub seed: u64,
}

/// One lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its path and its hosts.
    pub path: LabPath,
    /// Arguments of the clients, one after the other.
    pub loads: Vec<Vec<String>>,
    /// The name of the packet capture, if there is one.
    pub capture: Option<&'static str>,
    points: u32,
}

/// All runs, in the order in which the claims need them.
#[must_use]
pub fn runs(setup: &Setup) -> Vec<Run> {
    let (small, large) = (setup.receive_max_bytes, setup.receive_max_bytes * TENFOLD);
    let mut runs = Vec::new();
    for &rtt_ms in &setup.rtts_ms {
        let path = |client: u64, server: u64, loss_ppm: u32| setup.path(rtt_ms, loss_ppm, client, server);
        let udp_rate = (setup.rate_bits_per_second as f64 * UDP_RATE) as u64;
        let tcp =
            |direction: &str, congestion: &str| setup.load(&["--direction", direction, "--congestion", congestion]);
        let udp = setup.load(&["--udp", "--rate", &udp_rate.to_string(), "--direction", "up,down"]);
        let mut add = |path: LabPath, loads: Vec<Vec<String>>, points: u32| {
            runs.push(Run { path, loads, capture: None, points });
        };
        // P4's Android with its server, then Ubuntu with the same server: in turn at every round trip.
        let loads = |controls: &str| vec![tcp("up", controls), tcp("down", CONGESTION), udp.clone()];
        add(path(small, large, 0), loads(CONGESTIONS_AND_BBR), 6);
        add(path(large, large, 0), loads(CONGESTIONS), 5);
        add(path(small, large, LOSS_PPM), vec![tcp("up", CONGESTIONS_AND_BBR)], 3);
        add(path(large, large, LOSS_PPM), vec![tcp("up", CONGESTIONS)], 2);
        if Some(rtt_ms) == setup.rtts_ms.iter().copied().reduce(f64::min) {
            // The equal pairs of figure 6; that of large ones is above.
            let udp_up = setup.load(&["--udp", "--rate", &udp_rate.to_string(), "--direction", "up"]);
            add(path(small, small, 0), vec![tcp("up", CONGESTION), udp_up], 2);
        }
    }
    for (server, name) in [Some(small), Some(large), None].into_iter().zip(CAPTURES) {
        let path = setup.path(RTT_OF_CAPTURES_MS, 0, large, large);
        runs.push(Run {
            path: LabPath { server_receive_max_bytes: server, ..path },
            loads: vec![setup.once(&["--direction", "up", "--congestion", CONGESTION])],
            capture: Some(name),
            points: 1,
        });
    }
    runs
}

impl Setup {
    fn path(&self, rtt_ms: f64, loss_ppm: u32, client: u64, server: u64) -> LabPath {
        LabPath {
            rtt_us: (rtt_ms * 1e3).round() as u64,
            loss_ppm,
            rate_bits_per_second: self.rate_bits_per_second,
            queue_packets: self.queue_packets,
            client_receive_max_bytes: Some(client),
            server_receive_max_bytes: Some(server),
            seed: self.seed,
        }
    }

    fn load(&self, words: &[&str]) -> Vec<String> {
        let mut load = self.repeated(words, self.repeat);
        load.extend(["--replace-void".to_string(), REPLACE_VOID.to_string()]);
        load
    }

    fn once(&self, words: &[&str]) -> Vec<String> {
        self.repeated(words, 1)
    }

    fn repeated(&self, words: &[&str], repeat: u32) -> Vec<String> {
        let mut load: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        let numbers = [("--time", self.time_s.to_string()), ("--omit", self.omit_s.to_string())];
        load.extend(
            numbers
                .into_iter()
                .chain([("--repeat", repeat.to_string())])
                .flat_map(|(option, value)| [option.to_string(), value]),
        );
        load
    }
}

impl super::super::runs::Run for Run {
    type Setup = Setup;

    fn words(&self) -> String {
        let what = match self.capture {
            Some(name) => format!("packets, receive maximum {name}"),
            None => format!("{} points", self.points),
        };
        format!("{}, {what}", self.path.words())
    }

    fn guess_s(&self, setup: &Setup) -> f64 {
        let repeat = if self.capture.is_some() { 1 } else { setup.repeat };
        RUN_S + f64::from(self.points) * f64::from(repeat) * (setup.time_s + setup.omit_s + POINT_S)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::runs::Run as _;
    use super::*;

    fn setup(rtts_ms: &[f64]) -> Setup {
        Setup {
            rtts_ms: rtts_ms.to_vec(),
            rate_bits_per_second: 11_000_000,
            queue_packets: 100,
            receive_max_bytes: 24_576,
            time_s: 2.5,
            omit_s: 1.0,
            repeat: 3,
            seed: 1,
        }
    }

    #[test]
    fn every_round_trip_has_both_ways_both_maxima_and_loss() {
        let runs = runs(&setup(&RTTS_MS));
        assert_eq!(runs.len(), 8 * 4 + 1 + 3);
        assert_eq!(runs.iter().map(|run| run.points).sum::<u32>(), 8 * 16 + 2 + 3);
        for rtt_us in RTTS_MS.map(|ms| (ms * 1e3) as u64) {
            let like = |r: &&Run| r.path.rtt_us == rtt_us && r.capture.is_none();
            let of: Vec<&Run> = runs.iter().filter(like).filter(|r| r.points > 2 || r.path.loss_ppm > 0).collect();
            let maxima: Vec<_> = of.iter().map(|r| (r.path.client_receive_max_bytes, r.path.loss_ppm)).collect();
            let (small, large) = (Some(24_576), Some(245_760));
            assert_eq!(maxima, [(small, 0), (large, 0), (small, 10_000), (large, 10_000)]);
            assert!(of.iter().all(|r| r.path.server_receive_max_bytes == large));
            let equal = runs.iter().filter(like).filter(|r| r.path.server_receive_max_bytes == small).count();
            assert_eq!(equal, usize::from(rtt_us == 0), "figure 6");
        }
        let guess_s: f64 = runs.iter().map(|run| run.guess_s(&setup(&RTTS_MS))).sum();
        assert!((600.0..2_700.0).contains(&guess_s), "{guess_s}");
    }

    #[test]
    fn loads_are_what_the_benchmark_takes() {
        let runs = runs(&setup(&RTTS_QUICK_MS));
        assert_eq!(
            runs[0].loads[2].join(" "),
            "--udp --rate 13750000 --direction up,down --time 2.5 --omit 1 --repeat 3 --replace-void 6"
        );
        let packets: Vec<_> = runs.iter().filter_map(|run| run.capture).collect();
        assert_eq!(packets, ["small", "tenfold", "own"]);
        assert_eq!(runs.last().unwrap().path.server_receive_max_bytes, None);
        assert!(runs.last().unwrap().loads[0].join(" ").ends_with("--repeat 1"));
    }
}

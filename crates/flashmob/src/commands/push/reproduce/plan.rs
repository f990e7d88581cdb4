//! The measurements, as runs of the program on the device: those of `flashmob reproduce` and of its presets.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use flashmob_results::Document;
use flashmob_text::MIB;

use crate::commands::bench::disk::Preset;
use crate::commands::reproduce::{p3, p5, runs};

/// Papers with measurements for a single device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Paper {
    /// Random reads over block sizes and threads, of one device.
    P1,
    /// Sequential and random reads, and orders of addresses; as root also I/O schedulers and commands.
    P3,
    /// TCP and UDP between the device and this machine.
    P4,
    /// INSERTs into SQLite; as root with the kernel's layers.
    P5,
}

impl Paper {
    /// As its claims name it.
    pub fn name(self) -> &'static str {
        match self {
            Paper::P1 => "P1",
            Paper::P3 => "P3",
            Paper::P4 => "P4",
            Paper::P5 => "P5",
        }
    }
}

/// Settings common to all steps.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Folder on the device for files that are removed at the end.
    pub folder: String,
    /// The device's name in results.
    pub label: String,
    /// Random seed.
    pub seed: u64,
    /// Fraction of P1's and P3's sizes and work.
    pub scale: f64,
    /// INSERTs of each setting.
    pub inserts: u64,
    /// Seconds and repetitions of each point of P4.
    pub net: (f64, u32),
    /// The server of P4, if the device reaches one.
    pub server: Option<SocketAddr>,
    /// The program on the device is root.
    pub is_root: bool,
}

/// What a step of P4 sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    Tcp,
    Udp,
}

/// One run of the program on the device.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// P1's preset.
    Reads,
    /// One of P3's presets.
    Order(p3::plan::Run),
    /// P4's figure 6.
    Net(Load),
    /// P5's INSERTs in one round.
    Inserts(p5::plan::Run),
}

/// P5's own setting, and the journal mode with the fewest writes.
const JOURNAL_MODES: &str = "DELETE,WAL";
const LEVEL: &str = "FULL";
/// Omitted at the beginning, until windows have grown.
const OMIT_S: u32 = 1;
/// Rate of datagrams as a multiple of TCP's best: a little more, to fill the path.
const UDP_OVER_TCP: f64 = 1.25;
/// If TCP's rate is not known: about what P4's Wi-Fi carried.
const UDP_BITS_PER_SECOND: f64 = 14e6;
/// Estimates until the first steps have completed: speed of making a file on a phone, a phone's INSERTs relative to the estimate for this machine, startup.
const MAKE_BYTES_PER_S: f64 = 20e6;
const INSERTS_SLOWER: f64 = 5.0;
const STEP_S: f64 = 2.0;
/// For a database, logs and results.
const OTHER_BYTES: u64 = 64 * MIB;

/// All steps, paper after paper.
pub fn steps(papers: &[Paper], setup: &Setup) -> Vec<Step> {
    let mut steps = Vec::new();
    for paper in papers {
        match paper {
            Paper::P1 => steps.push(Step::Reads),
            // Without root, its points would differ in nothing but the schedulers that cannot be set.
            Paper::P3 => steps.extend(
                p3::plan::RUNS.into_iter().filter(|run| setup.is_root || run.preset != SCHEDULERS).map(Step::Order),
            ),
            Paper::P4 if setup.server.is_some() => steps.extend([Load::Tcp, Load::Udp].map(Step::Net)),
            Paper::P4 => {}
            Paper::P5 => {
                let place = p5::plan::Place::Folder(PathBuf::from(&setup.folder));
                steps.extend(p5::plan::runs(&[place], p5::ROUNDS).into_iter().map(Step::Inserts));
            }
        }
    }
    steps
}

/// The preset that needs root.
const SCHEDULERS: &str = "p3-scheduler";

/// Free space that these papers need at this scale: their files do not exist at the same time.
pub fn space_bytes(papers: &[Paper], scale: f64) -> u64 {
    let file_of = |paper: &Paper| match paper {
        Paper::P1 => Some(Preset::P1),
        Paper::P3 => Some(Preset::P3Basic),
        Paper::P4 | Paper::P5 => None,
    };
    let sizes = papers.iter().filter_map(file_of).filter_map(|preset| preset.settings(scale, false).size);
    sizes.max().unwrap_or(0) + OTHER_BYTES
}

impl Step {
    /// The paper that it belongs to.
    pub fn paper(&self) -> Paper {
        match self {
            Step::Reads => Paper::P1,
            Step::Order(_) => Paper::P3,
            Step::Net(_) => Paper::P4,
            Step::Inserts(_) => Paper::P5,
        }
    }

    /// The program's arguments, without the path of its result; `so_far`: the result of this paper's steps before it.
    pub fn arguments(&self, setup: &Setup, so_far: Option<&Document>) -> Vec<String> {
        let file = |name: &str| format!("{}/{name}", setup.folder);
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        let label = ["--label".to_string(), setup.label.clone()];
        match self {
            Step::Reads => {
                let numbers = format!("--scale {} --seed {} --remove", setup.scale, setup.seed);
                let of = [words("bench disk"), vec![file("p1.bin")], words("--preset p1"), words(&numbers)];
                of.concat().into_iter().chain(label).collect()
            }
            Step::Order(run) => run.arguments(&p3::plan::Setup {
                subject: p3::plan::Subject::File(file("p3.bin").into()),
                scale: setup.scale,
                seed: setup.seed,
                label: Some(setup.label.clone()),
            }),
            Step::Net(load) => {
                let server = setup.server.map_or_else(String::new, |server| server.to_string());
                let (seconds, repeat) = setup.net;
                let load = match load {
                    Load::Tcp => String::new(),
                    Load::Udp => format!(" --udp --rate {}", udp_bits_per_second(so_far)),
                };
                let text = format!(
                    "bench net --connect {server} --direction up,down{load} --time {seconds} --omit {OMIT_S} --repeat {repeat}"
                );
                words(&text).into_iter().chain(label).collect()
            }
            Step::Inserts(run) => run.arguments(&inserts(setup)).into_iter().chain(label).collect(),
        }
    }
}

fn inserts(setup: &Setup) -> p5::plan::Setup {
    p5::plan::Setup { inserts: setup.inserts, rounds: p5::ROUNDS, modes: JOURNAL_MODES.into(), levels: LEVEL.into() }
}

fn udp_bits_per_second(tcp: Option<&Document>) -> u64 {
    let points = tcp.and_then(Document::net).into_iter().flat_map(|net| &net.points);
    let rates = points.flat_map(|point| [point.summary.up_bits_per_second, point.summary.down_bits_per_second]);
    let best = rates.flatten().map(|rate| rate.median * UDP_OVER_TCP).fold(0.0, f64::max);
    if best > 0.0 { best as u64 } else { UDP_BITS_PER_SECOND as u64 }
}

/// Seconds of P1's preset, with those for making its file.
fn reads_s(scale: f64) -> f64 {
    let settings = Preset::P1.settings(scale, false);
    let size_bytes = settings.size.unwrap_or(0);
    let points = settings.grid().ok().and_then(|grid| grid.points(size_bytes).ok()).map_or(0, |points| points.len());
    let seconds = settings.time.map_or(0.0, |time| time.as_secs_f64());
    points as f64 * f64::from(settings.repeat()) * seconds + size_bytes as f64 / MAKE_BYTES_PER_S
}

impl runs::Run for Step {
    type Setup = Setup;

    fn words(&self) -> String {
        let what = match self {
            Step::Reads => "random reads over block sizes and threads".into(),
            Step::Order(run) => run.words.to_string(),
            Step::Net(Load::Tcp) => "TCP both ways".into(),
            Step::Net(Load::Udp) => "UDP both ways".into(),
            Step::Inserts(run) => format!("INSERTs, round {}", run.round + 1),
        };
        format!("{what} ({})", self.paper().name())
    }

    fn guess_s(&self, setup: &Setup) -> f64 {
        STEP_S
            + match self {
                Step::Reads => reads_s(setup.scale),
                Step::Order(run) => run.guess_s(&p3::plan::Setup {
                    subject: p3::plan::Subject::File(PathBuf::new()),
                    scale: setup.scale,
                    seed: setup.seed,
                    label: None,
                }),
                Step::Net(_) => 2.0 * f64::from(setup.net.1) * (setup.net.0 + f64::from(OMIT_S)),
                Step::Inserts(run) => INSERTS_SLOWER * run.guess_s(&inserts(setup)),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::runs::Run as _;
    use super::*;

    const ALL: [Paper; 4] = [Paper::P1, Paper::P3, Paper::P4, Paper::P5];

    fn setup(is_root: bool, server: Option<&str>) -> Setup {
        Setup {
            folder: "/data/local/tmp/flashmob.d/reproduce".into(),
            label: "Nexus 7".into(),
            seed: 7,
            scale: 0.05,
            inserts: 200,
            net: (2.0, 2),
            server: server.map(|text| text.parse().unwrap()),
            is_root,
        }
    }

    fn text(step: &Step, setup: &Setup) -> String {
        step.arguments(setup, None).join(" ")
    }

    #[test]
    fn steps_are_what_the_program_takes() {
        let setup = setup(false, Some("192.168.1.2:5201"));
        let steps = steps(&ALL, &setup);
        let of: Vec<&str> = steps.iter().map(|step| step.paper().name()).collect();
        assert_eq!(of, ["P1", "P3", "P3", "P4", "P4", "P5", "P5", "P5"]);
        let folder = &setup.folder;
        let expected = format!("bench disk {folder}/p1.bin --preset p1 --scale 0.05 --seed 7 --remove --label Nexus 7");
        assert_eq!(text(&steps[0], &setup), expected);
        let expected =
            format!("bench disk {folder}/p3.bin --preset p3-basic --commands --scale 0.05 --seed 7 --label Nexus 7");
        assert_eq!(text(&steps[1], &setup), expected);
        let net = "bench net --connect 192.168.1.2:5201 --direction up,down";
        assert_eq!(text(&steps[3], &setup), format!("{net} --time 2 --omit 1 --repeat 2 --label Nexus 7"));
        assert!(text(&steps[4], &setup).starts_with(&format!("{net} --udp --rate 14000000 ")), "no TCP before it");
        let expected = format!(
            "trace sqlite {folder} --journal DELETE,WAL --synchronous FULL --inserts 200 --pairs 1 --traced-first --label Nexus 7"
        );
        assert_eq!(text(&steps[6], &setup), expected, "the second round");
    }

    #[test]
    fn what_needs_root_or_an_address_is_left_out_without() {
        let names = |is_root, server| -> Vec<String> {
            let setup = setup(is_root, server);
            steps(&[Paper::P3, Paper::P4], &setup).iter().map(runs::Run::words).collect()
        };
        assert_eq!(names(false, None), ["sequential and random reads (P3)", "orders of addresses (P3)"]);
        assert_eq!(names(true, None).last().unwrap(), "I/O schedulers (P3)");
        assert_eq!(names(false, Some("10.0.0.1:1"))[2..], ["TCP both ways (P4)", "UDP both ways (P4)"]);
    }

    #[test]
    fn all_of_it_takes_an_hour_and_a_quick_run_some_minutes() {
        let all_s = |setup: &Setup| steps(&ALL, setup).iter().map(|step| step.guess_s(setup)).sum::<f64>();
        let quick_s = all_s(&setup(false, Some("10.0.0.1:1")));
        assert!((60.0..300.0).contains(&quick_s), "{quick_s}");
        let whole = Setup { scale: 1.0, inserts: 10_000, net: (3.0, 3), ..setup(false, None) };
        assert!((1_800.0..5_400.0).contains(&all_s(&whole)), "{}", all_s(&whole));
    }

    #[test]
    fn space_is_that_of_the_largest_file() {
        assert_eq!(space_bytes(&ALL, 1.0), (10 << 30) + OTHER_BYTES);
        assert_eq!(space_bytes(&[Paper::P3, Paper::P5], 0.01), (128 << 20) + OTHER_BYTES);
        assert_eq!(space_bytes(&[Paper::P5], 1.0), OTHER_BYTES);
    }
}

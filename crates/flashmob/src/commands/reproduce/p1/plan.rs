//! The measurements of P1's section 3, as runs of one command each: small enough that a failure costs little, large enough that startup
//! costs little.

use std::path::Path;
use std::time::Duration;

use flashmob_results::cluster::Batch;

use flashmob_node::values::OrderArg;

/// Links to each node: P1's number of threads.
const LINKS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Those of a quick run: what the claims are about.
const LINKS_QUICK: [u32; 5] = [1, 4, 8, 16, 32];
/// Batches that adapt by themselves need few links to show their effect.
const LINKS_OF_AUTO: [u32; 2] = [1, 4];
const BATCHES: [Batch; 4] = [Batch::Fixed(1), Batch::Fixed(10), Batch::Fixed(100), Batch::Auto];
/// Estimated startup and shutdown of a lab, and overhead of a point, until the first run has completed.
const RUN_S: f64 = 3.0;
const POINT_S: f64 = 0.5;
/// A batch of P1's modes is answered as a whole, and a node sorts all its batches: many large ones all end with its sweep. A repetition
/// has at least this many sweeps, because one more or less is otherwise an error of an eighth or more.
const SWEEPS_MIN: f64 = 8.0;
/// Number of links beyond which sweeps of the largest batches are long: each has its own run.
const LINKS_OF_LONG_SWEEPS: u32 = 8;
/// Upper bound of a repetition that is extended for this.
const LONG_S: f64 = 30.0;

/// Where it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Place {
    /// Real processes and TCP over modelled air and flash, in real time.
    Lab,
    /// Everything modelled, in virtual time.
    Simulator,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Place::Lab => "lab",
            Place::Simulator => "simulator",
        })
    }
}

/// Settings common to all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Lab or simulator.
    pub place: Place,
    /// Profile of the air, as given.
    pub air: String,
    /// `wired` or `wireless`.
    pub gateway: &'static str,
    /// Profile of the flash.
    pub flash: String,
    /// Random seed.
    pub seed: u64,
    /// Measured time of a repetition.
    pub time: Duration,
    /// Repetitions of each point.
    pub repeat: u32,
    /// The limit of one node's flash alone, in requests per second.
    pub limit: f64,
}

/// One run: all combinations of its lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// P1's n.
    pub nodes: Vec<u32>,
    /// P1's m.
    pub links: Vec<u32>,
    /// P1's k, or auto.
    pub batch: Batch,
    /// Without reading.
    pub no_io: bool,
    /// The order in which nodes read: P1's way is that of arrival.
    pub order: OrderArg,
}

/// All runs, in the order in which the claims need them.
#[must_use]
pub fn runs(quick: bool, full: bool) -> Vec<Run> {
    let nodes: Vec<u32> = if quick { vec![1, 2, 4, 8] } else { (1..=8).collect() };
    let mut runs = Vec::new();
    let fixed: &[u32] = if quick { &LINKS_QUICK } else { &LINKS };
    let mut add = |batch: Batch, no_io: bool, order: OrderArg| {
        let few = batch == Batch::Auto && !full;
        let all: &[u32] = if few { &LINKS_OF_AUTO } else { fixed };
        let is_sorted = order == OrderArg::Sorted;
        let is_long = |links: &u32| batch == Batch::Fixed(100) && !no_io && is_sorted && *links > LINKS_OF_LONG_SWEEPS;
        let short: Vec<u32> = all.iter().copied().filter(|links| !is_long(links)).collect();
        let long = all.iter().copied().filter(is_long).map(|links| vec![links]);
        for links in std::iter::once(short).chain(long) {
            runs.push(Run { nodes: nodes.clone(), links, batch, no_io, order });
        }
    };
    for batch in BATCHES {
        let is_ours = batch == Batch::Auto;
        add(batch, false, if is_ours { OrderArg::Sorted } else { OrderArg::Arrival });
    }
    // Without reading there is no order.
    BATCHES.into_iter().for_each(|batch| add(batch, true, OrderArg::Sorted));
    for batch in BATCHES.into_iter().filter(|batch| full && *batch != Batch::Auto) {
        add(batch, false, OrderArg::Sorted);
    }
    runs
}

impl Run {
    /// Number of combinations.
    #[must_use]
    pub fn points(&self) -> usize {
        self.nodes.len() * self.links.len()
    }

    /// Measured time of a repetition: the requested one, or more where a node's sweeps are long. In tenths of a second.
    #[must_use]
    pub fn time(&self, setup: &Setup) -> Duration {
        let most = self.links.iter().max().copied().unwrap_or(1);
        let in_hand = match self.batch {
            Batch::Fixed(k) if !self.no_io && self.order == OrderArg::Sorted => f64::from(k) * f64::from(most),
            Batch::Fixed(_) | Batch::Auto => 0.0,
        };
        let least_s = (SWEEPS_MIN * in_hand / setup.limit.max(1.0) * 10.0).ceil() / 10.0;
        setup.time.max(Duration::from_secs_f64(least_s.min(LONG_S)))
    }

    /// Arguments of this program for this run, without --save; `program` is its own path, for commands within the lab.
    #[must_use]
    pub fn arguments(&self, setup: &Setup, program: &Path) -> Vec<String> {
        let mut model = vec![
            "--air".to_string(),
            setup.air.clone(),
            "--gateway".to_string(),
            setup.gateway.to_string(),
            "--flash".to_string(),
            setup.flash.clone(),
            "--seed".to_string(),
            setup.seed.to_string(),
        ];
        if self.no_io {
            model.push("--no-io".into());
        }
        if self.order == OrderArg::Arrival {
            model.extend(["--order", "arrival"].map(String::from));
        }
        let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let load = [
            ("--nodes", list(&self.nodes)),
            ("--links", list(&self.links)),
            ("--batch", self.batch.to_string()),
            ("--block-size", "1".to_string()),
            ("--time", self.time(setup).as_secs_f64().to_string()),
            ("--repeat", setup.repeat.to_string()),
        ];
        let load = load.into_iter().flat_map(|(option, value)| [option.to_string(), value]);
        let mut arguments = vec!["--quiet".to_string()];
        match setup.place {
            Place::Simulator => {
                arguments.push("simulate".into());
                arguments.extend(model);
            }
            Place::Lab => {
                let most = self.nodes.iter().max().copied().unwrap_or(1);
                arguments.extend(["lab", "run", "--nodes"].map(String::from));
                arguments.push(most.to_string());
                arguments.extend(model);
                arguments.push("--".into());
                arguments.push(program.display().to_string());
                arguments.extend(["--quiet", "bench", "cluster", "--seed"].map(String::from));
                arguments.push(setup.seed.to_string());
                if self.no_io {
                    // The nodes got it above; here it states the intent.
                    arguments.push("--no-io".into());
                }
            }
        }
        arguments.extend(load);
        arguments
    }
}

impl super::super::runs::Run for Run {
    type Setup = Setup;

    fn words(&self) -> String {
        let batch = match self.batch {
            Batch::Auto => "auto".to_string(),
            Batch::Fixed(k) => format!("k={k}"),
        };
        let how = match (self.no_io, self.order) {
            (true, _) => " without I/O",
            (false, OrderArg::Arrival) => " in order of arrival",
            (false, OrderArg::Sorted) => "",
        };
        format!("{batch}{how}, {} points", self.points())
    }

    fn guess_s(&self, setup: &Setup) -> f64 {
        let time = self.time(setup);
        let warmup_s = flashmob_lab::load::warmup_for(time).as_secs_f64();
        let repetition_s = time.as_secs_f64() + warmup_s + POINT_S;
        RUN_S + self.points() as f64 * f64::from(setup.repeat) * repetition_s
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::runs::Run as _;
    use super::*;

    fn setup(place: Place) -> Setup {
        Setup {
            place,
            air: "11n-2014,loss=1%".into(),
            gateway: "wired",
            flash: "nexus7-emmc".into(),
            seed: 7,
            time: Duration::from_millis(1_500),
            repeat: 2,
            limit: 2_000.0,
        }
    }

    #[test]
    fn repetitions_outlast_the_sweeps_of_large_batches() {
        let time = |links: &[u32], batch, no_io| {
            let run = Run { nodes: vec![1], links: links.to_vec(), batch, no_io, order: OrderArg::Sorted };
            run.time(&setup(Place::Lab)).as_secs_f64()
        };
        assert_eq!(time(&[32], Batch::Fixed(100), false), 12.8);
        assert_eq!(time(&[1, 2, 4, 8], Batch::Fixed(100), false), 3.2);
        assert_eq!(time(&[1, 2], Batch::Fixed(100), false), 1.5, "as asked for");
        assert_eq!(time(&[32], Batch::Fixed(100), true), 1.5, "nothing is sorted");
        assert_eq!(time(&[32], Batch::Auto, false), 1.5);
    }

    #[test]
    fn all_of_section_3_is_asked_for() {
        let quick = runs(true, false);
        assert_eq!(quick.len(), 8);
        assert_eq!(quick.iter().map(Run::points).sum::<usize>(), 2 * (3 * 20 + 8));
        let all = runs(false, true);
        assert_eq!(all.iter().map(Run::points).sum::<usize>(), (2 * 4 + 3) * 48);
        let ways = |batch, order| all.iter().filter(|r| !r.no_io && r.batch == batch && r.order == order).count();
        assert_eq!((ways(Batch::Auto, OrderArg::Arrival), ways(Batch::Auto, OrderArg::Sorted)), (0, 1));
        assert_eq!(ways(Batch::Fixed(10), OrderArg::Arrival), ways(Batch::Fixed(10), OrderArg::Sorted));
        assert!(quick.iter().all(|r| r.no_io || (r.order == OrderArg::Sorted) == (r.batch == Batch::Auto)));
        assert!(all.iter().all(|run| run.nodes == [1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(quick[0].guess_s(&setup(Place::Lab)) > 24.0 * 2.0 * 1.5);
    }

    #[test]
    fn the_lab_runs_this_program_within_itself() {
        let mut run =
            Run { nodes: vec![1, 8], links: vec![1, 4], batch: Batch::Auto, no_io: true, order: OrderArg::Sorted };
        let said = |place| run.arguments(&setup(place), Path::new("/bin/flashmob")).join(" ");
        assert_eq!(
            said(Place::Lab),
            "--quiet lab run --nodes 8 --air 11n-2014,loss=1% --gateway wired --flash nexus7-emmc --seed 7 --no-io \
             -- /bin/flashmob --quiet bench cluster --seed 7 --no-io --nodes 1,8 --links 1,4 --batch auto --block-size 1 --time 1.5 \
             --repeat 2"
        );
        assert_eq!(
            said(Place::Simulator),
            "--quiet simulate --air 11n-2014,loss=1% --gateway wired --flash nexus7-emmc --seed 7 --no-io \
             --nodes 1,8 --links 1,4 --batch auto --block-size 1 --time 1.5 --repeat 2"
        );
        (run.no_io, run.order) = (false, OrderArg::Arrival);
        let line = run.arguments(&setup(Place::Lab), Path::new("f"));
        assert!(line.join(" ").contains(" --order arrival -- f --quiet bench"), "{line:?}");
    }
}

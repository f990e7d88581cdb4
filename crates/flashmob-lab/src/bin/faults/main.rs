//! Runs the fault simulator with many random seeds, and reports those that fail and how to repeat them.

mod record;
mod totals;

use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use flashmob_lab::faults::{self, Outcome, Scenario, ScenarioFile, Step, Totals};
use record::Record;
use totals::tell_totals;

/// Runs a gateway, nodes and clients in virtual time, with faults, and checks every answer.
#[derive(Parser)]
#[command(group = clap::ArgGroup::new("one").args(["seed", "scenario"]))]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run only this seed.
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Run only the scenario in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "first", "seed", "copies", "killed", "history"])]
    scenario: Option<PathBuf>,
    /// Write the scenario of the seed into this file instead of running it.
    #[arg(long, value_name = "FILE", requires = "seed")]
    save: Option<PathBuf>,
    /// Clusters whose volumes have copies, in place of linear and striped ones.
    #[arg(long)]
    copies: bool,
    /// Volumes with copies that are changed (a node is added, drained or replaced, the volume grows, shrinks or is balanced), in the middle of which the
    /// gateway, the node that a copy comes from or goes to, or all of them are killed. 24 seeds in a row have each change with each victim.
    #[arg(long, conflicts_with_all = ["copies", "history"])]
    killed: bool,
    /// Write what clients saw, as histories of registers for tests/linear, into this folder: of seeds in which a standby takes over, without faults that take
    /// back what was acknowledged. Other seeds are not run.
    #[arg(long, value_name = "DIR", requires = "copies")]
    history: Option<PathBuf>,
    /// Record in this file which seeds have passed and which failed, and go on there: seeds that it has are not run again. Ctrl-C ends a run in order; one
    /// that is killed loses what passed in its last second.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "scenario", "history"])]
    resume: Option<PathBuf>,
    /// Go on though another build of this program wrote the file: what passed there counts, and what failed is run again.
    #[arg(long, requires = "resume")]
    keep_passed: bool,
    /// Print every event.
    #[arg(long, requires = "one")]
    trace: bool,
    /// Threads; all cores if 0.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 5)]
    failures_max: u64,
    /// Plant this bug, to see that it is found; `list` prints the names.
    #[cfg(feature = "planted")]
    #[arg(long)]
    plant: Option<String>,
}

/// A seed that takes more processor time than this spins in one event; healthy ones take milliseconds. On a busy machine a seed may wait
/// for a processor as long as it likes.
const SEED_SECONDS_MAX: f64 = 60.0;

/// State that the threads share.
struct Shared {
    /// The seeds to run.
    todo: Vec<Range<u64>>,
    /// How many of them are taken.
    next: AtomicU64,
    passed: AtomicU64,
    failed: AtomicU64,
    totals: Mutex<Totals>,
    /// The seed that each thread runs, and the processor time of this process when it began.
    running: Mutex<Vec<Option<(u64, f64)>>>,
    workers_left: AtomicU64,
    record: Record,
}

impl Shared {
    /// The next seed to run.
    fn take_seed(&self) -> Option<u64> {
        let mut place = self.next.fetch_add(1, Ordering::Relaxed);
        for range in &self.todo {
            let count = range.end - range.start;
            if place < count {
                return Some(range.start + place);
            }
            place -= count;
        }
        None
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    #[cfg(feature = "planted")]
    if !plant(args.plant.as_deref()) {
        return ExitCode::from(2);
    }
    if let Some(path) = args.save.as_deref().or(args.scenario.as_deref()) {
        let done = if args.save.is_some() { save(path, &args) } else { run_file(path, args.trace) };
        return done.unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", path.display());
            ExitCode::from(2)
        });
    }
    let (first, count) = args.seed.map_or((args.first, args.seeds), |seed| (seed, 1));
    if args.trace {
        println!("{:#?}", scenario(first, &args));
    }
    let jobs = match args.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let all = first..first.saturating_add(count);
    let opened = match &args.resume {
        Some(path) => Record::open(path, &args, all.clone()),
        None => Ok((Record::default(), vec![all])),
    };
    let (record, todo) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(2);
        }
    };
    let count: u64 = todo.iter().map(|range| range.end - range.start).sum();
    let shared = Shared {
        todo,
        next: AtomicU64::new(0),
        passed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        totals: Mutex::new(Totals::default()),
        running: Mutex::new(Vec::new()),
        workers_left: AtomicU64::new(0),
        record,
    };
    // A panic in the code under test is a failure like any other; it is told with its seed.
    panic::set_hook(Box::new(|info| PANIC.with_borrow_mut(|text| *text = info.to_string())));
    let started = Instant::now();
    std::thread::scope(|scope| {
        let jobs = jobs.min(usize::try_from(count).unwrap_or(jobs)).max(1);
        if let Ok(mut running) = shared.running.lock() {
            running.resize(jobs, None);
        }
        shared.workers_left.store(jobs as u64, Ordering::Relaxed);
        for place in 0..jobs {
            let (shared, args) = (&shared, &args);
            scope.spawn(move || {
                work(shared, place, args);
                shared.workers_left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let progress = match std::io::stderr().is_terminal() {
            _ if args.trace => Progress::None,
            true => Progress::Line,
            false if args.resume.is_some() => Progress::Lines,
            false => Progress::None,
        };
        watch(&shared, count, started, progress);
    });
    let _ = panic::take_hook();
    let seconds = started.elapsed().as_secs_f64();
    let (passed, mut failed) = (shared.passed.into_inner(), shared.failed.into_inner());
    let totals = shared.totals.into_inner().unwrap_or_default();
    tell_totals(&totals);
    println!("{:.0} seeds/s, {seconds:.1} s on {jobs} threads", (passed + failed) as f64 / seconds);
    let ended = shared.record.end();
    failed += shared.record.failed_before;
    println!("{} passed, {failed} failed", passed + shared.record.passed_before);
    if let Some(code) = ended {
        println!("the run is not at its end: the same command goes on from here");
        return code;
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the scenario of a seed.
fn save(path: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let Some(seed) = args.seed else { return Ok(ExitCode::from(2)) };
    let file = ScenarioFile { history: format!("seed {seed}"), scenario: scenario(seed, args) };
    std::fs::write(path, file.to_text()?)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the scenario in a file.
fn run_file(path: &Path, is_traced: bool) -> anyhow::Result<ExitCode> {
    let file = ScenarioFile::parse(&std::fs::read_to_string(path)?)?;
    let outcome = faults::run(file.scenario, is_traced);
    tell_totals(&outcome.totals);
    let Some(violation) = outcome.violation else {
        println!("1 passed, 0 failed");
        return Ok(ExitCode::SUCCESS);
    };
    println!("\n{} failed: {violation}", path.display());
    outcome.last_events.iter().for_each(|event| println!("  {event}"));
    println!("0 passed, 1 failed");
    Ok(ExitCode::FAILURE)
}

/// Plants a bug; false if there is none of that name.
#[cfg(feature = "planted")]
fn plant(name: Option<&str>) -> bool {
    use flashmob_core::planted::{Bug, plant};
    let Some(name) = name else { return true };
    plant(Bug::named(name));
    if Bug::named(name).is_none() {
        Bug::ALL.iter().for_each(|bug| println!("{}", bug.name()));
    }
    Bug::named(name).is_some()
}

thread_local! {
    /// The last panic's message.
    static PANIC: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

/// The scenario of a seed.
fn scenario(seed: u64, args: &Args) -> Scenario {
    match (args.killed, args.copies) {
        (true, _) => Scenario::killed_from_seed(seed),
        (_, true) => Scenario::with_copies_from_seed(seed),
        _ => Scenario::from_seed(seed),
    }
}

fn work(shared: &Shared, place: usize, args: &Args) {
    let mut totals = Totals::default();
    while shared.failed.load(Ordering::Relaxed) < args.failures_max && !shared.record.is_stopped() {
        let Some(seed) = shared.take_seed() else { break };
        if let Ok(mut running) = shared.running.lock() {
            running[place] = Some((seed, processor_seconds()));
        }
        let mut scenario = scenario(seed, args);
        if args.history.is_some() {
            let Some(of_registers) = scenario.of_registers() else { continue };
            scenario = of_registers;
        }
        match panic::catch_unwind(AssertUnwindSafe(|| faults::run(scenario, args.trace))) {
            Ok(Outcome { violation, totals: run, history, last_events, .. }) => {
                totals.add(&run);
                if let Some(folder) = &args.history
                    && let Err(error) = write_history(folder, seed, &history)
                {
                    tell_failure(shared, seed, &format!("{}: {error}", folder.display()), &[]);
                }
                match violation {
                    None => {
                        shared.passed.fetch_add(1, Ordering::Relaxed);
                        shared.record.passed(seed);
                    }
                    Some(violation) => tell_failure(shared, seed, &violation, &last_events),
                }
            }
            Err(_) => tell_failure(shared, seed, &PANIC.with_borrow(String::clone), &[]),
        }
    }
    if let Ok(mut running) = shared.running.lock() {
        running[place] = None;
    }
    if let Ok(mut sum) = shared.totals.lock() {
        sum.add(&totals);
    }
}

fn write_history(folder: &Path, seed: u64, history: &[Step]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    faults::write_history(history, &mut bytes)?;
    std::fs::write(folder.join(format!("{seed}.jsonl")), bytes)
}

/// Processor time of this process so far; 0 where /proc does not tell it.
fn processor_seconds() -> f64 {
    // proc(5): the 14th and 15th field, in hundredths of a second. The second is a name in brackets, which may hold anything.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn tell_failure(shared: &Shared, seed: u64, violation: &str, events: &[String]) {
    shared.failed.fetch_add(1, Ordering::Relaxed);
    shared.record.failed(seed, violation);
    let mut text = format!("\nseed {seed} failed: {violation}\n");
    for event in events {
        text += &format!("  {event}\n");
    }
    text += &format!("reproduce with: faults --seed {seed} --trace\n");
    // One write, so that threads do not mix their lines.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// How a run of many seeds shows how far it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    None,
    /// One line of a terminal, written over.
    Line,
    /// A line now and then.
    Lines,
}

/// The time between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Waits for the workers; shows how far they are, and records it; ends the process if one of them hangs.
fn watch(shared: &Shared, total: u64, started: Instant, progress: Progress) {
    let mut rounds = 0u64;
    let mut told = Instant::now();
    while shared.workers_left.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(20));
        rounds += 1;
        if !rounds.is_multiple_of(10) {
            continue;
        }
        if rounds.is_multiple_of(50) {
            shared.record.save();
        }
        let running = shared.running.lock().map(|running| running.clone()).unwrap_or_default();
        // All threads have an equal share of what the process gets.
        let limit_s = SEED_SECONDS_MAX * running.len() as f64;
        let used_s = processor_seconds();
        let is_hung = |(_, begun_s): &&(u64, f64)| used_s - begun_s > limit_s;
        if let Some((seed, _)) = running.iter().flatten().find(is_hung) {
            let violation =
                format!("it takes more than {SEED_SECONDS_MAX} s of processor time, probably within one event");
            println!("\nseed {seed} failed: {violation}");
            println!("reproduce with: faults --seed {seed} --trace");
            println!("{} passed, 1 failed", shared.passed.load(Ordering::Relaxed));
            shared.record.failed(*seed, &violation);
            shared.record.end();
            std::process::exit(1);
        }
        let is_due = match progress {
            Progress::None => false,
            Progress::Line => true,
            Progress::Lines => told.elapsed() >= LINE_EVERY,
        };
        if is_due {
            told = Instant::now();
            let text = shared.progress(total, started);
            match progress {
                Progress::Line => eprint!("\r\x1b[K{text}"),
                _ => eprintln!("{text}"),
            }
        }
    }
    if progress == Progress::Line {
        eprint!("\r\x1b[K");
    }
}

impl Shared {
    fn progress(&self, total: u64, started: Instant) -> String {
        let failed = self.failed.load(Ordering::Relaxed);
        let done = self.passed.load(Ordering::Relaxed) + failed;
        let rate = done as f64 / started.elapsed().as_secs_f64();
        let left_s = (total.saturating_sub(done)) as f64 / rate.max(0.001);
        let left = match left_s as u64 {
            s @ 0..120 => format!("{s} s"),
            s @ 120..7200 => format!("{} min", s / 60),
            s => format!("{} h {} min", s / 3600, s / 60 % 60),
        };
        let before = match self.record.passed_before + self.record.failed_before {
            0 => String::new(),
            before => format!(" ({before} before)"),
        };
        format!("{done} of {total} seeds{before}, {rate:.0}/s, {left} left, {failed} failed")
    }
}

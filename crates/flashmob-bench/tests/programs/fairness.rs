//! What a greedy client does to a modest one: `fairness URI [KEY=VALUE...]`.
//!
//! The modest client has one read outstanding. It is measured alone and beside the greedy client in turn, round after round, so that
//! both see the same machine. Prints one JSON object: p50 and p99 of both in microseconds, the ratio of the medians over rounds,
//! and what the greedy client got; in `rounds` the same of each round, for a verdict that is to hold against chance.
//!
//! | key | default | |
//! |---|---|---|
//! | `outstanding` | 1024 | reads that the greedy client keeps outstanding, on one connection |
//! | `block` | 4096 | bytes of each read, of both |
//! | `rounds`, `ms` | 5, 500 | how many rounds, and how long each half of one is |
//! | `greedy`, `modest` | 0-1 | the part of the volume that each reads from, in fractions such as 0.5-1 |
//! | `elsewhere` | the same URI | another server for the greedy client: what use of the processors alone does |
//! | `spin` | 0 | instead of the greedy client, so many threads that only use the processor: what the scheduler alone does |

use std::error::Error;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashmob_bench::load::random::Random;
use flashmob_bench::nbd::connection::{Connection, Options};
use flashmob_bench::nbd::pump::Single;
use flashmob_bench::nbd::reply::Replies;
use flashmob_bench::nbd::slots::Request;
use flashmob_bench::nbd::uri::Uri;
use flashmob_core::op::Op;
use hdrhistogram::Histogram;

/// The longest latency that is told apart: a minute.
const NANOS_MAX: u64 = 60_000_000_000;

type Failure = Box<dyn Error + Send + Sync>;

struct Arguments {
    uri: Uri,
    greedy_uri: Uri,
    outstanding: u32,
    block_bytes: u32,
    rounds: usize,
    half: Duration,
    greedy: Range<f64>,
    modest: Range<f64>,
    spin: usize,
}

fn arguments() -> Result<Arguments, Failure> {
    let mut words = std::env::args().skip(1);
    let uri: Uri = words.next().ok_or("usage: fairness URI [KEY=VALUE...]")?.parse()?;
    let mut found = Arguments {
        greedy_uri: uri.clone(),
        uri,
        outstanding: 1024,
        block_bytes: 4096,
        rounds: 5,
        half: Duration::from_millis(500),
        greedy: 0.0..1.0,
        modest: 0.0..1.0,
        spin: 0,
    };
    for word in words {
        let (key, value) = word.split_once('=').ok_or(format!("'{word}' is not KEY=VALUE"))?;
        match key {
            "outstanding" => found.outstanding = value.parse()?,
            "block" => found.block_bytes = value.parse()?,
            "rounds" => found.rounds = value.parse()?,
            "ms" => found.half = Duration::from_millis(value.parse()?),
            "greedy" => found.greedy = range(value)?,
            "modest" => found.modest = range(value)?,
            "elsewhere" => found.greedy_uri = value.parse()?,
            "spin" => found.spin = value.parse()?,
            _ => return Err(format!("there is no '{key}'").into()),
        }
    }
    Ok(found)
}

fn range(text: &str) -> Result<Range<f64>, Failure> {
    let (from, to) = text.split_once('-').ok_or(format!("'{text}' is not FROM-TO"))?;
    Ok(from.parse()?..to.parse()?)
}

/// What the greedy client saw, and how long it asked.
type Load = (Histogram<u64>, Duration);

/// Latencies of what was answered; an error ends the load.
struct Latencies {
    ns: Histogram<u64>,
    error: Option<String>,
}

impl Replies for Latencies {
    fn data(&mut self, _: &Request, _: u64, _: &[u8]) {}

    fn done(&mut self, request: &Request, outcome: Result<(), &flashmob_bench::error::ServerError>, at: Instant) {
        if let Err(error) = outcome {
            self.error.get_or_insert(error.to_string());
        }
        self.ns.saturating_record(at.saturating_duration_since(request.submitted).as_nanos() as u64);
    }
}

/// A connection that keeps reads outstanding, anywhere in a part of the volume.
struct Reader {
    single: Single,
    random: Random,
    /// Blocks of the part.
    blocks: Range<u64>,
    block_bytes: u32,
}

impl Reader {
    fn open(uri: &Uri, outstanding: u32, block_bytes: u32, part: &Range<f64>, seed: u64) -> Result<Reader, Failure> {
        let connection = Connection::open(uri, &Options { outstanding, ..Options::default() })?;
        let blocks = connection.export().size_bytes / u64::from(block_bytes);
        let at = |fraction: f64| (blocks as f64 * fraction) as u64;
        let blocks = at(part.start)..at(part.end);
        if blocks.is_empty() {
            return Err("no block lies in that part of the volume".into());
        }
        Ok(Reader { single: Single::new(connection)?, random: Random::new(seed, 0), blocks, block_bytes })
    }

    /// Reads until told otherwise; waits for what is outstanding then.
    fn run(&mut self, goes_on: impl Fn() -> bool) -> Result<Histogram<u64>, Failure> {
        let mut latencies = Latencies { ns: Histogram::new_with_bounds(1, NANOS_MAX, 3)?, error: None };
        loop {
            let more = goes_on();
            while more && self.single.connection.free() > 0 {
                let block = self.blocks.start + self.random.below(self.blocks.end - self.blocks.start);
                let offset_bytes = block * u64::from(self.block_bytes);
                self.single.connection.submit(Instant::now(), Op::Read, 0, offset_bytes, self.block_bytes, |_| ());
            }
            if self.single.connection.outstanding() == 0 {
                break;
            }
            self.single.turn(&mut latencies)?;
        }
        latencies.error.map_or(Ok(latencies.ns), |error| Err(error.into()))
    }

    fn run_for(&mut self, time: Duration) -> Result<Histogram<u64>, Failure> {
        let until = Instant::now() + time;
        self.run(|| Instant::now() < until)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Failure> {
    let args = arguments()?;
    let mut modest = Reader::open(&args.uri, 1, args.block_bytes, &args.modest, 1)?;
    let mut greedy = Reader::open(&args.greedy_uri, args.outstanding, args.block_bytes, &args.greedy, 2)?;
    modest.run_for(args.half)?;
    let mut rounds: [Vec<[f64; 2]>; 2] = [Vec::new(), Vec::new()];
    let (mut greedy_rates, mut greedy_p50s) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        rounds[0].push(quantiles_us(&modest.run_for(args.half)?));
        let (beside, (taken, took)) = beside(&args, &mut modest, &mut greedy)?;
        rounds[1].push(quantiles_us(&beside));
        greedy_rates.push(taken.len() as f64 / took.as_secs_f64());
        greedy_p50s.push(quantiles_us(&taken)[0]);
    }
    let each: Vec<String> = (0..args.rounds)
        .map(|i| {
            let ([_, alone_p99], [p50, p99], greedy) = (rounds[0][i], rounds[1][i], greedy_p50s[i]);
            format!("{{\"alone_p99_us\": {alone_p99:.1}, \"beside_p50_us\": {p50:.1}, \"beside_p99_us\": {p99:.1}, \"greedy_p50_us\": {greedy:.1}}}")
        })
        .collect();
    let of = |half: usize, quantile: usize| median(rounds[half].iter().map(|r| r[quantile]).collect());
    println!(
        "{{\"alone_p50_us\": {:.1}, \"alone_p99_us\": {:.1}, \"beside_p50_us\": {:.1}, \"beside_p99_us\": {:.1}, \
         \"ratio_p50\": {:.2}, \"ratio_p99\": {:.2}, \"greedy_reads_per_s\": {:.0}, \"greedy_p50_us\": {:.0}, \"rounds\": [{}]}}",
        of(0, 0),
        of(0, 1),
        of(1, 0),
        of(1, 1),
        of(1, 0) / of(0, 0),
        of(1, 1) / of(0, 1),
        median(greedy_rates),
        median(greedy_p50s),
        each.join(", "),
    );
    Ok(())
}

/// The modest client beside the greedy one, or beside threads that spin; and what the greedy one saw.
fn beside(args: &Arguments, modest: &mut Reader, greedy: &mut Reader) -> Result<(Histogram<u64>, Load), Failure> {
    let is_over = AtomicBool::new(false);
    let goes_on = || !is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..args.spin {
            scope.spawn(|| while goes_on() {});
        }
        let load = scope.spawn(|| {
            let begun = Instant::now();
            let taken = if args.spin == 0 { greedy.run(goes_on)? } else { Histogram::new(3)? };
            Ok::<_, Failure>((taken, begun.elapsed()))
        });
        // The load is under way before anything is measured.
        let warm = modest.run_for(args.half / 10);
        let measured = modest.run_for(args.half);
        is_over.store(true, Ordering::Relaxed);
        let taken = load.join().map_err(|_| "the greedy client ended badly")??;
        warm?;
        Ok((measured?, taken))
    })
}

fn quantiles_us(latencies: &Histogram<u64>) -> [f64; 2] {
    [0.5, 0.99].map(|q| latencies.value_at_quantile(q) as f64 / 1000.0)
}

//! All settings, in one form for the command line, job files and presets: each of them may leave some open.

use std::time::Duration;

use clap::{Args, Parser};
use flashmob_bench::disk::limit::Stop;
use flashmob_bench::disk::plan::{Grid, REPEAT_MAX};
use flashmob_results::disk::{Cache, Engine, Operation, Pattern, Sync};

use flashmob_node::values::{MOMENT, size, time_in};

/// Default size of a file that is made.
pub const SIZE_BYTES_DEFAULT: u64 = 1 << 30;
const TIME_DEFAULT: Duration = Duration::from_secs(5);
const REPEAT_DEFAULT: u32 = 3;
/// Longest time of a repetition.
const TIME_MAX: Duration = Duration::from_secs(1_000_000);

/// Values separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

/// What can be chosen. What is absent is decided by the job file, the preset, and the defaults, in this order.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Size of the file, if it must be created [default: 1GiB].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// Access orders: random (multiples of the block size), sequential, sort and shuffle (starts of 1 MiB blocks),
    /// rand (any byte) [default: random].
    #[arg(short, long, value_name = "LIST", value_parser = patterns)]
    pub pattern: Option<List<Pattern>>,
    /// Request sizes in bytes [default: 4KiB].
    #[arg(short, long, value_name = "LIST", value_parser = sizes)]
    pub block_size: Option<List<u64>>,
    /// Numbers of threads [default: 1].
    #[arg(short = 'j', long, value_name = "LIST", value_parser = numbers)]
    pub threads: Option<List<u32>>,
    /// Requests that each thread keeps outstanding, with --engine io_uring [default: 1].
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    pub depth: Option<List<u32>>,
    /// Requests per repetition, over all threads, instead of --time.
    #[arg(short = 'n', long, visible_alias = "requests", value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "time")]
    pub reads: Option<u64>,
    /// Time per repetition; a bare number means seconds [default: 5s].
    #[arg(short, long, value_name = "TIME", value_parser = time_in(MOMENT..=TIME_MAX))]
    pub time: Option<Duration>,
    /// Use only the first SIZE bytes of the file [default: all].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub range: Option<u64>,
    /// Repetitions of every combination, in rounds [default: 3].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEAT_MAX)))]
    pub repeat: Option<u32>,
    /// State of the page cache: cold (dropped before each repetition, and checked), warm (file read before), or
    /// direct (bypassed) [default: cold].
    #[arg(short, long, value_name = "STATE", value_parser = word::<Cache>)]
    pub cache: Option<Cache>,
    /// I/O interface: pread or io_uring [default: pread].
    #[arg(short, long, value_name = "ENGINE", value_parser = word::<Engine>)]
    pub engine: Option<Engine>,
    /// Write instead of reading. Without --allow-overwrite, only to a file that this benchmark created.
    #[arg(short, long)]
    pub write: bool,
    /// Completion of a write: none (the call returned), fdatasync (called after each write), dsync (O_DSYNC) [default: none].
    #[arg(long, value_name = "WHEN", value_parser = word::<Sync>)]
    pub sync: Option<Sync>,
    /// I/O schedulers to measure with, one after the other; restores the original one. Needs root.
    #[arg(short, long, value_name = "LIST", value_parser = names)]
    pub scheduler: Option<List<String>>,
    /// Random seed for offsets; equal seeds give equal offsets [default: 1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// For reading settings that stand in a text.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
pub struct Lines {
    /// What can be chosen.
    #[command(flatten)]
    pub settings: Settings,
    /// The file to measure with.
    #[arg(long, value_name = "FILE")]
    pub file: Option<std::path::PathBuf>,
    /// A modelled device.
    #[arg(long, value_name = "PROFILE")]
    pub model: Option<String>,
    /// A name for the result.
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
}

impl Settings {
    /// These settings; open ones are taken from `below`.
    #[must_use]
    pub fn over(self, below: Settings) -> Settings {
        // The two exclude each other across sources.
        let (reads, time) = match (self.reads, self.time) {
            (None, None) => (below.reads, below.time),
            said => said,
        };
        Settings {
            size: self.size.or(below.size),
            pattern: self.pattern.or(below.pattern),
            block_size: self.block_size.or(below.block_size),
            threads: self.threads.or(below.threads),
            depth: self.depth.or(below.depth),
            reads,
            time,
            range: self.range.or(below.range),
            repeat: self.repeat.or(below.repeat),
            cache: self.cache.or(below.cache),
            engine: self.engine.or(below.engine),
            write: self.write || below.write,
            sync: self.sync.or(below.sync),
            scheduler: self.scheduler.or(below.scheduler),
            seed: self.seed.or(below.seed),
        }
    }

    /// The names of the settings that differ, except the seed: papers do not fix it.
    pub fn differing(&self, other: &Settings) -> Vec<&'static str> {
        let pairs = [
            ("size", self.size != other.size),
            ("pattern", self.pattern != other.pattern),
            ("block-size", self.block_size != other.block_size),
            ("threads", self.threads != other.threads),
            ("depth", self.depth != other.depth),
            ("reads", self.reads != other.reads),
            ("time", self.time != other.time),
            ("range", self.range != other.range),
            ("repeat", self.repeat != other.repeat),
            ("cache", self.cache != other.cache),
            ("engine", self.engine != other.engine),
            ("write", self.write != other.write),
            ("sync", self.sync != other.sync),
            ("scheduler", self.scheduler != other.scheduler),
        ];
        pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// All combinations of them.
    pub fn grid(&self) -> anyhow::Result<Grid> {
        ensure_value!(self.write || self.sync.is_none(), "--sync applies to writes only; add --write, or leave it out");
        fn list<T: Clone>(given: &Option<List<T>>, default: T) -> Vec<T> {
            given.as_ref().map_or_else(|| vec![default], |list| list.0.clone())
        }
        Ok(Grid {
            operation: if self.write { Operation::Write } else { Operation::Read },
            patterns: list(&self.pattern, Pattern::Random),
            block_bytes: list(&self.block_size, 4096),
            threads: list(&self.threads, 1),
            depths: list(&self.depth, 1),
            engine: self.engine.unwrap_or(Engine::Pread),
            cache: self.cache.unwrap_or(Cache::Cold),
            sync: self.sync.unwrap_or(Sync::None),
            schedulers: self.scheduler.as_ref().map_or_else(Vec::new, |list| list.0.clone()),
            range_bytes: self.range,
            stop: match self.reads {
                Some(count) => Stop::Requests(count),
                None => Stop::After(self.time.unwrap_or(TIME_DEFAULT)),
            },
        })
    }

    /// Repetitions.
    pub fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(REPEAT_DEFAULT)
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

/// An enum of the result format with its names.
trait Vocabulary: Copy + 'static {
    const WHAT: &'static str;
    fn all() -> &'static [Self];
    fn said(self) -> &'static str;
}

macro_rules! vocabulary {
    ($($type:ty: $what:literal),+) => {
        $(impl Vocabulary for $type {
            const WHAT: &'static str = $what;
            fn all() -> &'static [Self] { <$type>::ALL }
            fn said(self) -> &'static str { self.word() }
        })+
    };
}

vocabulary!(Pattern: "pattern", Cache: "state of the page cache", Engine: "engine", Sync: "way to sync");

fn word<T: Vocabulary>(text: &str) -> Result<T, String> {
    T::all().iter().copied().find(|word| word.said() == text).ok_or_else(|| {
        let words: Vec<&str> = T::all().iter().map(|word| word.said()).collect();
        let near = nearest(text, &words).map_or(String::new(), |word| format!("; did you mean '{word}'?"));
        format!("unknown {} '{text}': {}{near}", T::WHAT, words.join(", "))
    })
}

/// The most similar of `words`.
pub fn nearest<'a>(text: &str, words: &[&'a str]) -> Option<&'a str> {
    let text = text.to_lowercase();
    let near = words.iter().map(|word| (strsim::jaro_winkler(&text, word), *word));
    near.filter(|(likeness, _)| *likeness > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

/// Each value once, in the given order.
fn list<T: PartialEq>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<List<T>, String> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        if part.is_empty() {
            return Err("empty value beside a comma".into());
        }
        let value = item(part)?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok(List(values))
}

fn patterns(text: &str) -> Result<List<Pattern>, String> {
    list(text, word::<Pattern>)
}

fn sizes(text: &str) -> Result<List<u64>, String> {
    list(text, size)
}

fn numbers(text: &str) -> Result<List<u32>, String> {
    list(text, |part| part.parse().map_err(|_| format!("'{part}' is not a number of at least 1")))
}

fn names(text: &str) -> Result<List<String>, String> {
    list(text, |part| Ok(part.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings, clap::Error> {
        Lines::try_parse_from(line.split_whitespace()).map(|lines| lines.settings)
    }

    #[test]
    fn lists_sizes_and_words() {
        let settings = parse("--block-size 1,512,1k,4k,4096 --threads 1,2 --pattern sort,rand --cache direct").unwrap();
        assert_eq!(settings.block_size, Some(List(vec![1, 512, 1024, 4096])), "each once");
        let grid = settings.grid().unwrap();
        assert_eq!((grid.threads, grid.patterns), (vec![1, 2], vec![Pattern::Sort, Pattern::Rand]));
        assert_eq!(grid.stop, Stop::After(Duration::from_secs(5)));
    }

    #[test]
    fn what_is_wrong_is_named_with_a_remedy() {
        let message = |line| parse(line).unwrap_err().to_string();
        assert!(message("--pattern shufle").contains("did you mean 'shuffle'?"), "{}", message("--pattern shufle"));
        assert!(message("--block-size 1,,2").contains("empty value beside a comma"));
        assert!(message("--threads -1").contains("'-1'"), "{}", message("--threads -1"));
        assert!(message("--time 0").contains("more than 0"));
        assert!(message("--time nan").contains("not a time"));
        assert!(message("--reads 0").contains("0"));
        assert!(message("--reads 5 --time 1").contains("cannot be used with"));
        assert!(parse("--sync dsync").unwrap().grid().unwrap_err().to_string().contains("--write"));
    }

    #[test]
    fn the_upper_layer_wins_and_reads_and_time_stay_apart() {
        let below = parse("--reads 7 --size 1M --threads 4 --write").unwrap();
        let both = parse("--time 2 --threads 8").unwrap().over(below.clone());
        assert_eq!((both.reads, both.time, both.size), (None, Some(Duration::from_secs(2)), Some(1 << 20)));
        assert_eq!((&both.threads, both.write), (&Some(List(vec![8])), true));
        assert_eq!(Settings::default().over(below.clone()), below);
        assert_eq!(both.differing(&below), ["threads", "reads", "time"]);
        assert!(below.differing(&below).is_empty());
    }
}

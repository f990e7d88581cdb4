//! The papers' measurements on one device, as settings; and how they are shortened.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use flashmob_bench::disk::Scheduler;
use flashmob_core::units::MIB;

use super::settings::{Lines, List, Settings};

/// Least sizes and counts of a shortened preset: with less, its effects would not show.
const SIZE_BYTES_MIN: u64 = 16 * MIB;
/// P3's presets have one size at every scale, so that they can share a file: the range of its schedulers, which is not shortened.
const P3_SIZE_BYTES_MIN: u64 = 128 * MIB;
/// For each thread: until all threads have begun, few requests wait and schedulers have no choice.
const READS_MIN: u64 = 64;
const REPEAT_MIN: u32 = 3;
const TIME_MIN: Duration = Duration::from_millis(250);

/// Measurements of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Random reads of 1 B to 16 KiB by 1 to 32 threads from 10 GiB (P1, Fig 1-4; 450 s).
    P1,
    /// 1,000 reads of 4 KiB from 1 GiB, sequential and random (P3, Fig 1).
    P3Basic,
    /// 1,000 reads of 1 B at the start of 1 MiB blocks: ascending, shuffled, and at any byte; 100 times (P3, Fig 2).
    P3Order,
    /// 16 threads read 1 B anywhere in 128 MiB, under each I/O scheduler (P3, Fig 3; setting schedulers needs root).
    P3Scheduler,
}

impl Preset {
    /// As on a command line.
    pub fn line(self) -> &'static str {
        match self {
            Preset::P1 => {
                "--size 10GiB --pattern random --block-size 1,512,1k,4k,16k --threads 1,2,4,8,16,32 --time 5 --repeat 3"
            }
            Preset::P3Basic => {
                "--size 1GiB --pattern sequential,random --block-size 4k --threads 1 --reads 1000 --repeat 10"
            }
            Preset::P3Order => {
                "--size 1GiB --pattern sort,shuffle,rand --block-size 1 --threads 1 --reads 1000 --repeat 100"
            }
            Preset::P3Scheduler => {
                "--size 1GiB --range 128MiB --pattern random --block-size 1 --threads 16 --reads 2000 --repeat 10 \
                 --scheduler none,mq-deadline,bfq,kyber"
            }
        }
    }

    /// Its name on command lines and in results.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// Its settings, shortened to `scale` of their size and of their reads, time or repetitions; for a model in full size, and without
    /// schedulers that it does not support.
    pub fn settings(self, scale: f64, is_modelled: bool) -> Settings {
        let lines = Lines::try_parse_from(self.line().split_whitespace()).expect("a preset is a valid command line");
        let size_bytes_min = if self == Preset::P1 { SIZE_BYTES_MIN } else { P3_SIZE_BYTES_MIN };
        let size = lines.settings.size;
        let mut settings = scaled(lines.settings, scale, size_bytes_min);
        if is_modelled {
            // The size costs a model nothing, and distances matter to it.
            settings.size = size;
        }
        if let (Some(List(names)), true) = (&mut settings.scheduler, is_modelled) {
            names.retain(|name| Scheduler::NAMES.contains(&name.as_str()));
        }
        settings
    }
}

fn scaled(mut settings: Settings, scale: f64, size_bytes_min: u64) -> Settings {
    if scale >= 1.0 {
        return settings;
    }
    let part = |whole: u64, least: u64| ((whole as f64 * scale) as u64).max(least.min(whole));
    let size = |bytes: u64| part(bytes, size_bytes_min).next_multiple_of(MIB);
    // A preset's range is fixed: in a smaller one steps are shorter, and more requests hit the cache. The size is never smaller.
    settings.size = settings.size.map(size);
    let threads = settings.threads.iter().flat_map(|List(threads)| threads).max().copied().unwrap_or(1);
    settings.reads = settings.reads.map(|count| part(count, READS_MIN * u64::from(threads)));
    settings.time = settings.time.map(|time| time.mul_f64(scale).max(TIME_MIN.min(time)));
    settings.repeat = settings.repeat.map(|n| ((f64::from(n) * scale) as u32).max(REPEAT_MIN.min(n)));
    settings
}

/// Parses `--scale`.
pub fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err(format!("'{text}' is not a fraction: give a number above 0 and up to 1, such as 0.1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_measured_at_every_scale() {
        for preset in Preset::value_variants() {
            for scale in [1.0, 0.5, 0.1, 0.001] {
                let settings = preset.settings(scale, false);
                let points = settings.grid().unwrap().points(settings.size.unwrap()).unwrap();
                assert!(!points.is_empty() && settings.repeat() >= 3, "{preset:?} {scale}");
            }
        }
    }

    #[test]
    fn scale_shortens_size_and_work_and_never_lengthens() {
        let whole = Preset::P3Order.settings(1.0, false);
        assert_eq!((whole.size, whole.reads, whole.repeat), (Some(1 << 30), Some(1000), Some(100)));
        let tenth = Preset::P3Order.settings(0.1, false);
        assert_eq!((tenth.size, tenth.reads, tenth.repeat), (Some(128 << 20), Some(100), Some(10)));
        let p1 = Preset::P1.settings(0.1, false);
        assert_eq!((p1.time, p1.repeat), (Some(Duration::from_millis(500)), Some(3)));
        let points = Preset::P1.settings(1.0, false).grid().unwrap().points(10 << 30).unwrap();
        assert_eq!(points.len(), 30);
        let half = Preset::P3Order.settings(0.5, false);
        assert_eq!(half.size, Some(512 << 20));
        let schedulers = Preset::P3Scheduler.settings(0.05, false);
        assert_eq!(schedulers.reads, Some(1024), "64 for each thread");
        assert_eq!((schedulers.size, schedulers.range), (Some(128 << 20), Some(128 << 20)), "the range stays");
        assert_eq!(Preset::P3Order.settings(0.05, true).size, Some(1 << 30), "a model's size costs nothing");
        let modelled = Preset::P3Scheduler.settings(1.0, true).scheduler;
        assert_eq!(modelled, Some(List(["none", "mq-deadline", "bfq"].map(String::from).to_vec())));
        assert_eq!((scale("0.1"), scale("1")), (Ok(0.1), Ok(1.0)));
        assert!(scale("0").is_err() && scale("1.1").is_err() && scale("nan").is_err() && scale("x").is_err());
    }
}

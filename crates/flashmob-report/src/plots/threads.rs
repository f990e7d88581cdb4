//! P1's figures 1 to 4: random reads over threads, one line for each block size.

use flashmob_results::disk::{Point, Spread};

use super::{Place, Section, has_bytes, hollow, linear_scales, repetitions};
use crate::entry::{Entry, is_doubtful};
use crate::figure::axes::Scale;
use crate::figure::lines::{Lines, Mark, Series};
use crate::plots::Figures;
use crate::words;

/// Lines that can be told apart in one figure.
const LINES_MAX: usize = 10;
/// Beyond this factor between maximum and minimum, small values would lie on the axis.
const LINEAR_RATIO_MAX: f64 = 20.0;
const COMMAND: &str = "flashmob bench disk FILE --preset p1";

/// One figure.
struct Grid<'a> {
    name: String,
    /// Sorted by block size and threads.
    points: Vec<&'a Point>,
}

/// The value of the lines.
struct Measure {
    y_title: &'static str,
    /// In units of 1 / `unit`.
    of: fn(&Point) -> Spread,
    unit: f64,
    may_be_logarithmic: bool,
}

pub(super) fn reads(entries: &[Entry]) -> Section {
    let of = |p: &Point| p.summary.requests_per_second;
    let measure = Measure { y_title: "reads/s", of, unit: 1.0, may_be_logarithmic: false };
    Section {
        place: Place::paper(1, 1),
        heading: "Random reads per second over threads",
        words: "P1, figures 1 to 4: does the rate grow with threads, and does a smaller read give more of them?",
        figures: drawn(&grids(entries, |_| true), &measure),
        command: COMMAND,
    }
}

pub(super) fn bytes(entries: &[Entry]) -> Section {
    let of = |p: &Point| p.summary.bytes_per_second;
    let measure = Measure { y_title: "KB/s (1,000 bytes)", of, unit: 1e-3, may_be_logarithmic: true };
    Section {
        place: Place::paper(1, 1),
        heading: "Bytes per second over threads",
        words: "The same reads by the bytes that they carried.",
        figures: drawn(&grids(entries, has_bytes), &measure),
        command: COMMAND,
    }
}

fn drawn(grids: &[Grid], measure: &Measure) -> Figures {
    let common = Common::of(grids);
    let highest: Vec<f64> = grids.iter().map(|g| g.highest(measure)).collect();
    let lowest: Vec<f64> = grids.iter().map(|g| g.lowest(measure)).collect();
    let is_wide = highest.iter().zip(&lowest).any(|(high, low)| *high > low * LINEAR_RATIO_MAX);
    let (scales, note) = if measure.may_be_logarithmic && is_wide {
        let low = lowest.iter().copied().fold(f64::INFINITY, f64::min);
        let high = highest.iter().copied().fold(0.0, f64::max);
        let several = grids.len() > 1;
        let note = if several { " Logarithmic; same scale in all of these figures." } else { " Logarithmic." };
        // Decades make the same scale readable for slow and fast devices.
        (vec![Scale::log(low, high); grids.len()], note)
    } else {
        linear_scales(&highest)
    };
    let mut figures = Figures::new();
    for (grid, scale) in grids.iter().zip(scales) {
        let lines = grid.lines(&common, measure, scale, note);
        figures.push((grid.name.clone(), Box::new(move |nth| lines.draw(nth))));
    }
    figures
}

/// Random reads with at least two thread counts: fewer make no line.
fn grids<'a>(entries: &'a [Entry], usable: impl Fn(&Point) -> bool) -> Vec<Grid<'a>> {
    let mut grids = Vec::new();
    for entry in entries {
        let mut groups = entry.random_reads();
        groups.iter_mut().for_each(|(_, points)| points.retain(|p| usable(p)));
        groups.retain(|(_, points)| points.iter().any(|p| p.parameters.threads != points[0].parameters.threads));
        let several = groups.len() > 1;
        for (setting, points) in groups {
            let name = if several { format!("{} · {}", entry.name, setting.words()) } else { entry.name.clone() };
            grids.push(Grid { name, points });
        }
    }
    grids
}

/// At most `most` of them, evenly spread, first and last included.
pub(super) fn spread_evenly<T>(mut all: Vec<T>, most: usize) -> Vec<T> {
    let have = all.len();
    if have > most {
        let mut at = 0;
        let wanted: Vec<usize> = (0..most).map(|n| n * (have - 1) / (most - 1).max(1)).collect();
        all.retain(|_| {
            at += 1;
            wanted.contains(&(at - 1))
        });
    }
    all
}

impl Grid<'_> {
    fn highest(&self, &Measure { of, unit, .. }: &Measure) -> f64 {
        self.points.iter().map(|p| of(p).max.max(of(p).median) * unit).filter(|v| v.is_finite()).fold(0.0, f64::max)
    }

    fn lowest(&self, &Measure { of, unit, .. }: &Measure) -> f64 {
        self.points.iter().map(|p| of(p).median * unit).fold(f64::INFINITY, f64::min)
    }

    fn lines(&self, common: &Common, measure: &Measure, scale: Scale, note: &str) -> Lines {
        let Measure { y_title, of, unit, .. } = *measure;
        let mark = |p: &&Point| Mark {
            x: common.across.part(p.parameters.threads),
            y: of(p).median * unit,
            range: Some((of(p).min * unit, of(p).max * unit)),
            doubtful: is_doubtful(&p.warnings),
        };
        let blocks: Vec<&[&Point]> =
            self.points.chunk_by(|a, b| a.parameters.block_bytes == b.parameters.block_bytes).collect();
        let many = blocks.len();
        let series: Vec<Series> = spread_evenly(blocks, LINES_MAX)
            .into_iter()
            .map(|points| Series {
                name: words::bytes(points[0].parameters.block_bytes),
                look: common.look(points[0].parameters.block_bytes),
                points: points.iter().map(mark).collect(),
            })
            .collect();
        let left_out = if many > LINES_MAX {
            format!(" {LINES_MAX} of {many} block sizes are drawn; the tables have all.")
        } else {
            String::new()
        };
        Lines {
            title: format!("{}: random reads over threads, {y_title}", self.name),
            description: self.description(measure),
            caption: format!("{}.{note}{left_out}{}", repetitions(&self.points), hollow(&self.points)),
            y_title: y_title.into(),
            x_title: "threads".into(),
            legend: "block size".into(),
            scale,
            x_ticks: common.across.ticks(),
            series,
            limits: Vec::new(),
        }
    }

    fn description(&self, &Measure { y_title, of, unit, .. }: &Measure) -> String {
        let by = |a: &&&Point, b: &&&Point| of(a).median.total_cmp(&of(b).median);
        let (Some(most), Some(least)) = (self.points.iter().max_by(by), self.points.iter().min_by(by)) else {
            return String::new();
        };
        let words = |p: &Point| {
            format!(
                "{} {y_title} at {} with {}",
                words::number(of(p).median * unit),
                words::bytes(p.parameters.block_bytes),
                words::threads(p.parameters.threads)
            )
        };
        format!("Lines over threads, one for each block size. Highest: {}. Lowest: {}.", words(most), words(least))
    }
}

/// Shared by all figures of a section, so that they are comparable.
struct Common {
    across: Across,
    /// Sorted.
    blocks: Vec<u64>,
}

impl Common {
    fn of(grids: &[Grid]) -> Common {
        let all = || grids.iter().flat_map(|g| &g.points).map(|p| &p.parameters);
        let threads: Vec<u32> = all().map(|p| p.threads.max(1)).collect();
        let mut blocks: Vec<u64> = all().map(|p| p.block_bytes).collect();
        blocks.sort_unstable();
        blocks.dedup();
        Common { across: Across::of(&threads), blocks }
    }

    fn look(&self, block_bytes: u64) -> usize {
        self.blocks.binary_search(&block_bytes).unwrap_or_default()
    }
}

/// A logarithmic axis of threads or links.
pub(super) struct Across {
    min: f64,
    max: f64,
}

impl Across {
    pub fn of(threads: &[u32]) -> Across {
        let log = |t: Option<&u32>| f64::from(t.copied().unwrap_or(1)).log2();
        Across { min: log(threads.iter().min()), max: log(threads.iter().max()) }
    }

    pub fn part(&self, threads: u32) -> f64 {
        if self.max > self.min { (f64::from(threads.max(1)).log2() - self.min) / (self.max - self.min) } else { 0.5 }
    }

    pub fn ticks(&self) -> Vec<(f64, String)> {
        let (first, last) = (self.min.ceil() as u32, self.max.floor() as u32);
        let every = (last.saturating_sub(first) / 8 + 1) as usize;
        (first..=last.min(31)).step_by(every).map(|n| (self.part(1 << n), words::short(f64::from(1u32 << n)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::comparable;
    use super::*;

    #[test]
    fn ticks_are_powers_of_two() {
        let labels = |threads: &[u32]| Across::of(threads).ticks().into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(&[1, 2, 4, 8, 16, 32]), ["1", "2", "4", "8", "16", "32"]);
        assert_eq!(labels(&[3, 24]), ["4", "8", "16"]);
        assert!(labels(&[1, u32::MAX]).len() <= 12);
    }

    #[test]
    fn many_are_thinned_evenly() {
        assert_eq!(spread_evenly((0..5).collect(), 10), [0, 1, 2, 3, 4]);
        assert_eq!(spread_evenly((0..11).collect(), 3), [0, 5, 10]);
        assert!(comparable(&[1.0, 4.0]) && !comparable(&[1.0, 4.1]) && comparable(&[]));
    }
}

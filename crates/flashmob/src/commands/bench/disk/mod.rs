//! `flashmob bench disk`: its arguments and its exit status.

pub mod job;
mod preset;
pub mod settings;
mod subject;
mod table;
mod whole;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flashmob_bench::disk::{self, Plan, Subject};
use flashmob_host::device;
use flashmob_results::disk::{Disk, Point};
use flashmob_results::event;
use flashmob_results::{Document, Measurement};

pub use preset::{Preset, scale};
use settings::{Lines, SIZE_BYTES_DEFAULT, Settings};

use crate::commands::result_args::ResultArgs;
use crate::commands::tell::{self, Begun, STATUS_ERRORS, STATUS_INTERRUPTED};

/// Measure one device: read or write a file on it, in any order, size and number of threads.
///
/// Creates the file if it does not exist, with allocated blocks of random bytes. Conditions that make a result
/// doubtful (reads served from memory, a hot device, other users of the disk, too few requests) are reported beside
/// it. `flashmob report` draws the results of several devices on one page.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob bench disk /data/bench --block-size 1,4k,16k --threads 1,2,4,8
  flashmob bench disk /data/bench --preset p1 --scale 0.1 --save tablet.json
  flashmob bench disk --preset p1 --model nexus7-emmc --save model.json      # uses no disk
  flashmob bench disk --preset p3-scheduler --model nexus7-emmc --commands   # separates upward and downward steps
  flashmob bench disk /data/bench --write --sync fdatasync --threads 1,4
  flashmob report tablet.json model.json -o report.html

A job file takes the same options as keys:
  file = \"/data/bench\"
  block-size = [1, \"4k\"]
  threads = [1, 2, 4]
The command line overrides the job file, which overrides the preset.

Exit status: 0 done, 1 failed, 2 wrong arguments, 3 requests failed, 130 stopped by Ctrl-C (the result so far is
printed and saved).")]
pub struct DiskArgs {
    /// File to read or write; created if it does not exist. A block device can be read.
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// Run a paper's measurement.
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Shorten the preset: fraction of its size and of its reads, time and repetitions.
    #[arg(long, default_value = "1", value_name = "PART", value_parser = preset::scale, requires = "preset")]
    scale: f64,
    /// Read settings from this TOML file.
    #[arg(long, value_name = "FILE")]
    job: Option<PathBuf>,
    /// Use a device model instead of a disk (nexus7-emmc, emmc, ufs, sdcard, hdd, nvme). The result is marked as modelled.
    #[arg(long, value_name = "PROFILE")]
    model: Option<String>,
    /// Also report the commands that the device receives, by address step from the previous one, with their service
    /// times (P3, Fig 4). For a disk this reads kernel events and needs root and tracefs.
    #[arg(long)]
    commands: bool,
    /// Allow --write to overwrite a file that this benchmark did not create.
    #[arg(long)]
    allow_overwrite: bool,
    /// Remove the file at the end, if the benchmark created it.
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    result: ResultArgs,
}

/// All settings, from all sources.
struct Job {
    file: Option<PathBuf>,
    model: Option<String>,
    label: Option<String>,
    settings: Settings,
    /// The preset's settings that were changed.
    changed: Vec<&'static str>,
}

impl DiskArgs {
    fn job(&self) -> anyhow::Result<Job> {
        let job = match &self.job {
            Some(path) => job::load(path)?,
            None => Lines { settings: Settings::default(), file: None, model: None, label: None },
        };
        let (file, model) = match (&self.file, &self.model) {
            // The command line overrides the job file.
            (None, None) => (job.file, job.model),
            said => (said.0.clone(), said.1.clone()),
        };
        let preset = self.preset.map_or_else(Settings::default, |preset| preset.settings(self.scale, model.is_some()));
        let settings = self.settings.clone().over(job.settings).over(preset.clone());
        let changed = if self.preset.is_some() { settings.differing(&preset) } else { Vec::new() };
        Ok(Job { file, model, label: self.result.label.clone().or(job.label), settings, changed })
    }
}

/// Measures according to the arguments.
pub fn run(args: &DiskArgs) -> anyhow::Result<ExitCode> {
    let begun = Begun::now();
    let job = args.job()?;
    let grid = job.settings.grid()?;
    args.result.check(job.file.as_deref())?;
    let cancel = tell::on_signal()?;
    let mut teller = args.result.teller(table::render);
    let seed = job.settings.seed();

    let points = |size_bytes| grid.points(size_bytes).map_err(subject::refused);
    let size_bytes = job.settings.size;
    let (subject, made) = match (&job.file, &job.model) {
        (Some(_), Some(_)) => bail_value!("a file and a model were given: give only one; a model uses no disk"),
        (None, None) => bail_value!("nothing to measure: name a file, or a model with --model"),
        (None, Some(profile)) => {
            // Points are checked first.
            let size_bytes = size_bytes.unwrap_or(SIZE_BYTES_DEFAULT);
            points(size_bytes)?;
            (subject::model(profile, size_bytes, seed, &grid)?, false)
        }
        (Some(path), None) => {
            let request = subject::Request {
                path,
                size_bytes,
                operation: grid.operation,
                allow_overwrite: args.allow_overwrite,
                seed,
            };
            match subject::file(&request, |size_bytes| points(size_bytes).map(drop), &cancel, &mut teller)? {
                Some(ready) => ready,
                None => {
                    log::info!("stopped before anything was measured; the incomplete file was removed");
                    return Ok(ExitCode::from(STATUS_INTERRUPTED));
                }
            }
        }
    };
    let plan =
        Plan { points: points(subject.size_bytes())?, repeat: job.settings.repeat(), seed, commands: args.commands };
    teller.begin(plan.points.len(), plan.repeat, seed);
    let outcome = disk::run(&subject, &plan, begun.at, &cancel, &mut |event| match event {
        disk::Event::Progress { fraction } => teller.progress(fraction),
        disk::Event::Repetition { parameters, round, repetition } => teller.tell(&event::Event::Repetition {
            round,
            parameters: Box::new(parameters.clone()),
            repetition: Box::new(repetition.clone()),
        }),
    });
    if args.remove
        && let Subject::File(file) = &subject
    {
        remove(file, made);
    }
    let swept = outcome?;
    let measured =
        Disk { file: subject::file_record(&subject), model: subject::model_record(&subject), points: swept.points };
    let mut document = Document {
        interrupted: swept.interrupted,
        label: job.label,
        preset: args.preset.map(Preset::name),
        scale: args.scale,
        seed,
        ..begun.document(device::describe(), Measurement::Disk(measured), swept.warnings)
    };
    whole::add_warnings(&mut document, job.changed, job.settings.size);
    args.result.save(&document)?;
    teller.end(&document)?;
    if let Some(failure) = swept.failure {
        return Err(failure.into());
    }
    Ok(status(document.disk().map_or(&[], |disk| &disk.points), document.interrupted))
}

fn remove(file: &disk::FileSubject, made: bool) {
    if !file.made_by_benchmark {
        log::warn!("{} was not created by this benchmark: not removed", file.path.display());
    } else if let Err(error) = file.remove() {
        log::warn!("{} cannot be removed: {error}", file.path.display());
    } else if !made {
        log::info!("removed {}, created by an earlier run", file.path.display());
    }
}

fn status(points: &[Point], interrupted: bool) -> ExitCode {
    if interrupted {
        ExitCode::from(STATUS_INTERRUPTED)
    } else if points.iter().flat_map(|p| &p.repetitions).any(|r| r.errors > 0) {
        ExitCode::from(STATUS_ERRORS)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use flashmob_results::disk::{Cache, Engine, File, Operation, Parameters, Pattern};

    use super::*;

    #[test]
    fn a_small_range_of_a_large_file_is_small() {
        let disk = |cache, range_bytes| Disk {
            file: Some(File {
                path: "f".into(),
                size_bytes: 100 << 30,
                made_by_benchmark: true,
                place: Default::default(),
            }),
            model: None,
            points: vec![Point::new(
                Parameters {
                    operation: Operation::Read,
                    pattern: Pattern::Random,
                    block_bytes: 1,
                    threads: 1,
                    depth: 1,
                    engine: Engine::Pread,
                    cache,
                    sync: None,
                    scheduler: None,
                    range_bytes,
                    requests: Some(1),
                    time_s: None,
                },
                vec![],
            )],
        };
        let message = |cache, range_bytes| whole::small_file(&disk(cache, range_bytes), 8 << 30).map(|w| w.message);
        let text = message(Cache::Cold, 128 << 20).unwrap();
        assert!(text.starts_with("the range (128 MiB)") && text.contains("--range"), "{text}");
        assert_eq!((message(Cache::Cold, 100 << 30), message(Cache::Warm, 1 << 20)), (None, None));
    }
}

//! Preparing what is measured: opening or making the file, setting up the model.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use flashmob_bench::bench_file::{self, BenchFileError};
use flashmob_bench::disk::plan::Grid;
use flashmob_bench::disk::{DiskError, FileSubject, ModelSubject, Scheduler, Subject};
use flashmob_host::place;
use flashmob_results::disk::{Engine, File, Model, Operation};

use super::settings::SIZE_BYTES_DEFAULT;
use crate::commands::WrongValue;
use crate::commands::tell::Teller;

/// The requested file.
pub struct Request<'a> {
    pub path: &'a Path,
    /// Its size if it must be made.
    pub size_bytes: Option<u64>,
    pub operation: Operation,
    pub allow_overwrite: bool,
    /// The seed of its content.
    pub seed: u64,
}

/// Opens the file or makes it; `check` checks all other arguments before anything is made. The second value is true if it was made
/// now; `None` if that was cancelled.
pub fn file(
    request: &Request<'_>,
    check: impl FnOnce(u64) -> anyhow::Result<()>,
    cancel: &AtomicBool,
    teller: &mut Teller,
) -> anyhow::Result<Option<(Subject, bool)>> {
    let path = request.path;
    // A dangling link exists as well.
    let is_missing = path.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    if is_missing {
        let size_bytes = request.size_bytes.unwrap_or(SIZE_BYTES_DEFAULT);
        check(size_bytes)?;
        let made = bench_file::make(
            path,
            size_bytes,
            request.seed,
            |progress| teller.making(progress.done, progress.total),
            cancel,
        );
        match made {
            Ok(_) => {}
            Err(BenchFileError::Cancelled { .. }) => return Ok(None),
            Err(error @ BenchFileError::TooSmall(_)) => bail_value!("{error}"),
            Err(error) => return Err(error.into()),
        }
        let subject = opened(request)?;
        return Ok(Some((subject, true)));
    }
    let subject = opened(request)?;
    check(subject.size_bytes())?;
    if let Some(wanted) = request.size_bytes.filter(|&wanted| wanted != subject.size_bytes()) {
        let (is, wanted) = (flashmob_core::units::Bytes(subject.size_bytes()), flashmob_core::units::Bytes(wanted));
        log::warn!("{} already exists with {is}, not {wanted}: using it unchanged", path.display());
    }
    Ok(Some((subject, false)))
}

fn opened(request: &Request<'_>) -> anyhow::Result<Subject> {
    let path = request.path;
    let opened = match request.operation {
        Operation::Read => bench_file::open_for_reading(path),
        Operation::Write => bench_file::open_for_writing(path, request.allow_overwrite),
    };
    let opened = opened.map_err(|error| match error {
        BenchFileError::NotOurs { .. } => {
            anyhow::anyhow!("{error}: add --allow-overwrite")
        }
        error => error.into(),
    })?;
    let inode = FileSubject::inode_of(&opened.file.metadata()?);
    let located = place::locate(path);
    Ok(Subject::File(FileSubject {
        path: path.into(),
        size_bytes: opened.size_bytes,
        made_by_benchmark: opened.header.is_some(),
        place: located.place,
        disk: located.disk,
        inode,
    }))
}

/// An invalid combination of options, or an unknown model, is a wrong value.
pub fn refused(error: DiskError) -> anyhow::Error {
    match error {
        DiskError::Parameters(_) | DiskError::Model(_) => WrongValue(error.to_string()).into(),
        error => error.into(),
    }
}

/// The model of that name, for these settings. A model has all of its schedulers everywhere, so an unknown one is a wrong value.
pub fn model(profile: &str, size_bytes: u64, seed: u64, grid: &Grid) -> anyhow::Result<Subject> {
    ensure_value!(
        grid.engine == Engine::Pread,
        "a model serves one request per thread, like pread; use --threads, and leave out --engine io_uring and --depth"
    );
    for name in &grid.schedulers {
        if let Err(error) = name.parse::<Scheduler>() {
            bail_value!("--scheduler: {error}");
        }
    }
    Ok(Subject::Model(ModelSubject::new(profile, size_bytes, seed).map_err(refused)?))
}

/// The file, in the format of results.
pub fn file_record(subject: &Subject) -> Option<File> {
    match subject {
        Subject::File(file) => Some(File {
            path: file.path.display().to_string(),
            size_bytes: file.size_bytes,
            made_by_benchmark: file.made_by_benchmark,
            place: file.place.clone(),
        }),
        Subject::Model(_) => None,
    }
}

/// The model, in the format of results.
pub fn model_record(subject: &Subject) -> Option<Model> {
    match subject {
        Subject::File(_) => None,
        Subject::Model(model) => Some(Model {
            profile: model.profile.name.into(),
            description: model.profile.description.into(),
            slots: model.profile.slots,
            size_bytes: model.size_bytes,
        }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::settings::Lines;
    use super::*;

    fn of(profile: &str, line: &str) -> anyhow::Result<Subject> {
        let settings = Lines::try_parse_from(line.split_whitespace()).unwrap().settings;
        model(profile, 1 << 20, 1, &settings.grid().unwrap())
    }

    fn refusal(profile: &str, line: &str) -> String {
        let error = of(profile, line).unwrap_err();
        assert!(error.is::<WrongValue>(), "{error}");
        error.to_string()
    }

    #[test]
    fn a_model_is_not_said_to_keep_more_requests_than_it_does() {
        assert!(of("nvme", "").is_ok());
        let refused = refusal("nvme", "--engine io_uring");
        assert!(refused.contains("--threads"), "{refused}");
    }

    #[test]
    fn a_model_does_not_take_another_scheduler_for_an_unknown_one() {
        assert!(of("nexus7-emmc", "--scheduler none,mq-deadline,bfq,deadline").is_ok());
        let refused = refusal("nexus7-emmc", "--scheduler none,cfq");
        assert!(refused.contains("it knows none, mq-deadline, bfq; kernels since 5.0 have no CFQ"), "{refused}");
        assert!(!refused.contains("did you mean"), "{refused}");
        assert!(refusal("nexus7-emmc", "--scheduler bqf").contains("did you mean 'bfq'?"));
        assert!(refusal("nexus7-emmc", "--scheduler kyber").contains("it knows none"));
    }

    #[test]
    fn an_unknown_model_and_an_impossible_combination_are_wrong_values() {
        assert!(refusal("nope", "").contains("there is no modelled device 'nope'"));
        let grid = Lines::try_parse_from(["--depth", "2"]).unwrap().settings.grid().unwrap();
        let error = refused(grid.points(1 << 20).unwrap_err());
        assert!(error.is::<WrongValue>() && error.to_string().contains("--engine io_uring"), "{error}");
    }
}

//! The page cache before and after a repetition.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use flashmob_results::disk::{Cache, Parameters};
use flashmob_results::warning::{Code, Warning};

use super::error::DiskError;
use super::subject::Opened;
use super::sweep::Subject;
use flashmob_host::cache;

/// Largest acceptable fraction of a file without blocks on the disk.
const MISSING_FRACTION_MAX: f64 = 0.01;

/// Prepares the page cache for a point, with warnings where that is not possible.
pub(super) fn prepare(
    subject: &Subject,
    opened: &Opened<'_>,
    parameters: &Parameters,
) -> Result<Vec<Warning>, DiskError> {
    let mut warnings = Vec::new();
    let failed = |doing: &'static str, source: std::io::Error| {
        let path = match subject {
            Subject::File(file) => file.path.clone(),
            Subject::Model(_) => "the model".into(),
        };
        DiskError::File { path, doing, source }
    };
    let range = 0..parameters.range_bytes;
    if let Opened::File(file) = opened
        && parameters.cache != Cache::Warm
        && let Some(percent) = missing_percent(file)
    {
        warnings.push(Warning::new(
            Code::ServedFromCache,
            format!(
                "{percent:.0} % of the file have no blocks on the disk (holes, or compressed): such reads are answered without it; \
                 let this benchmark make a file"
            ),
        ));
    }
    match (opened, parameters.cache) {
        (Opened::Model(disk), cache) => {
            disk.reset_counters();
            if cache != Cache::Warm {
                disk.drop_cache();
            }
        }
        (Opened::File(file), Cache::Direct) => {
            // Some kernels allow direct I/O on tmpfs.
            if let Some(text) = cache::no_disk(file) {
                warnings.push(Warning::new(Code::ServedFromCache, text));
            }
        }
        (Opened::File(file), Cache::Cold) => {
            let dropped =
                cache::drop_range(file, range).map_err(|e| failed("its cached pages cannot be dropped", e))?;
            if let Some(text) = dropped.remedy {
                warnings.push(Warning::new(Code::CacheNotDropped, format!("the page cache was not emptied: {text}")));
            }
        }
        (Opened::File(file), Cache::Warm) => {
            cache::warm(file, range).map_err(|e| failed("it cannot be read into memory", e))?;
        }
    }
    Ok(warnings)
}

/// Bytes of the range in memory; `None` if not known.
pub(super) fn cached_bytes(opened: &Opened<'_>, range: &Range<u64>) -> Option<u64> {
    match opened {
        Opened::File(file) => cache::resident_bytes(file, range.clone()).ok().flatten(),
        Opened::Model(disk) => Some(disk.cached_bytes()),
    }
}

/// The percentage of a file without blocks on its disk, if that is worth a warning.
fn missing_percent(file: &File) -> Option<f64> {
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && cache::no_disk(file).is_none())?;
    // The unit is fixed, whatever the file system's block size.
    let (size, has) = (metadata.len() as f64, metadata.blocks() as f64 * 512.0);
    (has < size * (1.0 - MISSING_FRACTION_MAX)).then(|| 100.0 * (1.0 - has / size))
}

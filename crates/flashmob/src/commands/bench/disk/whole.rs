//! Reasons to doubt a result as a whole; single points have their own.

use flashmob_core::units::Bytes;
use flashmob_host::emulation;
use flashmob_results::disk::{Cache, Disk};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};

/// Inserts warnings about the whole result before the existing ones. `changed` names the differences from the preset, `wanted_bytes` is the
/// requested size.
pub fn add_warnings(document: &mut Document, mut changed: Vec<&'static str>, wanted_bytes: Option<u64>) {
    let Measurement::Disk(disk) = &document.measurement else { return };
    let mut warnings: Vec<Warning> = emulation::doubt(&document.device).into_iter().collect();
    if let Some(model) = &disk.model {
        let text = format!("modelled: these figures come from the model '{}', not from a device", model.profile);
        warnings.push(Warning::new(Code::Modelled, text));
    }
    let size_bytes = disk.file.as_ref().map(|file| file.size_bytes);
    if document.preset.is_some() && size_bytes.is_some_and(|is| wanted_bytes.is_some_and(|wanted| wanted != is)) {
        changed.push("the file's size");
    }
    if !changed.is_empty() {
        let text = format!(
            "differs from the preset: {} changed; leave these options out to compare with the paper",
            changed.join(", ")
        );
        warnings.push(Warning::new(Code::Changed, text));
    }
    if document.scale < 1.0 {
        let text = format!(
            "the preset was shortened to {} of its {}work; repeat without --scale to compare with the paper",
            document.scale,
            if disk.model.is_some() { "" } else { "size and " }
        );
        warnings.push(Warning::new(Code::Scaled, text));
    }
    if document.interrupted {
        warnings.push(Warning::new(Code::Interrupted, "stopped early: points or repetitions are missing"));
    }
    if let Some(memory_bytes) = document.device.memory_bytes {
        warnings.extend(small_file(disk, memory_bytes));
    }
    warnings.append(&mut document.warnings);
    document.warnings = warnings;
}

/// The warning that caches below the page cache hold the file.
pub(super) fn small_file(disk: &Disk, memory_bytes: u64) -> Option<Warning> {
    let file = disk.file.as_ref()?;
    let cold = disk.points.iter().map(|p| &p.parameters).filter(|p| p.cache == Cache::Cold);
    let range_bytes = cold.map(|p| p.range_bytes).min().filter(|&bytes| bytes < memory_bytes)?;
    let (what, larger) = if range_bytes < file.size_bytes { ("the range", "--range") } else { ("the file", "--size") };
    let (size, memory) = (Bytes(range_bytes), Bytes(memory_bytes));
    let text = format!(
        "{what} ({size}) is smaller than memory ({memory}): the page cache or a cache below it may serve reads; use a larger {larger}"
    );
    Some(Warning::new(Code::SmallFile, text))
}

//! Common to the claims about INSERTs: the runs that they use, and what is missing if one cannot be judged.
//!
//! P5's SQLite had its defaults: journal mode DELETE, synchronous FULL, each INSERT a transaction of its own. Only such runs are judged; the others are for
//! the comparison of settings.

use flashmob_results::trace::{Layer, Role, Run};

use super::{Finding, Judged, Missing};
use crate::entry::Entry;
use crate::inserts;
use crate::words;

/// With fewer, the begin of a run would dominate.
const INSERTS_MIN: u64 = 10;

/// A run as P5 made it.
#[derive(Clone, Copy)]
pub(super) struct Insert<'a> {
    pub at: usize,
    pub entry: &'a Entry,
    pub run: &'a Run,
}

/// Runs as P5 made them.
pub(super) fn like_p5(entries: &[Entry]) -> Vec<Insert<'_>> {
    let mut all = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let runs = entry.trace().into_iter().flat_map(|trace| &trace.runs);
        all.extend(runs.filter(|run| is_like_p5(run)).map(|run| Insert { at, entry, run }));
    }
    all
}

fn is_like_p5(run: &Run) -> bool {
    inserts::has_setting(run, inserts::MODE, inserts::LEVEL)
        && run.operations.count >= INSERTS_MIN
        && run.operations.per_second.is_finite()
        && run.operations.per_second > 0.0
}

/// Judges every run as P5 made it.
pub(super) fn each(entries: &[Entry], of: fn(&Insert) -> Result<Finding, Missing>) -> Judged {
    let mut judged = Judged::default();
    let all = like_p5(entries);
    for at in (0..entries.len()).filter(|at| entries[*at].trace().is_some()) {
        let own = all.iter().filter(|insert| insert.at == at);
        judged.add(at, own.map(|insert| (inserts::system(insert.run), of(insert))), &nothing());
    }
    judged
}

/// Judges the systems that were measured on equal hardware, where there are two or more.
pub(super) fn each_hardware(entries: &[Entry], of: fn(&[Insert]) -> Result<Finding, Missing>) -> Judged {
    let mut judged = Judged::default();
    let all = like_p5(entries);
    let mut groups: Vec<Vec<Insert>> = Vec::new();
    for insert in &all {
        match groups.iter_mut().find(|group| hardware(group[0].entry) == hardware(insert.entry)) {
            Some(group) if group.iter().any(|other| same_system(other, insert)) => {}
            Some(group) => group.push(*insert),
            None => groups.push(vec![*insert]),
        }
    }
    for group in groups {
        let alone = || Err("one system alone was traced on this hardware".into());
        match if group.len() > 1 { of(&group) } else { alone() } {
            Ok(finding) => judged.findings.push(finding),
            Err(what) => judged.missing.push((group[0].at, what)),
        }
    }
    let is_told = |at: &usize| all.iter().any(|insert| insert.at == *at);
    let silent = (0..entries.len()).filter(|at| entries[*at].trace().is_some() && !is_told(at));
    judged.missing.extend(silent.map(|at| (at, nothing().into())));
    judged
}

/// Equal for comparable hardware.
fn hardware(entry: &Entry) -> (Option<&str>, Option<&str>, u32) {
    let device = &entry.document.device;
    let what = device.cpu.as_deref().or(device.model.as_deref());
    (what, device.architecture.as_deref(), device.cpus)
}

fn same_system(a: &Insert, b: &Insert) -> bool {
    let of = |insert: &Insert| {
        let s = &insert.run.system;
        (insert.entry.document.device.system.clone(), s.kernel.clone(), inserts::system(insert.run))
    };
    of(a) == of(b)
}

fn nothing() -> String {
    format!("no {INSERTS_MIN} INSERTs or more were traced with journal mode DELETE and synchronous FULL")
}

/// Writes of each insert to files of this role, as system calls or else as SQLite made them, and which of the two told.
pub(super) fn writes(run: &Run, role: Role) -> Option<(f64, Layer)> {
    let has = |layer: Layer| run.files.iter().any(|row| row.layer == layer && inserts::is_write(&row.work));
    let layer = [Layer::SystemCall, Layer::Sqlite].into_iter().find(|layer| has(*layer))?;
    let rows = run.files.iter().filter(|row| row.layer == layer && row.role == role && inserts::is_write(&row.work));
    Some((rows.map(|row| row.count as f64).sum::<f64>() / run.operations.count as f64, layer))
}

/// Commands of the driver for files of this role, for each insert.
pub(super) fn commands(run: &Run, role: Role) -> Option<f64> {
    run.files.iter().any(|row| row.layer == Layer::Driver).then(|| {
        let rows = run.files.iter().filter(|row| row.layer == Layer::Driver && row.role == role);
        rows.map(|row| row.count as f64).sum::<f64>() / run.operations.count as f64
    })
}

/// `ext4, 512/s`.
pub(super) fn told(insert: &Insert, rate: f64, several: bool) -> String {
    let system = inserts::system(insert.run);
    let name = match several {
        true if insert.entry.name == system => system,
        true => format!("{} ({system})", insert.entry.name),
        false => system,
    };
    format!("{name} {}/s", words::number(rate))
}

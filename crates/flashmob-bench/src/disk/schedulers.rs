//! Availability of schedulers, and the fallback.

use flashmob_results::disk::Parameters;
use flashmob_results::warning::{Code, Warning};

use super::Scheduler;
use super::sweep::Subject;
use flashmob_host::scheduler::SchedulerGuard;

/// The schedulers of `points` that are not available, each with the reason. Each is tried once.
pub(super) fn refused(subject: &Subject, points: &[Parameters]) -> Vec<(String, String)> {
    let mut wanted: Vec<String> = points.iter().filter_map(|p| p.scheduler.clone()).collect();
    wanted.sort();
    wanted.dedup();
    let refusal = |name: &String| match subject {
        Subject::Model(_) => name.parse::<Scheduler>().err().map(|error| error.to_string()),
        Subject::File(file) => {
            let tried = SchedulerGuard::set(file.disk.as_ref(), name).and_then(SchedulerGuard::restore);
            tried.err().map(|error| error.to_string())
        }
    };
    wanted.iter().filter_map(|name| Some((name.clone(), refusal(name)?))).collect()
}

/// Removes the points whose scheduler is not available; if no others remain, they are measured once with the current one. Returns warnings.
pub(super) fn go_on_without(
    refused: &[(String, String)],
    subject: &Subject,
    points: &mut Vec<Parameters>,
) -> Vec<Warning> {
    let Some((_, first)) = refused.first() else { return Vec::new() };
    let warning = |text: String| Warning::new(Code::Scheduler, text);
    let stays = |p: &Parameters| p.scheduler.as_ref().is_none_or(|s| refused.iter().all(|(name, _)| name != s));
    if points.iter().any(stays) {
        points.retain(stays);
        return refused.iter().map(|(name, why)| warning(format!("not measured with {name}: {why}"))).collect();
    }
    let mut kept: Vec<Parameters> = Vec::new();
    for point in points.drain(..).map(|p| Parameters { scheduler: None, ..p }) {
        if !kept.contains(&point) {
            kept.push(point);
        }
    }
    *points = kept;
    let own = match subject {
        Subject::File(file) => file.place.scheduler.as_deref().unwrap_or("unknown"),
        Subject::Model(_) => "none",
    };
    vec![warning(format!("measured with the current scheduler ({own}) alone: {first}"))]
}

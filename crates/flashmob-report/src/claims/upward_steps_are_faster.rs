//! C13: a command whose address lies above the last one is served faster than one below; DEADLINE does better because more of its steps are upward.
//!
//! Looked at are random reads (`random`, `shuffle`, `rand`) whose commands were seen: what a device does with sequential ones is readahead. With 100
//! steps or more each way the median service time of steps downward is at least 1.1 times that of steps upward, as "differ" means everywhere here; where
//! several schedulers were measured with otherwise equal parameters, under each of them. And mq-deadline's share of steps upward lies above every
//! other scheduler's, by a twentieth or more: that is several times what chance does to the share of some hundred steps. A single
//! scheduler, or none that was chosen, is judged by the times alone, and that is said.

use flashmob_results::disk::Point;
use flashmob_results::trace::{Commands, Steps};

use super::{Definition, Finding, each_set, on_phone, sets};
use crate::stats::DIFFERENCE_MIN;
use crate::words;

const STEPS_MIN: u64 = 100;
const SHARE_APART_MIN: f64 = 0.05;

pub(super) const CLAIM: Definition = Definition {
    id: "C13",
    source: "P3, Fig. 4",
    words: "A command whose address lies above the one before is served faster than one below; DEADLINE does better because more of its steps are upward.",
    short: "Steps upward are served faster",
    criterion: "Random reads, 100 steps or more each way: the median service time downward is 1.1 times that upward or more, under every scheduler that was measured; and mq-deadline's share of steps upward is 5 points or more above every other's.",
    paper: "a cloud of points for each scheduler (no figures in the text)",
    command: "flashmob bench disk FILE --preset p3-scheduler --commands",
    measured_on: " as root, on a disk with schedulers",
    on_phone: on_phone::P3_AS_ROOT,
    judge: |entries| each_set(entries, sets::stepping, judged),
    ..Definition::DEVICE
};

/// A scheduler with its steps.
struct Seen<'a> {
    name: String,
    is_deadline: bool,
    forward: Steps,
    backward: Steps,
    share: f64,
    point: &'a Point,
}

fn seen(point: &Point) -> Option<Seen<'_>> {
    let commands: &Commands = point.commands.as_ref()?;
    let enough =
        |steps: Option<Steps>| steps.filter(|s| s.count >= STEPS_MIN && s.p50_us.is_finite() && s.p50_us > 0.0);
    let name = point.parameters.scheduler.as_deref();
    Some(Seen {
        // Empty if none was chosen.
        name: name.map_or_else(String::new, |name| words::plain(name, 24)),
        is_deadline: name.is_some_and(|name| sets::DEADLINE.contains(&name)),
        forward: enough(commands.forward)?,
        backward: enough(commands.backward)?,
        share: commands.upward_fraction()?,
        point,
    })
}

fn judged(entry: usize, group: &Vec<&Point>) -> Option<(String, Finding)> {
    let all: Vec<Seen> = group.iter().filter_map(|point| seen(point)).collect();
    if all.is_empty() {
        return None;
    }
    let is_slower = |s: &Seen| s.backward.p50_us >= (1.0 + DIFFERENCE_MIN) * s.forward.p50_us;
    let equal: Vec<String> = all.iter().filter(|s| !is_slower(s)).map(|s| s.name.clone()).collect();
    let time = |us: f64| words::time_ns(us * 1e3);
    let each: Vec<String> = all
        .iter()
        .map(|s| {
            format!(
                "{}{}{} upward, {} downward ({} times; {} of steps upward)",
                s.name,
                if s.name.is_empty() { "" } else { " " },
                time(s.forward.p50_us),
                time(s.backward.p50_us),
                words::number(s.backward.p50_us / s.forward.p50_us),
                words::percent(s.share),
            )
        })
        .collect();
    let mut numbers = each.join("; ");
    if !equal.is_empty() {
        let named: Vec<String> = equal.iter().filter(|name| !name.is_empty()).cloned().collect();
        let with = if named.is_empty() { String::new() } else { format!(" with {}", words::list(&named)) };
        numbers.push_str(&format!("; not 1.1 times{with}"));
    }
    let (shares_hold, told) = shares(&all);
    numbers.push_str(&told);
    let points: Vec<&Point> = all.iter().map(|s| s.point).collect();
    let p = &group[0].parameters;
    let (block, range) = (words::bytes(p.block_bytes), words::bytes(p.range_bytes));
    let setting = format!("{}, {block}, {}, range {range}", p.pattern, words::threads(p.threads));
    Some((setting, Finding::of(entry, equal.is_empty() && shares_hold, numbers, &points)))
}

/// Whether mq-deadline goes upward more than the others, and what to say of it.
fn shares(all: &[Seen]) -> (bool, String) {
    let deadline = all.iter().find(|s| s.is_deadline);
    let others: Vec<&Seen> = all.iter().filter(|s| !s.is_deadline).collect();
    let (Some(deadline), false) = (deadline, others.is_empty()) else {
        if all.iter().all(|s| s.point.parameters.scheduler.is_none()) {
            return (true, String::new());
        }
        return (
            true,
            ". Shares of schedulers were not compared: mq-deadline and another one were not both seen".into(),
        );
    };
    let unbeaten: Vec<String> =
        others.iter().filter(|s| deadline.share < s.share + SHARE_APART_MIN).map(|s| s.name.clone()).collect();
    if unbeaten.is_empty() {
        (
            true,
            format!(". mq-deadline has {} of its steps upward, more than every other", words::percent(deadline.share)),
        )
    } else {
        let text = format!(
            ". mq-deadline's share of {} is not 5 points above that of {}",
            words::percent(deadline.share),
            words::list(&unbeaten)
        );
        (false, text)
    }
}

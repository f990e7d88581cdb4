//! What holds a node back, in words.

use flashmob_core::condition::LastPause;
use flashmob_core::diagnosis::{Kind, Trouble};

use super::{Cause, Finding, Severity};

/// A trouble of a node. `pause`: the last one that the node itself reported, if that was lately. `client`: the one with most requests in hand.
#[must_use]
pub fn of_trouble(trouble: &Trouble, pause: Option<&LastPause>, client: Option<&str>) -> Finding {
    let Trouble { kind, value, others, share, .. } = *trouble;
    let of_time = share.map_or(String::new(), |share| format!(", {:.0} % of the time of a piece", 100.0 * share));
    let (cause, found, remedy) = match kind {
        Kind::Pauses => {
            let found = match pause {
                Some(pause) => format!("it {}", pause.sentence()),
                None => format!("it stands still, for {} at a time", time(value)),
            };
            (Cause::Pause, found, "keep the device awake: exempt the app from battery optimisation, plug it in")
        }
        Kind::IsSilent => (
            Cause::Pause,
            format!("it has answered nothing for {}", time(value)),
            "see whether the device sleeps, is out of reach, or its flash stands still",
        ),
        Kind::Loses => (
            Cause::Loss,
            format!(
                "packets are lost: {} of its segments are sent again or come behind a gap, {} of those of the others",
                percent(value),
                percent(others)
            ),
            "move it nearer to the access point, or change the channel",
        ),
        Kind::LacksProcessor => (
            Cause::Processor,
            format!("it waits for a processor for {} of the time, the others for {}", percent(value), percent(others)),
            "end other programs there",
        ),
        Kind::HasSlowProcessor => (
            Cause::Processor,
            format!(
                "its processor is busy for {} of the time, those of the others for {}",
                percent(value),
                percent(others)
            ),
            "let it cool, turn power saving off",
        ),
        Kind::IsFar => (
            Cause::Delay,
            format!(
                "half of its pieces take {} or more in the network, those of the others {}{of_time}",
                time(value),
                time(others)
            ),
            "move it nearer to the access point, or change the channel; wake its radio (keep_awake)",
        ),
        Kind::HasSlowFlash => (
            Cause::Flash,
            format!("its flash takes {} for a piece, those of the others {}{of_time}", time(value), time(others)),
            "examine it there with `flashmob doctor`: scheduler, free space, wear; replace it if nothing helps",
        ),
        Kind::HasSmallCache => (
            Cause::Cache,
            format!(
                "its page cache answers {} of what is asked, those of the others {}{of_time}",
                percent(value),
                percent(others)
            ),
            "free memory there, unless what is read there is new or larger than its memory",
        ),
        Kind::IsFlooded => (
            Cause::Queue,
            format!(
                "{} has {value:.0} of {:.0} requests in hand, and fills its queue",
                client.map_or("one client".to_string(), |client| format!("client {client}")),
                value + others
            ),
            "let that client have fewer outstanding",
        ),
    };
    let finding = Finding::new(cause, Severity::Wrong, found, remedy);
    if matches!(kind, Kind::HasSlowFlash) { finding.with_command("flashmob doctor") } else { finding }
}

fn percent(permille: f64) -> String {
    if permille < 100.0 { format!("{:.1} %", permille / 10.0) } else { format!("{:.0} %", permille / 10.0) }
}

fn time(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} us"),
        ..1e4 => format!("{:.1} ms", us / 1e3),
        ..1e6 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

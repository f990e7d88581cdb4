//! The I/O scheduler of the data's disk.
//!
//! P3 found DEADLINE ahead of CFQ and NOOP on flash: it sends commands in ascending order and does not wait. BFQ, CFQ's successor, and CFQ
//! itself keep a disk idle for some milliseconds when a process's queue is empty, in the hope of a neighbour; on flash and on virtual disks
//! there is no way to save. `none` is well too: a node sorts by itself what it has in hand.

use super::{Finding, without_data};
use crate::change::{Change, Place};
use crate::view::View;

/// They wait for neighbours, which pays only where an arm has to move.
const WAITING: [&str; 2] = ["bfq", "cfq"];
/// What takes their place, the best first.
const BETTER: [&str; 5] = ["mq-deadline", "deadline", "none", "noop", "kyber"];
/// Disks that another system makes up, which has a scheduler of its own; the kernel's own word for whether they turn means nothing.
const VIRTUAL: [&str; 7] = ["vd", "xvd", "loop", "nbd", "zd", "drbd", "rbd"];
/// Disks that are flash, whatever else they say.
const FLASH: [&str; 3] = ["mmcblk", "nvme", "mtdblock"];

pub(super) fn look(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let Some(disk) = &data.located.disk else {
        return Finding::not_applicable("the data lies on no single disk with a scheduler of its own");
    };
    let (current, offered) = disk.schedulers();
    let Some(current) = current else {
        return Finding::not_applicable(format!("{} has no scheduler of its own", disk.name));
    };
    let name = &disk.name;
    let found = format!("{name} has the scheduler {current}");
    if !WAITING.contains(&current.as_str()) {
        return Finding::well(found);
    }
    let begins = |prefixes: &[&str]| {
        prefixes.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
    };
    let turns = if begins(&VIRTUAL) || begins(&FLASH) { Some(false) } else { data.located.place.rotational };
    match turns {
        Some(true) => return Finding::well(format!("{found}, and it turns")),
        None => {
            return Finding::unknown(format!(
                "{found}, which is wrong if it is flash, and well if it turns; it does not say which"
            ))
            .with_advice("compare: flashmob bench disk --scheduler all");
        }
        Some(false) => {}
    }
    let Some(better) = BETTER.into_iter().find(|better| offered.iter().any(|has| has == better)) else {
        return Finding::well(format!("{found}, and this kernel offers nothing better"));
    };
    let idle = view.number::<u64>(&format!("sys/block/{}/queue/iosched/slice_idle", name.replace('/', "!")));
    let idle = match idle {
        Some(0) => "it takes more of the processor for each request".to_string(),
        Some(ms) => {
            format!("when one program's requests end it lets the disk stand idle for up to {ms} ms before others'")
        }
        None => {
            "when one program's requests end it lets the disk stand idle, 8 ms as a rule, before others'".to_string()
        }
    };
    let cost = format!("{idle}, and flash has nothing to gain by that (P3: DEADLINE ahead of CFQ and NOOP)");
    Finding::wrong(format!("{found}, though it does not turn"), cost)
        .with_change(Change { place: Place::Scheduler { disk: name.clone() }, new: better.into() })
        .with_advice("how much it is here: flashmob bench disk --scheduler all")
}

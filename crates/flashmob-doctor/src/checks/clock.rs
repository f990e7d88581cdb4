//! The clock: whether it can be right, and whether anybody keeps it so.

use std::time::SystemTime;

use flashmob_results::clock;

use super::Finding;
use crate::view::View;

/// An ordinary crystal is off by so much.
const DRIFT_PPM: f64 = 50.0;
const COST: &str = "times in logs and results of several devices cannot be laid side by side, and a gateway that starts after its clock was set back is refused by its nodes until it has caught up";

pub(super) fn look(view: &View) -> Finding {
    if !view.is_live() {
        return Finding::unknown("a copied tree does not say what its clock shows");
    }
    let now_s = clock::unix_s(SystemTime::now());
    // Android ends apps that ask the kernel for it.
    let is_kept = if view.is_android() { None } else { kernel_says() };
    judge(now_s, is_kept, view.is_android())
}

/// By the time, whether the kernel believes that somebody keeps the clock, and whether this is Android.
pub(super) fn judge(now_unix_s: u64, is_kept: Option<bool>, is_android: bool) -> Finding {
    let command = "timedatectl set-ntp true";
    if !clock::is_set(now_unix_s) {
        let year = 1970 + now_unix_s / 31_556_952;
        return Finding::severe(
            format!("the clock says that it is the year {year}"),
            format!("{COST}; certificates are refused"),
        )
        .with_command(command)
        .with_advice("without a network: date --set='YYYY-MM-DD hh:mm', as root");
    }
    // Android sets the clock by itself now and then, and never tells the kernel that it did.
    if is_android {
        return Finding::unknown("Android does not say whether its clock is kept right")
            .with_advice("switch on 'set time automatically' in the settings");
    }
    match is_kept {
        None => Finding::unknown("the kernel does not say whether the clock is kept right"),
        Some(true) => Finding::well("a service keeps the clock right"),
        Some(false) => {
            let cost =
                format!("it drifts, by up to about {:.0} s a day as crystals do; {COST}", DRIFT_PPM * 86_400.0 / 1e6);
            Finding::wrong("the kernel was told by no service that the clock is right (adjtimex: unsynchronised)", cost)
                .with_command(command)
                .with_advice("or start another one, such as chrony; in a container or virtual machine the host's may do it without telling")
        }
    }
}

/// The kernel's own word, which services that keep the clock renew; `None` if it gives none.
fn kernel_says() -> Option<bool> {
    // SAFETY: all zeroes is a value of it, and one that asks for no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into the structure.
    let status = unsafe { libc::adjtimex(&raw mut state) };
    (status >= 0).then_some(state.status & libc::STA_UNSYNC == 0 && status != libc::TIME_ERROR)
}

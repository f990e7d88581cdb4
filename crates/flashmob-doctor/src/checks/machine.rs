//! Memory, processors, clock, heat and limits of this device.

use std::time::SystemTime;

use flashmob_host::watch;
use flashmob_results::clock;

use super::Finding;
use crate::bytes;
use crate::change::{Change, Place};
use crate::view::View;

/// A node's default limit of memory (`--memory`).
pub(super) const NODE_BYTES: u64 = 64 << 20;
/// The same again for the page cache, without which every read goes to the flash.
pub(super) const ENOUGH_BYTES: u64 = 2 * NODE_BYTES;

/// Available memory.
pub(super) fn memory(view: &View) -> Finding {
    let text = view.text("proc/meminfo").unwrap_or_default();
    // Kernels before 3.14 do not report it: free memory and the page cache, which is usually clean.
    let estimated = || Some(kib(&text, "MemFree:")?.saturating_add(kib(&text, "Cached:")?));
    let Some(available) = kib(&text, "MemAvailable:").or_else(estimated).map(|kib| kib.saturating_mul(1024)) else {
        return Finding::unknown("/proc/meminfo does not say how much memory is available");
    };
    let found = format!("{} of memory are available", bytes(available));
    let advice = "end programs that are not needed, or give the node less: flashmob node --memory 32MiB";
    if available < NODE_BYTES {
        let cost = "a node takes up to 64 MiB: the system swaps, or ends it or another program";
        return Finding::severe(found, cost).with_advice(advice);
    }
    if available < ENOUGH_BYTES {
        let cost = "beside a node's 64 MiB hardly anything is left for the page cache: reads go to the flash that might have come from memory";
        return Finding::wrong(found, cost).with_advice(advice);
    }
    Finding::well(found)
}

fn kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix("kB")?.trim().parse().ok()
}

const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";
/// Drivers with a `powersave` of their own. In their passive modes they have other names (`intel_cpufreq`, `amd-pstate`), and the kernel's
/// governors.
const DYNAMIC_DRIVERS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
/// Replacements, best first: they follow the load.
const BETTER_GOVERNORS: [&str; 5] = ["schedutil", "ondemand", "interactive", "conservative", "performance"];

/// The processors' frequency governor.
///
/// `powersave` keeps the lowest frequency regardless of the load, except with intel_pstate and amd-pstate-epp, whose `powersave` follows the
/// load.
pub(super) fn governor(view: &View) -> Finding {
    let policies: Vec<String> = view.names(CPUFREQ).into_iter().filter(|name| name.starts_with("policy")).collect();
    let mut slow = Vec::new();
    let mut said = Vec::new();
    for policy in policies {
        let file = |name: &str| view.text(&format!("{CPUFREQ}/{policy}/{name}"));
        let Some(governor) = file("scaling_governor") else { continue };
        let driver = file("scaling_driver").unwrap_or_default();
        let is_dynamic = DYNAMIC_DRIVERS.contains(&driver.as_str());
        if !said.contains(&governor) {
            said.push(governor.clone());
        }
        if governor != "powersave" || is_dynamic {
            continue;
        }
        let frequency = |name: &str| file(name).and_then(|text| text.parse::<u64>().ok()).filter(|&khz| khz > 0);
        let offered = file("scaling_available_governors").unwrap_or_default();
        let better = BETTER_GOVERNORS.into_iter().find(|better| offered.split_whitespace().any(|has| has == *better));
        let least = frequency("scaling_min_freq").or_else(|| frequency("cpuinfo_min_freq"));
        slow.push((policy.clone(), least, frequency("cpuinfo_max_freq"), better));
    }
    if said.is_empty() {
        return Finding::not_applicable("nothing here chooses the processors' frequency");
    }
    if slow.is_empty() {
        return Finding::well(format!("the processors' frequency follows {}", said.join(", ")));
    }
    let names: Vec<&str> = slow.iter().map(|(policy, ..)| policy.as_str()).collect();
    let cost = match slow.first() {
        Some((_, Some(least), Some(most), _)) if least < most => format!(
            "they run at {} of {} MHz whatever there is to do: {:.0} % of their speed",
            least / 1000,
            most / 1000,
            *least as f64 * 100.0 / *most as f64
        ),
        _ => "they run at the lowest frequency whatever there is to do".to_string(),
    };
    let finding = Finding::wrong(format!("the governor powersave is in charge of {}", names.join(", ")), cost)
        .with_advice("it saves battery: leave it where nobody waits for this device");
    slow.into_iter().fold(finding, |finding, (policy, _, _, better)| match better {
        Some(better) => finding.with_change(Change { place: Place::Governor { policy }, new: better.into() }),
        None => finding,
    })
}

/// Drift of an ordinary crystal.
const DRIFT_PPM: f64 = 50.0;
const CLOCK_COST: &str = "times in logs and results of several devices cannot be compared, and a gateway that starts after its clock was set back is refused by its nodes until it has caught up";

/// The clock: whether its time is plausible, and whether it is synchronised.
pub(super) fn clock(view: &View) -> Finding {
    if !view.is_live() {
        return Finding::unknown("a copied tree does not say what its clock shows");
    }
    let now_s = clock::unix_s(SystemTime::now());
    // Android kills apps that make this system call.
    let is_kept = if view.is_android() { None } else { kernel_says() };
    judge_clock(now_s, is_kept, view.is_android())
}

/// Judges the time, the kernel's synchronisation status, and whether this is Android.
pub(super) fn judge_clock(now_unix_s: u64, is_kept: Option<bool>, is_android: bool) -> Finding {
    let command = "timedatectl set-ntp true";
    if !clock::is_set(now_unix_s) {
        let year = 1970 + now_unix_s / 31_556_952;
        return Finding::severe(
            format!("the clock says that it is the year {year}"),
            format!("{CLOCK_COST}; certificates are refused"),
        )
        .with_command(command)
        .with_advice("without a network: date --set='YYYY-MM-DD hh:mm', as root");
    }
    // Android sets the clock from time to time, without telling the kernel.
    if is_android {
        return Finding::unknown("Android does not say whether its clock is kept right")
            .with_advice("switch on 'set time automatically' in the settings");
    }
    match is_kept {
        None => Finding::unknown("the kernel does not say whether the clock is kept right"),
        Some(true) => Finding::well("a service keeps the clock right"),
        Some(false) => {
            let cost = format!(
                "it drifts, by up to about {:.0} s a day as crystals do; {CLOCK_COST}",
                DRIFT_PPM * 86_400.0 / 1e6
            );
            Finding::wrong("the kernel was told by no service that the clock is right (adjtimex: unsynchronised)", cost)
                .with_command(command)
                .with_advice("or start another one, such as chrony; in a container or virtual machine the host's may do it without telling")
        }
    }
}

/// The kernel's synchronisation status, which time services renew; `None` if not known.
fn kernel_says() -> Option<bool> {
    // SAFETY: an all-zero `timex` is valid, and requests no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into the structure.
    let status = unsafe { libc::adjtimex(&raw mut state) };
    (status >= 0).then_some(state.status & libc::STA_UNSYNC == 0 && status != libc::TIME_ERROR)
}

/// Whether temperature or a weak supply throttles this device now.
pub(super) fn heat(view: &View) -> Finding {
    let slowed = watch::Watch::begin_at(view.root(), &None).end().throttled;
    if let Some(slowed) = slowed {
        return Finding::wrong(slowed, "everything that the processors do takes longer, and unevenly so")
            .with_advice("cool it, take it out of its case or off the charger, or give it a stronger supply");
    }
    // Virtual machines have no sensors.
    let tells = !view.names("sys/class/thermal").is_empty()
        || view.root().join("sys/devices/system/cpu/cpu0/thermal_throttle").exists()
        || view.root().join("sys/devices/platform/soc/soc:firmware/get_throttled").exists();
    if tells {
        Finding::well("nothing says that it is slowed down")
    } else {
        Finding::unknown("nothing here tells of heat, as in virtual machines")
    }
}

/// A node has up to 64 links and 64 files; a gateway 64 clients and links to every node.
const ENOUGH_FILES: u64 = 256;

/// The limit of open files and connections.
pub(super) fn open_files(view: &View) -> Finding {
    let text = view.text("proc/self/limits").unwrap_or_default();
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("Max open files")) else {
        return Finding::unknown("/proc/self/limits does not say how many files may be open");
    };
    let mut words = line.split_whitespace();
    let (Some(soft), Some(hard)) = (words.next(), words.next()) else {
        return Finding::unknown("/proc/self/limits does not say how many files may be open");
    };
    let found = format!("a program may have {soft} files and connections open");
    // "unlimited" means no limit, and does not parse.
    let Some(soft) = soft.parse::<u64>().ok().filter(|&soft| soft < ENOUGH_FILES) else { return Finding::well(found) };
    let cost = format!(
        "a node with 64 links, or a gateway with 64 clients and its nodes, is refused connections beyond {soft}"
    );
    let is_allowed = hard.parse::<u64>().map_or(true, |hard| hard >= 4 * ENOUGH_FILES);
    Finding::wrong(found, cost)
        .with_command(if is_allowed { format!("ulimit -n {}", 4 * ENOUGH_FILES) } else { String::new() })
        .with_advice("in the shell that starts it; systemd: LimitNOFILE=4096; as root in /etc/security/limits.conf")
}

//! Temperatures and throttling as the kernel reports them. Most devices report only part of it, many nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{number, numbered, text};

/// All sources of throttling at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Heat {
    zones: Vec<Zone>,
    /// Cooling devices that throttle processors, with their state; 0 is off.
    coolers: BTreeMap<String, i64>,
    /// Per processor: highest frequency allowed, and possible, in kHz.
    limits: BTreeMap<String, (u64, u64)>,
    /// Throttling events since boot, per processor and counter.
    events: BTreeMap<String, u64>,
    /// The Raspberry Pi's firmware: bits for now, and since boot.
    firmware: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Zone {
    name: String,
    temperature: i64,
    /// The lowest temperature at which it throttles.
    trip: Option<i64>,
}

/// The firmware's bits and their meaning. Each has a counterpart 16 bits higher for "since boot".
const FIRMWARE: [(u64, &str); 4] = [
    (1, "the supply voltage was too low"),
    (2, "the firmware capped the processor's frequency"),
    (4, "the firmware throttled the processor"),
    (8, "the firmware's temperature limit was reached"),
];

impl Heat {
    pub fn read(root: &Path) -> Heat {
        let thermal = root.join("sys/class/thermal");
        let cpus = numbered(root.join("sys/devices/system/cpu"), "cpu");
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut heat = Heat {
            zones: numbered(&thermal, "thermal_zone").iter().filter_map(|dir| Zone::read(dir)).collect(),
            firmware: text(root.join("sys/devices/platform/soc/soc:firmware/get_throttled"))
                .and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()),
            ..Heat::default()
        };
        for dir in numbered(&thermal, "cooling_device") {
            let kind = text(dir.join("type")).unwrap_or_default();
            let lower = kind.to_lowercase();
            // Fans and screens are cooling devices too. powerclamp has a state when idle.
            let slows = lower == "processor" || (lower.contains("cpu") && !lower.contains("fan"));
            if let (true, Some(state)) = (slows, number(dir.join("cur_state"))) {
                heat.coolers.insert(format!("{kind} ({})", name(&dir)), state);
            }
        }
        for cpu in cpus {
            let read = |file: &str| number::<u64>(cpu.join(file));
            let limits = (read("cpufreq/scaling_max_freq"), read("cpufreq/cpuinfo_max_freq"));
            if let (Some(allowed), Some(possible)) = limits {
                heat.limits.insert(name(&cpu), (allowed, possible));
            }
            for counter in ["core_throttle_count", "package_throttle_count"] {
                if let Some(count) = read(&format!("thermal_throttle/{counter}")) {
                    heat.events.insert(format!("{} {counter}", name(&cpu)), count);
                }
            }
        }
        heat
    }

    /// Causes of throttling between `self` and `later`, by source; empty if none are known.
    pub fn slowed_until(&self, later: &Heat) -> BTreeMap<String, String> {
        let mut words = BTreeMap::new();
        for zone in &later.zones {
            if let Some(trip) = zone.trip.filter(|&trip| zone.temperature >= trip) {
                let (now, limit) = (degrees(zone.temperature), degrees(trip));
                words
                    .insert(zone.name.clone(), format!("{} was at {now}, where it slows down from {limit}", zone.name));
            }
        }
        for (name, &state) in later.coolers.iter().filter(|(_, state)| **state > 0) {
            words.insert(name.clone(), format!("{name} cooled by slowing down, step {state}"));
        }
        let mut lowered: BTreeMap<(u64, u64, bool), Vec<&str>> = BTreeMap::new();
        for (cpu, &(allowed, possible)) in later.limits.iter().filter(|(_, (allowed, possible))| allowed < possible) {
            let fell = self.limits.get(cpu).is_some_and(|&(before, _)| before > allowed);
            lowered.entry((allowed, possible, fell)).or_default().push(cpu);
        }
        for ((allowed, possible, fell), cpus) in lowered {
            let how = if fell { "was cut to" } else { "was limited all the time to" };
            let cpus = cpus.join(", ");
            let text = format!("the frequency of {cpus} {how} {} of {} MHz", allowed / 1000, possible / 1000);
            words.insert(cpus, text);
        }
        for (name, &count) in &later.events {
            let rise = self.events.get(name).map_or(0, |&before| count.saturating_sub(before));
            if rise > 0 {
                words.insert(name.clone(), format!("{name} rose by {rise}"));
            }
        }
        if let (Some(before), Some(after)) = (self.firmware, later.firmware) {
            // Only bits that are new since `self`, or set now.
            let is_new = |bit: u64| after & bit != 0 || (after & !before) & (bit << 16) != 0;
            for (bit, text) in FIRMWARE.iter().filter(|(bit, _)| is_new(*bit)) {
                words.insert(format!("firmware {bit}"), (*text).to_string());
            }
        }
        words
    }
}

impl Zone {
    fn read(dir: &Path) -> Option<Zone> {
        let temperature = number(dir.join("temp"))?;
        let kind = text(dir.join("type")).unwrap_or_default();
        let number_of = dir.file_name()?.to_string_lossy().into_owned();
        let mut trip = None;
        for i in 0.. {
            let Some(kind) = text(dir.join(format!("trip_point_{i}_type"))) else { break };
            // Active ones start a fan, critical ones switch off. Those that are not in use are 0 or below.
            if matches!(kind.as_str(), "passive" | "hot")
                && let Some(at) = number::<i64>(dir.join(format!("trip_point_{i}_temp"))).filter(|&at| at > 0)
            {
                trip = Some(trip.map_or(at, |lowest: i64| lowest.min(at)));
            }
        }
        let name = if kind.is_empty() { number_of } else { format!("{kind} ({number_of})") };
        Some(Zone { name, temperature, trip })
    }
}

/// The highest temperature of a zone in tenths of a degree, and whether any zone throttles the device.
pub(super) fn hottest(root: &Path) -> (Option<i16>, bool) {
    let zones = numbered(root.join("sys/class/thermal"), "thermal_zone");
    let zones: Vec<Zone> = zones.iter().filter_map(|dir| Zone::read(dir)).collect();
    let tenths = |zone: &Zone| {
        let tenths =
            if zone.temperature.abs() >= 1000 { zone.temperature / 100 } else { zone.temperature.saturating_mul(10) };
        i16::try_from(tenths).ok()
    };
    let is_slowed = zones.iter().any(|zone| zone.trip.is_some_and(|trip| zone.temperature >= trip));
    (zones.iter().filter_map(tenths).max(), is_slowed)
}

/// In thousandths of a degree; in whole degrees on some old kernels.
fn degrees(value: i64) -> String {
    if value.abs() >= 1000 { format!("{} °C", value / 1000) } else { format!("{value} °C") }
}

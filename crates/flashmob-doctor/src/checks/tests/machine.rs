//! Checks of memory, processors, the clock and limits.

use flashmob_results::diagnosis::Outcome::{NotApplicable, Severe, Unknown, Well, Wrong};

use super::super::machine::judge_clock;
use super::{Tree, commands};

#[test]
fn memory_must_hold_a_node_and_some_cache() {
    let of =
        |kib: u64| Tree::new(&[("proc/meminfo", &format!("MemTotal: 9 kB\nMemAvailable: {kib} kB\n"))]).look("memory");
    assert_eq!((of(65_535).outcome, of(65_536).outcome), (Severe, Wrong));
    assert_eq!((of(131_071).outcome, of(131_072).outcome), (Wrong, Well));
    let old = Tree::new(&[("proc/meminfo", "MemFree: 100000 kB\nBuffers: 9 kB\nCached: 40000 kB\n")]);
    assert_eq!(old.look("memory").outcome, Well);
    assert_eq!(Tree::new(&[("proc/meminfo", "MemAvailable: many\n")]).look("memory").outcome, Unknown);
}

const MIB: u64 = 1 << 20;

#[test]
fn the_tightest_group_above_decides_in_both_versions() {
    let two = |max: &str, current: u64| {
        Tree::new(&[
            ("proc/self/cgroup", "0::/app/node\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory"),
            ("sys/fs/cgroup/app/memory.max", max),
            ("sys/fs/cgroup/app/memory.current", &current.to_string()),
            ("sys/fs/cgroup/app/memory.stat", &format!("anon 1\ninactive_file {MIB}\nactive_file 0\n")),
            ("sys/fs/cgroup/app/node/memory.max", "max"),
        ])
        .look("cgroup-memory")
    };
    assert_eq!(two("max", 5).outcome, Well);
    for (limit, outcome) in [(65 * MIB - 1, Severe), (65 * MIB, Wrong), (129 * MIB - 1, Wrong), (129 * MIB, Well)] {
        // 2 MiB are used, of which 1 MiB can be reclaimed.
        assert_eq!(two(&limit.to_string(), 2 * MIB).outcome, outcome, "{limit}");
    }
    let one = |limit: u64| {
        Tree::new(&[
            ("proc/self/cgroup", "9:cpuset:/\n4:memory:/a\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", &limit.to_string()),
        ])
        .look("cgroup-memory")
    };
    assert_eq!((one(64 * MIB - 1).outcome, one(64 * MIB).outcome, one(128 * MIB).outcome), (Severe, Wrong, Well));
    assert!(one(MIB).found.contains("/sys/fs/cgroup/memory/a"), "{:?}", one(MIB));
    let inside = Tree::new(&[
        ("proc/self/cgroup", "0::/docker/0123\n"),
        ("sys/fs/cgroup/cgroup.controllers", "memory"),
        ("sys/fs/cgroup/memory.max", "1000"),
    ]);
    assert_eq!(inside.look("cgroup-memory").outcome, Severe, "in a container the mount shows the group as its top");
    let upwards = Tree::new(&[("proc/self/cgroup", "0::/../..\n"), ("sys/fs/cgroup/cgroup.controllers", "")]);
    assert_eq!(upwards.look("cgroup-memory").outcome, NotApplicable);
}

#[test]
fn less_than_a_processor_or_much_standing_still_is_wrong() {
    let two = |max: &str, stat: &str| {
        Tree::new(&[
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu"),
            ("sys/fs/cgroup/a/cpu.max", max),
            ("sys/fs/cgroup/a/cpu.stat", stat),
        ])
        .look("cgroup-cpu")
    };
    assert_eq!(two("max 100000", "").outcome, Well);
    assert_eq!((two("99999 100000", "").outcome, two("100000 100000", "").outcome), (Wrong, Well));
    assert!(two("50000 100000", "").cost.starts_with("50 % of the time"));
    let busy = |throttled: u32, periods: u32| {
        two("100000 100000", &format!("nr_periods {periods}\nnr_throttled {throttled}\n"))
    };
    assert_eq!((busy(5, 100).outcome, busy(6, 100).outcome, busy(99, 99).outcome), (Well, Wrong, Well));
    assert_eq!(two("100000 0", "").outcome, Well, "nonsense is no limit");
    let one = |quota: &str| {
        Tree::new(&[
            ("proc/self/cgroup", "1:cpu,cpuacct:/a\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", quota),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000"),
        ])
        .look("cgroup-cpu")
    };
    assert_eq!((one("-1").outcome, one("50000").outcome, one("200000").outcome), (Well, Wrong, Well));
}

#[test]
fn powersave_is_wrong_unless_it_follows_the_load_by_itself() {
    let of = |governor: &str, driver: &str| {
        let dir = "sys/devices/system/cpu/cpufreq/policy0";
        Tree::new(&[
            (&format!("{dir}/scaling_governor"), governor),
            (&format!("{dir}/scaling_driver"), driver),
            (&format!("{dir}/scaling_available_governors"), "powersave ondemand performance"),
            (&format!("{dir}/scaling_min_freq"), "600000"),
            (&format!("{dir}/cpuinfo_max_freq"), "1500000"),
        ])
        .look("cpu-governor")
    };
    let slow = of("powersave", "cpufreq-dt");
    assert_eq!(commands(&slow), ["echo ondemand > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor"]);
    assert!(slow.cost.starts_with("they run at 600 of 1500 MHz") && slow.cost.ends_with("40 % of their speed"));
    for (governor, driver) in [("powersave", "intel_pstate"), ("powersave", "amd-pstate-epp"), ("schedutil", "x")] {
        assert_eq!(of(governor, driver).outcome, Well);
    }
    for passive in ["amd-pstate", "intel_cpufreq"] {
        assert_eq!(of("powersave", passive).outcome, Wrong, "{passive} has the kernel's own powersave");
    }
}

#[test]
fn heat_is_told_by_zones_and_firmware() {
    let zone = |temperature: &str| {
        let dir = "sys/class/thermal/thermal_zone0";
        Tree::new(&[
            (&format!("{dir}/temp"), temperature),
            (&format!("{dir}/type"), "cpu"),
            (&format!("{dir}/trip_point_0_type"), "passive"),
            (&format!("{dir}/trip_point_0_temp"), "80000"),
        ])
        .look("heat")
        .outcome
    };
    assert_eq!((zone("79999"), zone("80000")), (Well, Wrong));
    let firmware =
        |bits: &str| Tree::new(&[("sys/devices/platform/soc/soc:firmware/get_throttled", bits)]).look("heat").outcome;
    assert_eq!((firmware("0x50000"), firmware("0x50005")), (Well, Wrong), "long ago is not now");
}

#[test]
fn files_that_may_be_open_suffice_for_links_and_clients() {
    let of = |soft: &str, hard: &str| {
        let text = format!("Limit  Soft  Hard  Units\nMax open files            {soft}   {hard}  files\n");
        Tree::new(&[("proc/self/limits", text.as_str())]).look("open-files")
    };
    assert_eq!(
        (of("255", "4096").outcome, of("256", "4096").outcome, of("unlimited", "unlimited").outcome),
        (Wrong, Well, Well)
    );
    assert_eq!((of("64", "4096").command.as_str(), of("64", "64").command.as_str()), ("ulimit -n 1024", ""));
    assert_eq!(Tree::new(&[("proc/self/limits", "Max open files\n")]).look("open-files").outcome, Unknown);
}

#[test]
fn a_clock_may_be_impossible_or_kept_by_nobody() {
    let of = |now, is_kept, android| judge_clock(now, is_kept, android).outcome;
    let now = 1_790_000_000;
    assert_eq!((of(now, Some(true), false), of(now, Some(false), false), of(now, None, false)), (Well, Wrong, Unknown));
    assert_eq!(of(now, Some(false), true), Unknown, "Android does not tell its kernel");
    assert_eq!((of(1_767_225_599, Some(true), false), of(1_767_225_600, Some(true), false)), (Severe, Well));
    assert_eq!((of(4_102_444_799, Some(true), true), of(4_102_444_800, Some(true), true)), (Unknown, Severe));
    assert!(judge_clock(0, None, false).found.ends_with("the year 1970"));
}

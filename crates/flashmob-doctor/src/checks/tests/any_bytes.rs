//! For arbitrary bytes in the files every check has a finding, and none panics.

use std::path::Path;

use proptest::prelude::*;

use super::{Tree, look};
use crate::checks::TABLE;

/// The files that checks read, because random names would not match them.
const FILES: [&str; 34] = [
    "proc/meminfo",
    "proc/net/dev",
    "proc/self/cgroup",
    "proc/self/limits",
    "proc/self/mountinfo",
    "proc/self/oom_score_adj",
    "proc/sys/net/core/rmem_max",
    "proc/sys/net/core/wmem_max",
    "proc/sys/net/ipv4/tcp_adv_win_scale",
    "proc/sys/net/ipv4/tcp_available_congestion_control",
    "proc/sys/net/ipv4/tcp_congestion_control",
    "proc/sys/net/ipv4/tcp_moderate_rcvbuf",
    "proc/sys/net/ipv4/tcp_rmem",
    "proc/sys/net/ipv4/tcp_sack",
    "proc/sys/net/ipv4/tcp_slow_start_after_idle",
    "proc/sys/net/ipv4/tcp_window_scaling",
    "proc/sys/net/ipv4/tcp_wmem",
    "sys/class/block/vda/queue/scheduler",
    "sys/class/block/vda/queue/read_ahead_kb",
    "sys/class/block/vda/queue/rotational",
    "sys/class/net/wlan0/flags",
    "sys/class/net/wlan0/mtu",
    "sys/class/net/wlan0/wireless",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/cpu.stat",
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/memory.stat",
    "system/build.prop",
    "commands/iw_dev_wlan0_get_power_save",
    "commands/dumpsys_deviceidle_whitelist",
];

fn content() -> impl Strategy<Value = Vec<u8>> {
    let likely = prop_oneof![
        Just("0"),
        Just("1"),
        Just("-1"),
        Just("18446744073709551615"),
        Just("9223372036854775807"),
        Just("max"),
        Just("max 0"),
        Just("1 2 18446744073709551615"),
        Just("reno"),
        Just("[bfq] none"),
        Just("powersave"),
        Just("0::/a/../b"),
        Just("wlan0: 1"),
        Just("1 1 0:4 / / rw - ext4 /dev/vda rw"),
        Just("nr_periods 100\nnr_throttled 18446744073709551615"),
        Just("0x1003"),
        Just("inactive_file 18446744073709551615\nactive_file 18446744073709551615"),
        Just("MemAvailable: 18446744073709551615 kB"),
    ];
    prop_oneof![likely.prop_map(|text| text.as_bytes().to_vec()), proptest::collection::vec(any::<u8>(), 0..60)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_make_a_check_panic(contents in proptest::collection::vec(content(), FILES.len()), rate in 1.0f64..1e12, rtt in 1e-6f64..60.0) {
        let tree = Tree::new(&[]);
        for (path, bytes) in FILES.iter().zip(&contents) {
            let path = tree.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let mut view = tree.view();
        view.target = crate::view::Target { rtt_s: rtt, bits_per_second: rate, is_assumed: false };
        view.add_data(Path::new("/data")).unwrap();
        for (name, _) in TABLE {
            look(&view, name);
        }
    }
}

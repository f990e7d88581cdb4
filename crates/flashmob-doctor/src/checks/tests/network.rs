//! Checks of settings of the network, of interfaces and of the path.

use std::time::Duration;

use flashmob_results::diagnosis::Outcome::{NotApplicable, Severe, Unknown, Well, Wrong};

use super::{Tree, commands, look};
use crate::path::{Answer, Asked, Found, PathMtu};

const IPV4: &str = "proc/sys/net/ipv4/";

fn sysctls(values: &[(&str, &str)]) -> Tree {
    let tree = Tree::new(&[]);
    for (name, value) in values {
        tree.file(&format!("{IPV4}{name}"), value);
    }
    tree
}

#[test]
fn receive_buffers_are_judged_by_what_of_them_holds_data() {
    // 500,000 bytes are in flight; half of the buffer is for data.
    for (max, outcome) in [("999998", Wrong), ("1000000", Well), ("1000002", Well)] {
        assert_eq!(sysctls(&[("tcp_rmem", &format!("4096 131072 {max}"))]).look("receive-buffer").outcome, outcome);
    }
    let small = sysctls(&[("tcp_rmem", "4096\t87380\t110208\n")]).look("receive-buffer");
    assert_eq!(small.cost, "at most 11 Mbit/s of 100 Mbit/s can be received, over a round trip of 40 ms");
    assert_eq!(commands(&small), ["sysctl -w net.ipv4.tcp_rmem='4096 87380 6291456'"]);
    let far = sysctls(&[("tcp_rmem", "4096 131072 6291456")]).look_for("receive-buffer", 1e9, 0.1);
    assert_eq!(commands(&far), ["sysctl -w net.ipv4.tcp_rmem='4096 131072 25165824'"], "12.5 MB twice, in MiB");
    let without_reserve = sysctls(&[("tcp_rmem", "1 2 500000"), ("tcp_adv_win_scale", "0")]);
    assert_eq!(without_reserve.look("receive-buffer").outcome, Well);
    let quarter = sysctls(&[("tcp_rmem", "1 2 1000000"), ("tcp_adv_win_scale", "-2")]);
    assert_eq!(quarter.look("receive-buffer").outcome, Wrong);
    let far =
        sysctls(&[("tcp_rmem", "1 2 40000000"), ("tcp_adv_win_scale", "-2")]).look_for("receive-buffer", 1e9, 0.1);
    assert_eq!(commands(&far), ["sysctl -w net.ipv4.tcp_rmem='1 2 50331648'"], "a quarter of it is 12.5 MB and more");
    for odd in ["", "1 2", "x y z", "-1 2 3"] {
        assert_eq!(sysctls(&[("tcp_rmem", odd)]).look("receive-buffer").outcome, Unknown);
    }
}

#[test]
fn send_buffers_hold_data_in_half_of_them() {
    for (max, outcome) in [("999998", Wrong), ("1000000", Well), ("1000002", Well)] {
        assert_eq!(sysctls(&[("tcp_wmem", &format!("4096 16384 {max}"))]).look("send-buffer").outcome, outcome);
    }
    let small = sysctls(&[("tcp_wmem", "4096 16384 65536")]).look_for("send-buffer", 50e6, 0.016);
    assert_eq!(small.cost, "at most 16.4 Mbit/s of 50 Mbit/s can be sent, over a round trip of 16 ms");
    assert_eq!(commands(&small), ["sysctl -w net.ipv4.tcp_wmem='4096 16384 6291456'"]);
}

#[test]
fn limits_are_wrong_only_below_what_kernels_allow() {
    let tree = |receive: &str, send: &str| {
        Tree::new(&[("proc/sys/net/core/rmem_max", receive), ("proc/sys/net/core/wmem_max", send)])
    };
    assert_eq!(tree("212992", "131071").look("socket-limits").outcome, Well);
    let low = tree("131070", "65536").look("socket-limits");
    assert_eq!(commands(&low), ["sysctl -w net.core.rmem_max=500000", "sysctl -w net.core.wmem_max=500000"]);
    assert_eq!(low.cost.split(" over").next().unwrap().split("at most ").nth(1), Some("13.1 Mbit/s"));
    assert_eq!(commands(&tree("212992", "1").look("socket-limits")).len(), 1);
    assert_eq!(Tree::new(&[("proc/sys/net/core/rmem_max", "1")]).look("socket-limits").outcome, Unknown);
}

#[test]
fn what_is_switched_off_is_switched_on() {
    for (file, check) in [("tcp_window_scaling", "window-scaling"), ("tcp_sack", "selective-acknowledgement")] {
        assert_eq!(sysctls(&[(file, "1")]).look(check).outcome, Well);
        let off = sysctls(&[(file, "0")]).look(check);
        assert_eq!((off.outcome, commands(&off)), (Wrong, vec![format!("sysctl -w net.ipv4.{file}=1")]));
        assert_eq!(sysctls(&[(file, "?")]).look(check).outcome, Unknown);
    }
    let cost = sysctls(&[("tcp_window_scaling", "0")]).look_for("window-scaling", 100e6, 0.1).cost;
    assert!(cost.contains("5.24 Mbit/s over a round trip of 100 ms"), "{cost}");
}

#[test]
fn buffers_that_do_not_grow_are_wrong_if_they_begin_too_small() {
    let tree =
        |default: &str| sysctls(&[("tcp_moderate_rcvbuf", "0"), ("tcp_rmem", &format!("4096 {default} 6291456"))]);
    for (default, outcome) in [("999998", Wrong), ("1000000", Well)] {
        assert_eq!(tree(default).look("receive-autotuning").outcome, outcome);
    }
    let finding = tree("131072").look("receive-autotuning");
    assert_eq!(finding.cost, "at most 13.1 Mbit/s of 100 Mbit/s can be received, over a round trip of 40 ms");
    assert_eq!(commands(&finding), ["sysctl -w net.ipv4.tcp_moderate_rcvbuf=1"]);
    assert_eq!(sysctls(&[("tcp_moderate_rcvbuf", "1")]).look("receive-autotuning").outcome, Well);
    assert_eq!(sysctls(&[("tcp_moderate_rcvbuf", "0")]).look("receive-autotuning").outcome, Unknown);
}

#[test]
fn reno_is_wrong_only_where_there_is_better() {
    let tree = |current: &str, available: &str| {
        sysctls(&[("tcp_congestion_control", current), ("tcp_available_congestion_control", available)])
    };
    let finding = tree("reno", "reno bbr cubic").look("congestion-control");
    assert_eq!(commands(&finding), ["sysctl -w net.ipv4.tcp_congestion_control=cubic"]);
    assert!(finding.cost.contains("173 round trips, 6.92 s"), "{}", finding.cost);
    let allowed = tree("reno", "reno bbr cubic");
    allowed.file("proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno bbr");
    assert!(commands(&allowed.look("congestion-control"))[0].ends_with("=bbr"), "another would be refused");
    assert!(commands(&tree("reno", "bbr reno").look("congestion-control"))[0].ends_with("=bbr"));
    for (current, available) in [("reno", "reno"), ("cubic", "reno cubic"), ("bbr", "reno bbr"), ("westwood", "")] {
        assert_eq!(tree(current, available).look("congestion-control").outcome, Well, "{current}");
    }
}

#[test]
fn beginning_anew_after_a_pause_is_wrong_on_known_long_paths() {
    let tree = sysctls(&[("tcp_slow_start_after_idle", "1"), ("tcp_congestion_control", "cubic")]);
    assert_eq!(tree.look("slow-start-after-idle").outcome, Well, "nothing is known of the path");
    // 100 Mbit/s and 20 ms: 173 packets, from 10 in five round trips.
    assert_eq!(tree.look_for("slow-start-after-idle", 100e6, 0.02).outcome, Wrong);
    assert_eq!(tree.look_for("slow-start-after-idle", 100e6, 0.019).outcome, Well);
    let far = tree.look_for("slow-start-after-idle", 100e6, 0.1);
    assert!(far.cost.contains("7 round trips, 700 ms"), "{}", far.cost);
    assert_eq!(commands(&far), ["sysctl -w net.ipv4.tcp_slow_start_after_idle=0"]);
    tree.file("proc/sys/net/ipv4/tcp_congestion_control", "bbr");
    assert_eq!(tree.look_for("slow-start-after-idle", 100e6, 0.1).outcome, Well);
    let off = sysctls(&[("tcp_slow_start_after_idle", "0")]);
    assert_eq!(off.look_for("slow-start-after-idle", 100e6, 0.1).outcome, Well);
}

fn wireless(answer: Option<&str>) -> Tree {
    let tree = Tree::new(&[
        ("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2\n wlan0: 3 4\n"),
        ("sys/class/net/lo/flags", "0x9"),
        ("sys/class/net/wlan0/flags", "0x1003"),
        ("sys/class/net/wlan0/wireless/x", ""),
    ]);
    if let Some(answer) = answer {
        tree.file("commands/iw_dev_wlan0_get_power_save", answer);
    }
    tree
}

#[test]
fn power_save_is_known_by_iw_alone() {
    let on = wireless(Some("Power save: on\n")).look("wifi-power-save");
    assert_eq!((on.outcome, commands(&on)), (Wrong, vec!["iw dev wlan0 set power_save off".to_string()]));
    assert_eq!(wireless(Some("Power save: off\n")).look("wifi-power-save").outcome, Well);
    assert_eq!(wireless(None).look("wifi-power-save").outcome, Unknown);
    assert_eq!(wireless(Some("strange")).look("wifi-power-save").outcome, Unknown);
    let down = wireless(Some("Power save: on"));
    down.file("sys/class/net/wlan0/flags", "0x1002");
    assert_eq!(down.look("wifi-power-save").outcome, NotApplicable);
}

#[test]
fn packets_below_ipv6s_least_are_too_small() {
    let tree = |mtu: &str, kind: &str| {
        Tree::new(&[
            ("proc/net/dev", "eth0: 1\n"),
            ("sys/class/net/eth0/flags", "0x1003"),
            ("sys/class/net/eth0/mtu", mtu),
            ("sys/class/net/eth0/type", kind),
        ])
    };
    for (mtu, outcome) in [("1279", Wrong), ("1280", Well), ("1281", Well), ("x", Unknown)] {
        assert_eq!(tree(mtu, "1").look("mtu").outcome, outcome, "{mtu}");
    }
    let small = tree("576", "1").look("mtu");
    assert_eq!(commands(&small), ["ip link set dev eth0 mtu 1500"]);
    assert!(small.cost.starts_with("2.8 times as many packets"), "{}", small.cost);
    assert!(commands(&tree("1000", "65534").look("mtu")).is_empty(), "a tunnel has its reasons");
    for (file, text) in [("tun_flags", "0x1002"), ("uevent", "DEVTYPE=vxlan\nINTERFACE=eth0\n")] {
        let tunnel = tree("1000", "1");
        tunnel.file(&format!("sys/class/net/eth0/{file}"), text);
        let finding = tunnel.look("mtu");
        assert_eq!((finding.outcome, commands(&finding).len()), (Wrong, 0), "{file}: it looks like Ethernet");
    }
}

fn found(answer: Answer, is_port_named: bool, mtu: PathMtu) -> Found {
    Found {
        asked: Asked {
            peer: "tablet".into(),
            address: "192.0.2.1:7070".parse().unwrap(),
            is_port_named,
            timeout: Duration::from_secs(2),
            said_bits_per_second: None,
        },
        answer,
        rtt_s: Some(0.005),
        interface: Some("wlan0".into()),
        rate: None,
        mtu,
    }
}

#[test]
fn a_silent_peer_and_a_closed_port_are_told_apart() {
    let of = |answer: Answer, is_port_named: bool| {
        let mut view = Tree::new(&[]).view();
        view.path = Some(found(answer, is_port_named, PathMtu::Unknown));
        look(&view, "peer")
    };
    assert_eq!(of(Answer::Open, true).outcome, Well);
    assert_eq!(of(Answer::Refused, false).outcome, Well);
    assert!(of(Answer::Refused, true).cost.contains("nothing listens"));
    let silent = of(Answer::Silent(Duration::from_secs(2)), true);
    assert_eq!(silent.outcome, Severe);
    assert!(silent.found.contains("within 2 s") && silent.advice.contains("firewall"));
    assert!(of(Answer::Failed("no route".into()), true).found.ends_with("no route"));
}

#[test]
fn packets_that_vanish_are_severe_and_those_that_are_refused_in_words_are_well() {
    let of = |mtu: PathMtu| {
        let mut view = Tree::new(&[]).view();
        view.path = Some(found(Answer::Open, true, mtu));
        look(&view, "path-mtu")
    };
    assert_eq!(of(PathMtu::Unknown).outcome, Unknown);
    assert_eq!(of(PathMtu::Whole(1500)).outcome, Well);
    assert_eq!(of(PathMtu::Told { sent_bytes: 1500, mtu_bytes: 1400 }).outcome, Well);
    let lost = of(PathMtu::Lost { sent_bytes: 1500, arrived_bytes: Some(1400) });
    assert_eq!((lost.outcome, lost.command.as_str()), (Severe, "ip link set dev wlan0 mtu 1400"));
    assert_eq!(of(PathMtu::Lost { sent_bytes: 1500, arrived_bytes: None }).command, "");
}

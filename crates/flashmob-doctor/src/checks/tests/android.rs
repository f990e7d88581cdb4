//! Checks of Android's limits.

use flashmob_results::diagnosis::Outcome::{NotApplicable, Severe, Unknown, Well, Wrong};

use super::Tree;

fn android(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::new(&[("system/build.prop", "ro.build.version.sdk=33\n")]);
    for (path, text) in files {
        tree.file(path, text);
    }
    tree
}

#[test]
fn elsewhere_none_of_it_applies() {
    for name in ["android-battery", "android-background", "android-processes", "android-low-memory"] {
        assert_eq!(Tree::new(&[]).look(name).outcome, NotApplicable, "{name}");
        let outcome = android(&[]).look(name).outcome;
        assert_eq!(outcome, Unknown, "{name}");
    }
}

#[test]
fn who_is_exempt_from_doze_is_told_by_dumpsys() {
    let of = |text: &str| android(&[("commands/dumpsys_deviceidle_whitelist", text)]).look("android-battery").outcome;
    assert_eq!(of("system,com.android.phone,1001\nuser,com.termux,10123\n"), Well);
    assert_eq!(of("system,com.android.phone,1001\n"), Wrong);
    assert_eq!(of("Permission Denial: can't dump deviceidle"), Unknown);
}

#[test]
fn groups_in_the_background_are_known_by_name() {
    let of = |text: &str| android(&[("proc/self/cgroup", text)]).look("android-background").outcome;
    assert_eq!(of("4:cpuset:/background\n"), Wrong);
    assert_eq!(of("3:cpu:/bg_non_interactive\n"), Wrong);
    assert_eq!(of("4:cpuset:/foreground\n0::/uid_10123/pid_1\n"), Well);
    assert_eq!(of("5:memory:/background\n"), Well, "it is about processors");
}

#[test]
fn processes_of_apps_are_ended_since_android_12() {
    let of = |api: &str, said: &str| {
        android(&[
            ("commands/getprop_ro.build.version.sdk", api),
            ("commands/settings_get_global_settings_enable_monitor_phantom_procs", said),
        ])
        .look("android-processes")
        .outcome
    };
    assert_eq!((of("30", "null"), of("31", "null"), of("31", "true")), (NotApplicable, Wrong, Wrong));
    assert_eq!((of("34", "false"), of("34", "?"), of("x", "true")), (Well, Unknown, Unknown));
}

#[test]
fn who_is_ended_first_is_told_by_the_kernel() {
    let of = |text: &str| android(&[("proc/self/oom_score_adj", text)]).look("android-low-memory").outcome;
    assert_eq!((of("-950"), of("200"), of("699"), of("700"), of("?")), (Well, Well, Well, Severe, Unknown));
}

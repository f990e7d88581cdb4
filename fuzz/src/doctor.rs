//! What `flashmob doctor` reads: an undo file, which root then does, and the files of a device, which anybody may have copied.

use std::path::Path;

use flashmob_doctor::checks;
use flashmob_doctor::undo::Undo;
use flashmob_doctor::view::View;
use flashmob_path::buffers;

/// What the files of a tree are called, in the order in which the input is cut into them.
const FILES: [&str; 12] = [
    "proc/meminfo",
    "proc/net/dev",
    "proc/self/cgroup",
    "proc/self/limits",
    "proc/self/mountinfo",
    "proc/sys/net/ipv4/tcp_rmem",
    "proc/sys/net/ipv4/tcp_congestion_control",
    "sys/class/block/vda/queue/scheduler",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/memory.max",
    "commands/iw_dev_wlan0_get_power_save",
];
/// Between the files of a tree.
const CUT: u8 = 0xff;

/// Reads the input as an undo, and as the files of a tree.
pub fn undo(data: &[u8]) {
    let _ = buffers::parse(&String::from_utf8_lossy(data));
    match Undo::parse(data) {
        Ok(undo) => {
            for entry in &undo.entries {
                assert!(entry.place.is_sound(), "{entry:?}");
                assert!(!entry.place.words().contains(char::is_control), "{entry:?}");
                assert!(!entry.old.contains(char::is_control) && !entry.new.contains(char::is_control), "{entry:?}");
            }
            let text = undo.text().expect("what was read can be written");
            assert_eq!(Undo::parse(text.as_bytes()).expect("what was written can be read"), undo);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if data.contains(&CUT) {
        tree(data);
    }
}

fn tree(data: &[u8]) {
    let root = std::env::temp_dir().join(format!("flashmob-fuzz-doctor-{}", std::process::id()));
    for (path, bytes) in FILES.iter().zip(data.split(|&b| b == CUT).chain(std::iter::repeat(&[][..]))) {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder for the tree");
        }
        std::fs::write(path, bytes).expect("a file of the tree");
    }
    let mut view = View::of_tree(&root);
    view.add_data(Path::new("/data")).expect("a tree has no paths that are not there");
    for (name, check) in checks::TABLE {
        let finding = check(&view);
        assert!(!finding.found.is_empty(), "{name}");
        assert!(finding.changes.iter().all(|change| change.place.is_sound()), "{name}: {finding:?}");
    }
    std::fs::remove_dir_all(&root).expect("the tree");
}

/// Inputs that reach deep.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    use flashmob_doctor::change::Place;
    use flashmob_doctor::undo::Entry;
    let entry = |place: Place, old: &str, new: &str| Entry {
        check: "receive-buffer".into(),
        network: place.is_of_network().then(|| "net:[4026531840]".into()),
        boot: Some("00000000-0000-0000-0000-000000000000".into()),
        place,
        old: old.into(),
        new: new.into(),
        previous: None,
    };
    let mut undo = Undo::default();
    undo.note(entry(Place::Sysctl { name: "net.ipv4.tcp_rmem".into() }, "4096 87380 110208", "4096 87380 6291456"));
    undo.note(entry(Place::Scheduler { disk: "mmcblk0".into() }, "bfq", "mq-deadline"));
    undo.note(entry(Place::Readahead { disk: "cciss/c0d0".into() }, "8192", "128"));
    undo.note(entry(Place::Governor { policy: "policy0".into() }, "powersave", "ondemand"));
    undo.note(entry(Place::PowerSave { interface: "wlan0".into() }, "on", "off"));
    undo.note(entry(Place::Mtu { interface: "wlan0".into() }, "1000", "1500"));
    let text = |undo: &Undo| undo.text().expect("a seed").into_bytes();
    let files = [
        "MemTotal: 9 kB\nMemAvailable: 70000 kB",
        "lo: 1\nwlan0: 2",
        "0::/a\n4:memory:/b",
        "Max open files 64 4096 files",
        "1 1 0:4 / /data rw - ext4 /dev/vda rw",
        "4096 87380 110208",
        "reno",
        "none [bfq]",
        "cpu memory",
        "50000 100000",
        "1000000",
        "Power save: on",
    ];
    let cut = files.map(|file| [file.as_bytes(), &[CUT]].concat()).concat();
    vec![("all_places", text(&undo)), ("empty", text(&Undo::default())), ("tree", cut)]
}

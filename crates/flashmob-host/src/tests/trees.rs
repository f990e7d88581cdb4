//! Made-up hosts.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A root directory with files, until it is dropped.
pub struct Tree(tempfile::TempDir);

impl Tree {
    pub fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (path, text) in files {
            tree.file(path, text);
        }
        tree
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A link at `path` to `target`, both below the root.
    pub fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.path(target), path).unwrap();
    }

    /// A block device as sysfs shows it, at `devices/DIR`.
    pub fn device(&self, dir: &str, number: &str, files: &[(&str, &str)]) {
        let dir = format!("sys/devices/{dir}");
        self.file(&format!("{dir}/dev"), number);
        for (path, text) in files {
            self.file(&format!("{dir}/{path}"), text);
        }
        self.link(&format!("sys/dev/block/{number}"), &dir);
        self.link(&format!("sys/class/block/{}", dir.rsplit('/').next().unwrap()), &dir);
    }
}

pub fn nexus7() -> Tree {
    let tree = Tree::new(&[
        (
            "system/build.prop",
            "# begin\nro.build.version.release=4.4.2\nro.build.version.sdk=19\nro.product.model=Nexus 7\nro.product.brand=\n",
        ),
        (
            "proc/cpuinfo",
            "Processor\t: ARMv7 Processor rev 9 (v7l)\nCPU implementer\t: 0x41\nCPU part\t: 0xc09\nHardware\t: grouper\n",
        ),
        ("proc/meminfo", "MemTotal:         999476 kB\nMemFree:           25000 kB\n"),
        ("proc/sys/kernel/osrelease", "3.1.10-g05b777c\n"),
        (
            "proc/self/mountinfo",
            "1 1 0:1 / / ro - rootfs rootfs ro\n\
             9 1 259:1 / /data rw,nosuid,nodev,noatime shared:3 - ext4 /dev/block/platform/sdhci-tegra.3/by-name/UDA rw,nomblk_io_submit\n\
             12 1 0:17 / /storage/emulated/0 rw,nosuid - fuse /dev/fuse rw,user_id=1023\n",
        ),
    ]);
    tree.device(
        "mmc0/mmcblk0",
        "179:0",
        &[
            ("size", "61071360\n"),
            ("device/name", "HBG4e \n"),
            ("queue/rotational", "0\n"),
            ("queue/scheduler", "noop deadline [row] cfq \n"),
            ("queue/read_ahead_kb", "128\n"),
        ],
    );
    tree.device("mmc0/mmcblk0/mmcblk0p9", "259:1", &[("partition", "9\n")]);
    tree
}

pub fn raspberry_pi() -> Tree {
    let tree = Tree::new(&[
        ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0"),
        ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
        (
            "proc/cpuinfo",
            "CPU implementer\t: 0x41\nCPU part\t: 0xd08\n\nRevision\t: c03114\nModel\t\t: Raspberry Pi 4\n",
        ),
        ("proc/meminfo", "MemTotal:        3884332 kB\n"),
        ("proc/self/mountinfo", "21 1 179:2 / / rw,noatime - ext4 /dev/root rw\n"),
        ("sys/devices/platform/soc/soc:firmware/get_throttled", "0\n"),
        ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
        ("sys/class/thermal/thermal_zone0/temp", "52000\n"),
        ("sys/class/thermal/thermal_zone0/trip_point_0_type", "hot\n"),
        ("sys/class/thermal/thermal_zone0/trip_point_0_temp", "80000\n"),
        ("sys/class/thermal/thermal_zone0/trip_point_1_type", "critical\n"),
        ("sys/class/thermal/thermal_zone0/trip_point_1_temp", "40000\n"),
        ("sys/class/thermal/cooling_device0/type", "cpufreq-cpu0\n"),
        ("sys/class/thermal/cooling_device0/cur_state", "0\n"),
        ("sys/class/thermal/cooling_device1/type", "cpu-fan\n"),
        ("sys/class/thermal/cooling_device1/cur_state", "3\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1500000\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "1500000\n"),
        ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n"),
        ("sys/devices/system/cpu/cpufreq/x", ""),
        ("proc/self/io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n"),
    ]);
    tree.device(
        "mmc0/mmcblk0",
        "179:0",
        &[
            ("size", "62333952\n"),
            ("device/name", "SD32G\n"),
            ("queue/rotational", "0\n"),
            ("queue/scheduler", "[none] mq-deadline kyber bfq\n"),
        ],
    );
    tree.file("sys/devices/mmc0/mmcblk0/stat", "     100   0   80  1  20  0  40  0 0 0 0\n");
    tree.device("mmc0/mmcblk0/mmcblk0p2", "179:2", &[("partition", "2\n")]);
    tree
}

pub fn pc() -> Tree {
    let tree = Tree::new(&[
        ("sys/class/dmi/id/sys_vendor", "LENOVO\n"),
        ("sys/class/dmi/id/product_name", "20HRCTO1WW\n"),
        ("usr/lib/os-release", "PRETTY_NAME=Arch\n"),
        ("proc/cpuinfo", "model name\t: Intel(R) Core(TM) i7-2700K CPU\n"),
        (
            "proc/self/mountinfo",
            "21 1 0:25 /@ / rw - btrfs /dev/mapper/vg-root rw,subvol=/@\n\
             22 21 8:17 / /mnt/usb\\040stick rw - vfat /dev/sdb1 rw\n\
             23 21 9:0 / /raid rw - ext4 /dev/md0 rw\n\
             24 21 0:50 / /var/lib/merged rw - overlay overlay rw,upperdir=/u\n\
             25 21 0:51 / /tmp rw - tmpfs tmpfs rw\n\
             26 21 7:3 / /loop rw - ext4 /dev/loop3 rw\n\
             27 21 254:0 / /virtual rw - ext4 /dev/vda rw\n",
        ),
    ]);
    tree.device(
        "pci0/nvme0/nvme0n1",
        "259:0",
        &[
            ("size", "1000215216"),
            ("device/model", "Samsung SSD 970 PRO  "),
            ("queue/scheduler", "[none] mq-deadline"),
            ("queue/rotational", "0"),
        ],
    );
    tree.device("pci0/nvme0/nvme0n1/nvme0n1p3", "259:3", &[("partition", "3")]);
    tree.device("virtual/dm-0", "253:0", &[("dm/name", "vg-root")]);
    tree.link("sys/devices/virtual/dm-0/slaves/nvme0n1p3", "sys/devices/pci0/nvme0/nvme0n1/nvme0n1p3");
    tree.link("dev/mapper/vg-root", "dev/dm-0");
    tree.file("dev/dm-0", "");
    let usb = [("size", "16"), ("device/model", "Ultra"), ("device/vendor", "SanDisk "), ("queue/rotational", "1")];
    tree.device("usb1/sdb", "8:16", &usb);
    tree.device("usb1/sdb/sdb1", "8:17", &[("partition", "1")]);
    tree.device(
        "ata1/sda",
        "8:0",
        &[("device/vendor", "ATA     "), ("device/model", "ST1000"), ("queue/rotational", "1")],
    );
    tree.device("virtual/md0", "9:0", &[("size", "32"), ("queue/scheduler", "none")]);
    tree.link("sys/devices/virtual/md0/slaves/sda", "sys/devices/ata1/sda");
    tree.link("sys/devices/virtual/md0/slaves/sdb", "sys/devices/usb1/sdb");
    tree.device(
        "virtual/loop3",
        "7:3",
        &[("size", "64"), ("queue/scheduler", "none [mq-deadline]"), ("loop/backing_file", "/x")],
    );
    std::fs::create_dir_all(tree.path("sys/devices/virtual/loop3/slaves")).unwrap();
    tree.device("virtio2/vda", "254:0", &[("device/vendor", "0x1af4"), ("queue/rotational", "1"), ("size", "odd")]);
    tree
}

//! The built-in devices. The source of each number is stated beside it; see the module above for the terms.

use super::{Cost, Profile, Rotation};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

pub(super) const ALL: [Profile; 6] = [NEXUS7_EMMC, EMMC, UFS, SDCARD, HDD, NVME];

/// P1's tablet: Nexus 7 (2013), SK Hynix 16 GB eMMC, ext4, CFQ.
const NEXUS7_EMMC: Profile = Profile {
    name: "nexus7-emmc",
    description: "the tablet of P1: about 525 random 4 KiB reads/s with one thread, 2,100 with four or more",
    // Paper: reads scale up to 4 threads and then stay flat (C2). Which part of the device or driver has this
    // parallelism is unknown, and irrelevant here.
    slots: 4,
    read: Cost {
        // Paper, via `backward_percent`: 2,100 reads/s over 4 slots are 1.905 ms each. Half of random steps are
        // downward and cost 40 % more, so an upward one takes 1.905 / 1.2.
        access_ns: 1_587 * US,
        // Chosen: the paper shows that sequential reads are far faster (C10), but gives no usable number.
        sequential_ns: 250 * US,
        // Chosen: 50 MB/s within one request, typical for eMMC of that time.
        block_ns: 80 * US,
    },
    // All chosen: P1 only reads. Small random writes on eMMC of that time are several times slower than reads.
    write: Cost { access_ns: 5 * MS, sequential_ns: 500 * US, block_ns: 250 * US },
    flush_ns: 8 * MS,
    flush_clean_ns: 200 * US,
    // Chosen: the paper shows that downward commands take longer (C13), as a scatter plot. This is large enough
    // to be visible and small enough not to dominate.
    backward_percent: 40,
    backward_full_at_bytes: 32 * MIB,
    // Chosen.
    jitter_percent: 20,
    rotation: None,
};

/// A later eMMC (5.1) with a command queue. All chosen, as typical for boards and cheap phones since 2016.
const EMMC: Profile = Profile {
    name: "emmc",
    description: "an eMMC 5.1 with a command queue, as in boards and cheap phones: about 3,000 and 12,000 reads/s",
    slots: 4,
    read: Cost { access_ns: 290 * US, sequential_ns: 60 * US, block_ns: 16 * US },
    write: Cost { access_ns: 600 * US, sequential_ns: 90 * US, block_ns: 35 * US },
    flush_ns: 3 * MS,
    flush_clean_ns: 80 * US,
    backward_percent: 30,
    backward_full_at_bytes: 32 * MIB,
    jitter_percent: 20,
    rotation: None,
};

/// UFS 3 of a phone. All chosen.
const UFS: Profile = Profile {
    name: "ufs",
    description: "UFS 3 as in phones: about 7,500 random 4 KiB reads/s with one thread, 60,000 with eight or more",
    slots: 8,
    read: Cost { access_ns: 124 * US, sequential_ns: 40 * US, block_ns: 3 * US },
    write: Cost { access_ns: 140 * US, sequential_ns: 45 * US, block_ns: 8 * US },
    flush_ns: MS,
    flush_clean_ns: 40 * US,
    backward_percent: 15,
    backward_full_at_bytes: 64 * MIB,
    jitter_percent: 20,
    rotation: None,
};

/// An SD card of application performance class A1.
const SDCARD: Profile = Profile {
    name: "sdcard",
    description: "an SD card of class A1: 1,500 random reads/s and 500 random writes/s, one at a time",
    // Standard: class A1 does not require a command queue.
    slots: 1,
    // Standard, via `backward_percent`: A1 requires 1,500 random 4 KiB reads/s (0.667 ms, 0.58 ms upward).
    // Chosen: sequential 40 MB/s.
    read: Cost { access_ns: 580 * US, sequential_ns: 150 * US, block_ns: 100 * US },
    // Standard: 500 random writes/s (2 ms, 1.74 ms upward), 10 MB/s sequential.
    write: Cost { access_ns: 1_740 * US, sequential_ns: 450 * US, block_ns: 400 * US },
    // Chosen, like the rest.
    flush_ns: 10 * MS,
    flush_clean_ns: 200 * US,
    backward_percent: 30,
    backward_full_at_bytes: 16 * MIB,
    jitter_percent: 30,
    rotation: None,
};

/// The disk of P1's PC: 3 TB, 7200 rpm.
const HDD: Profile = Profile {
    name: "hdd",
    description: "the disk of P1's PC, 3 TB at 7200 rpm: about 115 random reads/s in a file of 10 GiB",
    slots: 1,
    // Chosen: command, electronics and host.
    read: Cost { access_ns: 500 * US, sequential_ns: 100 * US, block_ns: 27 * US },
    write: Cost { access_ns: 500 * US, sequential_ns: 100 * US, block_ns: 27 * US },
    // Chosen: two rotations; writes from the cache are not modelled individually.
    flush_ns: 17 * MS,
    flush_clean_ns: 100 * US,
    backward_percent: 0,
    backward_full_at_bytes: MIB,
    jitter_percent: 20,
    rotation: Some(Rotation {
        // Paper: 7200 rpm.
        turn_ns: 8_333_333,
        // Chosen, typical for 3 TB on a few platters; not a power of two, so that files divided into MiB do not lie at
        // one angle.
        track_bytes: 1_179_648,
        // Chosen so that random reads in 10 GiB reach about 115/s, and over the whole disk some 70/s, typical for such
        // disks. Seek, settling and head switch are one number.
        seek_min_ns: 3_500 * US,
        seek_max_ns: 14 * MS,
        // Paper: 3 TB.
        stroke_bytes: 3_000_000_000_000,
        // Chosen: NCQ holds 31, but disks of that time gained little from it.
        queue: 3,
    }),
};

/// An NVMe drive of a PC. All chosen.
const NVME: Profile = Profile {
    name: "nvme",
    description: "an NVMe drive: about 12,000 random 4 KiB reads/s with one thread, 400,000 with many",
    slots: 32,
    read: Cost { access_ns: 80 * US, sequential_ns: 15 * US, block_ns: US },
    write: Cost { access_ns: 20 * US, sequential_ns: 10 * US, block_ns: 2 * US },
    flush_ns: 500 * US,
    flush_clean_ns: 10 * US,
    // The direction of a step makes no significant difference.
    backward_percent: 2,
    backward_full_at_bytes: 64 * MIB,
    jitter_percent: 15,
    rotation: None,
};

//! The commands that measure each claim on a phone or tablet, for claims that were measured elsewhere or not at all.
//!
//! Each text is the end of a sentence, with commands between backticks.

/// Where `flashmob push` runs.
macro_rules! over_adb {
    ($text:literal) => {
        concat!("on the computer that it is attached to by adb, ", $text)
    };
}

/// Random reads of one device.
pub(super) const P1: &str = over_adb!("`flashmob push reproduce --papers p1`; no root");
/// The same beside a rotating disk.
pub(super) const P1_AND_DISK: &str = over_adb!(
    "`flashmob push reproduce --papers p1 --save DIR`; no root; on a PC with a rotating disk `flashmob bench disk FILE --preset p1 --save pc.json`; then `flashmob report DIR/p1.json pc.json`"
);
/// Orders of addresses.
pub(super) const P3: &str = over_adb!("`flashmob push reproduce --papers p3`; no root");
/// Schedulers and the driver's commands.
pub(super) const P3_AS_ROOT: &str = over_adb!(
    "`adb root`, then `flashmob push reproduce --papers p3`: setting schedulers and reading the kernel's events need root"
);
/// A cluster of tablets.
pub(super) const TABLETS: &str = "on each of eight `flashmob node --data FILE --size 10GB --order arrival --direct`, and on one more in the same Wi-Fi, as gateway, `flashmob bench cluster --config FILE --nodes 1,2,4,8 --links 1,2,4,8,16,32 --batch 1,10,100 --repeat 3`, over a volume that was written in full before; without I/O both with `--no-io`";
/// A phone's own TCP.
pub(super) const TCP: &str = over_adb!(
    "`flashmob push reproduce --papers p4` measures its TCP and UDP both ways over its Wi-Fi, and `flashmob push run -- doctor` shows its receive buffers; the claim itself needs delay, loss or buffers that only the lab varies"
);
/// Inserts and the writes of SQLite.
pub(super) const P5: &str = over_adb!("`flashmob push reproduce --papers p5`; no root");
/// The same, on two systems.
pub(super) const P5_ON_TWO: &str = over_adb!(
    "`flashmob push reproduce --papers p5 --save DIR`, on two devices with equal processors and different systems, each with a DIR of its own, then `flashmob report DIR/p5.json OTHER/p5.json`"
);
/// As before, with the driver's commands.
pub(super) const P5_ON_TWO_AS_ROOT: &str = over_adb!(
    "`adb root`, then `flashmob push reproduce --papers p5 --save DIR`, on two devices with equal processors and different systems, each with a DIR of its own, then `flashmob report DIR/p5.json OTHER/p5.json`; the driver's commands need root"
);
/// Inserts with the kernel's layers.
pub(super) const P5_AS_ROOT: &str =
    over_adb!("`adb root`, then `flashmob push reproduce --papers p5`: the kernel's layers need root");

//! Whether this program runs under an emulator such as qemu-user.
//!
//! Under qemu-user an ARM program makes the host's system calls at an emulator's speed: its counts are right, its times are not. The program
//! that the kernel started, `/proc/thread-self/exe`, is then made for another processor than this one. (qemu itself answers
//! `/proc/self/exe`, with the emulated program.)

use std::io::Read;
use std::path::Path;

use flashmob_results::device::Device;
use flashmob_results::warning::{Code, Warning};

/// Fields of an ELF header.
const MAGIC: &[u8] = b"\x7fELF";
const BYTE_ORDER_AT: usize = 5;
const MACHINE_AT: usize = 18;
const BIG_ENDIAN: u8 = 2;

/// ELF numbers of processors, with the kernel's names.
const MACHINES: [(u16, &str); 9] = [
    (3, "i386"),
    (8, "mips"),
    (20, "ppc"),
    (21, "ppc64"),
    (22, "s390x"),
    (40, "arm"),
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv"),
];

/// The emulator, such as `qemu-user on x86_64`; `None` without one, or if it is not known.
#[must_use]
pub fn emulator() -> Option<String> {
    let own = match std::env::consts::ARCH {
        "x86" => 3,
        "arm" => 40,
        "x86_64" => 62,
        "aarch64" => 183,
        _ => return None,
    };
    emulator_of(Path::new("/proc/thread-self/exe"), own)
}

/// The warning for results of an emulated device.
#[must_use]
pub fn doubt(device: &Device) -> Option<Warning> {
    let emulator = device.emulated.as_ref()?;
    Some(Warning::new(
        Code::Emulated,
        format!("emulated by {emulator}: counts hold, times do not; repeat on a real device for its speed"),
    ))
}

/// As [`emulator`], for an executable and the ELF number of a processor.
pub(super) fn emulator_of(exe: &Path, own: u16) -> Option<String> {
    let machine = machine(exe).filter(|machine| *machine != own)?;
    let host = MACHINES
        .iter()
        .find(|(number, _)| *number == machine)
        .map_or_else(|| format!("a processor of number {machine}"), |(_, name)| (*name).to_string());
    let target = std::fs::read_link(exe).ok();
    let name = target.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let program = match name {
        Some(name) if name.starts_with("qemu-") => "qemu-user".to_string(),
        Some(name) => name,
        None => "a program without a name".to_string(),
    };
    Some(format!("{program} on {host}"))
}

/// The processor that a program is made for, by its ELF number.
fn machine(path: &Path) -> Option<u16> {
    let mut header = [0; MACHINE_AT + 2];
    std::fs::File::open(path).ok()?.read_exact(&mut header).ok()?;
    let number = [header[MACHINE_AT], header[MACHINE_AT + 1]];
    header.starts_with(MAGIC).then(|| match header[BYTE_ORDER_AT] {
        BIG_ENDIAN => u16::from_be_bytes(number),
        _ => u16::from_le_bytes(number),
    })
}

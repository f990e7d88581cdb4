//! Whether this program runs on a processor of its own kind, or on one that a program imitates.
//!
//! Under qemu-user an ARM program makes the host's system calls at an imitation's pace: what it counts is right, what it times is not. The
//! kernel knows: the program that it started, by `/proc/thread-self/exe`, is made for another processor than this one is. (`/proc/self/exe`
//! is answered by qemu itself, with the program that it runs.)

use std::io::Read;
use std::path::Path;

use flashmob_results::device::Device;
use flashmob_results::warning::{Code, Warning};

/// Where an ELF header names the processor, and how a file says that it has one.
const MAGIC: &[u8] = b"\x7fELF";
const BYTE_ORDER_AT: usize = 5;
const MACHINE_AT: usize = 18;
const BIG_ENDIAN: u8 = 2;

/// Processors as ELF numbers them, by the names that kernels give them.
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

/// The processor that this program was made for.
const OWN: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else if cfg!(target_arch = "arm") {
    Some(40)
} else if cfg!(target_arch = "x86") {
    Some(3)
} else {
    None
};

/// What imitates the processor, such as `qemu-user on x86_64`; nothing if none does, or if it cannot be known.
#[must_use]
pub fn emulator() -> Option<String> {
    emulator_of(Path::new("/proc/thread-self/exe"), OWN?)
}

/// The doubt that an imitated processor casts on a result.
#[must_use]
pub fn doubt(device: &Device) -> Option<Warning> {
    let emulator = device.emulated.as_ref()?;
    Some(Warning::new(
        Code::Emulated,
        format!("emulated by {emulator}: counts hold, times do not; repeat on a real device for its speed"),
    ))
}

/// The same of a file that the kernel runs and of a processor.
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

/// The processor that a program is made for, as its ELF header numbers it.
fn machine(path: &Path) -> Option<u16> {
    let mut header = [0; MACHINE_AT + 2];
    std::fs::File::open(path).ok()?.read_exact(&mut header).ok()?;
    let number = [header[MACHINE_AT], header[MACHINE_AT + 1]];
    header.starts_with(MAGIC).then(|| match header[BYTE_ORDER_AT] {
        BIG_ENDIAN => u16::from_be_bytes(number),
        _ => u16::from_le_bytes(number),
    })
}

//! An emulated processor is detected by the program that the kernel runs.

use std::path::{Path, PathBuf};

use flashmob_results::device::Device;
use flashmob_results::warning::Code;

use crate::emulation::{doubt, emulator, emulator_of};

const ARM: u16 = 40;

/// A link to a program with this header, as in /proc.
fn running(dir: &Path, name: &str, order: u8, machine: [u8; 2]) -> PathBuf {
    let mut header = vec![0x7f, b'E', b'L', b'F', 2, order, 1, 0];
    header.resize(18, 0);
    header.extend(machine);
    header.extend([0; 44]);
    let (program, link) = (dir.join(name), dir.join("exe"));
    std::fs::write(&program, header).unwrap();
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&program, &link).unwrap();
    link
}

#[test]
fn the_emulator_is_named_with_what_it_runs_on() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name, order, machine| emulator_of(&running(dir.path(), name, order, machine), ARM);
    assert_eq!(of("qemu-arm-static", 1, [62, 0]).as_deref(), Some("qemu-user on x86_64"));
    assert_eq!(of("qemu-arm", 1, [183, 0]).as_deref(), Some("qemu-user on aarch64"));
    assert_eq!(of("box32", 1, [183, 0]).as_deref(), Some("box32 on aarch64"));
    assert_eq!(of("qemu-arm", 2, [0, 22]).as_deref(), Some("qemu-user on s390x"));
    assert_eq!(of("odd", 1, [1, 2]).as_deref(), Some("odd on a processor of number 513"));
    assert_eq!(of("flashmob", 1, [40, 0]), None, "its own kind");
}

#[test]
fn what_cannot_be_read_is_no_emulator() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(emulator_of(&dir.path().join("absent"), ARM), None);
    let file = dir.path().join("file");
    std::fs::write(&file, b"\x7fELF").unwrap();
    assert_eq!(emulator_of(&file, ARM), None, "too short");
    std::fs::write(&file, [b'#'; 64]).unwrap();
    assert_eq!(emulator_of(&file, ARM), None, "no ELF header");
}

#[test]
fn a_result_of_an_emulated_device_says_so() {
    // The suite itself runs under qemu-user as well.
    assert_eq!(emulator().is_some(), std::env::var_os("FLASHMOB_TEST_EMULATED").is_some());
    let mut device = Device::default();
    assert_eq!(doubt(&device), None);
    device.emulated = Some("qemu-user on x86_64".into());
    let doubt = doubt(&device).unwrap();
    assert_eq!(doubt.code, Code::Emulated);
    assert!(doubt.message.contains("qemu-user on x86_64: counts hold, times do not"), "{}", doubt.message);
}

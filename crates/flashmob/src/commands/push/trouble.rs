//! Problems of a device on adb, recognised by the messages of adb and the device's shell, with their remedies.

use thiserror::Error;

/// Why a device did not do what was requested.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Trouble {
    #[error("the device has not authorized this computer: unlock it and accept 'Allow USB debugging'")]
    Unauthorised,
    #[error("the device is offline: unplug it, plug it in again and unlock it; if that does not help: adb kill-server")]
    Offline,
    #[error(
        "permission denied for the USB device: install its udev rules (Debian, Ubuntu: apt install android-sdk-platform-tools-common), join the group plugdev, and plug the device in again"
    )]
    NoPermissions,
    #[error(
        "no device is attached: plug one in and turn on USB debugging (Settings, Developer options); see: adb devices"
    )]
    NoDevice,
    #[error(
        "the device disconnected: check the cable and plug it in again; programs on it may still be running (flashmob push stop)"
    )]
    Vanished,
    #[error("the device has no space left: remove files, or give a smaller --size; see: flashmob push list")]
    NoSpace,
    #[error(
        "the device does not allow running programs in this folder: use a --folder that allows it, such as /data/local/tmp"
    )]
    NoExec,
    #[error(
        "the device cannot run this binary, which is for another processor: give the right one with --binary PATH; see: flashmob push list"
    )]
    WrongBinary,
    #[error(
        "no answer from adb within {seconds} s: check that the device is awake; if it is: adb kill-server, and try again"
    )]
    Silent { seconds: u64 },
    #[error("adb: {0}")]
    Other(String),
}

/// Recognises it.
pub fn trouble(said: &str) -> Trouble {
    let text = said.to_lowercase();
    let has = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    if has(&["unauthorized", "failed to authenticate"]) {
        Trouble::Unauthorised
    } else if has(&["no permissions", "insufficient permissions"]) {
        Trouble::NoPermissions
    } else if has(&["device offline", "is offline"]) {
        Trouble::Offline
    } else if has(&["no devices/emulators found", "no devices found"]) {
        Trouble::NoDevice
    } else if has(&["no space left", "enospc"]) {
        Trouble::NoSpace
    } else if has(&["not executable: ", "exec format error", "syntax error: unexpected", "cannot execute binary"]) {
        Trouble::WrongBinary
    } else if has(&["can't execute: permission denied", "flashmob: permission denied"]) {
        Trouble::NoExec
    } else if has(&[
        "not found",
        "connection reset",
        "protocol fault",
        "couldn't read from device",
        "failed to read",
        "error: closed",
        "eof",
    ]) && has(&["device", "protocol", "connection", "closed", "eof", "failed to read"])
    {
        Trouble::Vanished
    } else {
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        // An interrupted connection leaves no output.
        last.map_or(Trouble::Vanished, |line| {
            Trouble::Other(super::super::tell::harmless(line.trim_start_matches("adb: ").trim_start_matches("error: ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_adb_and_shells_say_is_recognised() {
        let cases = [
            ("error: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set", Trouble::Unauthorised),
            ("error: device offline", Trouble::Offline),
            (
                "error: insufficient permissions for device: user in plugdev group; are your udev rules wrong?",
                Trouble::NoPermissions,
            ),
            ("error: no devices/emulators found", Trouble::NoDevice),
            ("error: device 'abc' not found", Trouble::Vanished),
            ("error: closed", Trouble::Vanished),
            ("adb: error: failed to read copy response: EOF", Trouble::Vanished),
            ("", Trouble::Vanished),
            ("adb: error: failed to copy 'a' to 'b': remote write failed: No space left on device", Trouble::NoSpace),
            ("/system/bin/sh: /data/local/tmp/flashmob: not executable: 64-bit ELF file", Trouble::WrongBinary),
            ("sh: 1: /data/local/tmp/flashmob: Exec format error", Trouble::WrongBinary),
            ("/system/bin/sh: /sdcard/flashmob: can't execute: Permission denied", Trouble::NoExec),
            ("sh: 1: /data/local/tmp/flashmob: Permission denied", Trouble::NoExec),
            (
                "adb: error: cannot stat 'x': No such file or directory",
                Trouble::Other("cannot stat 'x': No such file or directory".into()),
            ),
            ("/system/bin/sh: sha256sum: not found", Trouble::Other("/system/bin/sh: sha256sum: not found".into())),
        ];
        for (said, expected) in cases {
            assert_eq!(trouble(said), expected, "{said}");
        }
    }

    #[test]
    fn what_a_device_says_does_not_write_to_the_terminal() {
        assert_eq!(trouble("bad \u{1b}[2Jthing"), Trouble::Other("bad \u{fffd}[2Jthing".into()));
    }
}

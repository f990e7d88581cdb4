//! The devices on adb, their properties, and their selection.

use serde::Serialize;

use super::adb::{ANSWER_TIMEOUT, Adb};
use super::trouble::Trouble;
use crate::commands::tell::harmless;

/// A line of `adb devices -l`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    pub serial: String,
    /// `device` if it is usable.
    pub state: String,
    /// As adb reports it, with underscores for spaces.
    pub model: Option<String>,
}

/// The properties that a device reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Properties {
    pub model: Option<String>,
    /// Its application binary interfaces, the preferred one first.
    pub abis: Vec<String>,
    /// The processor as its kernel reports it.
    pub machine: Option<String>,
    /// Such as 13.
    pub android: Option<String>,
    /// Free space in the folder of programs.
    pub free_bytes: Option<u64>,
    /// A node started by `push node` is running.
    pub node_runs: bool,
}

/// The devices on adb.
pub fn attached(adb: &Adb) -> anyhow::Result<Vec<Attached>> {
    Ok(parse_devices(&adb.text(["devices", "-l"], ANSWER_TIMEOUT)?))
}

fn parse_devices(text: &str) -> Vec<Attached> {
    text.lines()
        .filter(|line| !line.starts_with('*') && !line.starts_with("List of devices"))
        .filter_map(parse_device)
        .collect()
}

/// The states of adb's own list.
const STATES: [&str; 13] = [
    "authorizing",
    "bootloader",
    "connecting",
    "detached",
    "device",
    "host",
    "no permissions",
    "offline",
    "recovery",
    "rescue",
    "sideload",
    "unauthorized",
    "unknown",
];
/// A device without a serial number, in adb's list.
const NO_SERIAL: &str = "(no serial number)";
/// Precedes the number by which adb knows a connection, in its list, and here in the place of a serial number.
const TRANSPORT: &str = "transport_id:";

/// `SERIAL STATE usb:1-1 product:x model:Nexus_7 device:flo transport_id:1`. The serial number may have spaces and the words of states;
/// behind the state `no permissions` is a sentence, behind others are words with a colon alone.
fn parse_device(line: &str) -> Option<Attached> {
    let line = line.trim();
    let begins = line.match_indices(char::is_whitespace).map(|(at, blank)| at + blank.len());
    let (serial, state, rest) = begins.filter_map(|at| state_at(line, at)).next().or_else(|| {
        // A state of a later version.
        let (serial, rest) = line.split_once(char::is_whitespace)?;
        let (state, rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        Some((serial, state, rest))
    })?;
    let value = |name: &str| rest.split_whitespace().find_map(|word| word.strip_prefix(name));
    let model = value("model:").map(|name| harmless(&name.replace('_', " ")));
    let serial = match value(TRANSPORT) {
        Some(transport) if serial == NO_SERIAL => format!("{TRANSPORT}{transport}"),
        _ => serial.to_string(),
    };
    Some(Attached { serial: harmless(&serial), state: state.to_string(), model })
}

/// The serial number, the state and the rest, if a state begins at `at`.
fn state_at(line: &str, at: usize) -> Option<(&str, &str, &str)> {
    let state = STATES.into_iter().find(|state| {
        let rest = line[at..].strip_prefix(state);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    })?;
    let (serial, rest) = (line[..at].trim_end(), line[at + state.len()..].trim());
    let is_end = state == "no permissions" || rest.split_whitespace().all(|word| word.contains(':'));
    (is_end && !serial.is_empty()).then_some((serial, state, rest))
}

impl Attached {
    /// Why it is not usable, if so.
    pub fn trouble(&self) -> Option<Trouble> {
        match self.state.as_str() {
            "device" | "recovery" => None,
            "unauthorized" | "authorizing" => Some(Trouble::Unauthorised),
            "no permissions" => Some(Trouble::NoPermissions),
            _ => Some(Trouble::Offline),
        }
    }

    /// The options of adb that select it.
    pub fn selection(&self) -> [&str; 2] {
        match self.serial.strip_prefix(TRANSPORT) {
            Some(transport) => ["-t", transport],
            None => ["-s", &self.serial],
        }
    }

    /// Its display name.
    pub fn name(&self) -> String {
        match &self.model {
            Some(model) => format!("{model} ({})", self.serial),
            None => self.serial.clone(),
        }
    }
}

/// Selects the device with this serial number, all devices, or the only one.
pub fn choose(devices: Vec<Attached>, serial: Option<&str>, all: bool) -> anyhow::Result<Vec<Attached>> {
    let names = |devices: &[Attached]| devices.iter().map(Attached::name).collect::<Vec<_>>().join(", ");
    let chosen = match serial {
        Some(serial) => {
            let there = names(&devices);
            let found: Vec<_> = devices.into_iter().filter(|device| device.serial == serial).collect();
            anyhow::ensure!(
                !found.is_empty(),
                "no device {serial}; {}",
                if there.is_empty() { Trouble::NoDevice.to_string() } else { format!("attached: {there}") }
            );
            found
        }
        None if devices.is_empty() => return Err(Trouble::NoDevice.into()),
        None if all || devices.len() == 1 => devices,
        None => {
            anyhow::bail!(
                "several devices are attached: {}; choose one with --serial SERIAL, or use --all",
                names(&devices)
            )
        }
    };
    for device in &chosen {
        if let Some(trouble) = device.trouble() {
            return Err(anyhow::Error::from(trouble).context(device.name()));
        }
    }
    Ok(chosen)
}

/// Queries a device's properties.
pub fn properties(adb: &Adb, device: &Attached, folder: &str) -> anyhow::Result<Properties> {
    let folder = super::adb::quoted(folder);
    let script = format!(
        "for name in ro.product.model ro.product.cpu.abilist ro.product.cpu.abi ro.build.version.release; do echo \"$name=$(getprop $name)\"; done\n\
         echo \"machine=$(uname -m)\"\n{}\necho \"node=$node\"\necho df=; df -k {folder}; true",
        super::node::NODE_OF.replace("FOLDER", &folder)
    );
    Ok(parse_properties(&adb.shell_text(device.selection(), &script, ANSWER_TIMEOUT)?))
}

fn parse_properties(text: &str) -> Properties {
    let (values, df) = text.split_once("\ndf=\n").unwrap_or((text, ""));
    let value = |name: &str| {
        let found = values.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::trim);
        // A shell without the command prints an error in its place.
        found.filter(|value| !value.is_empty() && !value.contains("not found")).map(harmless)
    };
    let list = value("ro.product.cpu.abilist").or_else(|| value("ro.product.cpu.abi")).unwrap_or_default();
    Properties {
        model: value("ro.product.model"),
        abis: list.split(',').map(str::trim).filter(|abi| !abi.is_empty()).map(str::to_string).collect(),
        machine: value("machine"),
        android: value("ro.build.version.release"),
        free_bytes: parse_df(df),
        node_runs: value("node").is_some(),
    }
}

/// Free bytes: the column `Available` in KiB; before Android 6 `Free`, such as 9.8G.
fn parse_df(text: &str) -> Option<u64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Filesystem"));
    let titles: Vec<_> = lines.next()?.split_whitespace().collect();
    // A long file system name has its own line.
    let values: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    if let Some(column) = titles.iter().position(|title| title.starts_with("Avail")) {
        return values.get(column)?.parse::<u64>().ok()?.checked_mul(1024);
    }
    let value = values.get(titles.iter().position(|title| *title == "Free")?)?;
    let unit = match value.chars().last()? {
        'K' => 1024.0,
        'M' => 1024.0 * 1024.0,
        'G' => 1024.0 * 1024.0 * 1024.0,
        _ => return value.parse().ok(),
    };
    Some((value[..value.len() - 1].parse::<f64>().ok()? * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "* daemon started successfully\nList of devices attached\n\
        0a1b2c3d               device usb:1-1 product:razor model:Nexus_7 device:flo transport_id:1\n\
        127.0.0.1:5555         unauthorized transport_id:2\n\
        R58M                   no permissions (user in plugdev group; are your udev rules wrong?); see [http://developer.android.com/tools/device.html] usb:1-2 transport_id:3\n\
        emulator-5554          offline transport_id:4\n\n";

    #[test]
    fn devices_are_listed_with_their_states() {
        let devices = parse_devices(LIST);
        let states: Vec<_> = devices.iter().map(|d| (d.serial.as_str(), d.state.as_str())).collect();
        let expected = [
            ("0a1b2c3d", "device"),
            ("127.0.0.1:5555", "unauthorized"),
            ("R58M", "no permissions"),
            ("emulator-5554", "offline"),
        ];
        assert_eq!(states, expected);
        assert_eq!(devices[0].name(), "Nexus 7 (0a1b2c3d)");
        let troubles: Vec<_> = devices.iter().map(Attached::trouble).collect();
        assert_eq!(troubles, [None, Some(Trouble::Unauthorised), Some(Trouble::NoPermissions), Some(Trouble::Offline)]);
    }

    #[test]
    fn serial_numbers_may_have_blanks_and_words_of_states_or_be_absent() {
        for (line, serial, state, selection) in [
            (
                "my device (2)          device usb:1-1 product:x model:OCTP_7 device:y transport_id:60",
                "my device (2)",
                "device",
                ["-s", "my device (2)"],
            ),
            ("(no serial number)     device usb:1-3 transport_id:9", "transport_id:9", "device", ["-t", "9"]),
            ("ABC                    authorizing transport_id:64", "ABC", "authorizing", ["-s", "ABC"]),
            ("ABC                    dreaming transport_id:64", "ABC", "dreaming", ["-s", "ABC"]),
            ("ABC device", "ABC", "device", ["-s", "ABC"]),
            ("ABC\tdevice", "ABC", "device", ["-s", "ABC"]),
            (
                "a device offline       no permissions (user in plugdev group); see [http://x.y] usb:1-2",
                "a device offline",
                "no permissions",
                ["-s", "a device offline"],
            ),
        ] {
            let device = parse_device(line).unwrap();
            assert_eq!((&*device.serial, &*device.state, device.selection()), (serial, state, selection), "{line}");
        }
        assert_eq!(parse_device("ABC"), None);
        let waits = parse_device("ABC authorizing transport_id:1").unwrap();
        assert_eq!(waits.trouble(), Some(Trouble::Unauthorised));
    }

    proptest::proptest! {
        #[test]
        fn any_serial_number_is_read_as_it_is(serial in "[!-~]([ -~]{0,20}[!-~])?", state in 0..STATES.len()) {
            let line = format!("{serial:<22} {} usb:1-1 model:Nexus_7 transport_id:3", STATES[state]);
            let device = parse_device(&line).unwrap();
            let is_ambiguous = STATES.iter().any(|state| serial.contains(&format!(" {state}")));
            if !is_ambiguous && serial != NO_SERIAL {
                proptest::prop_assert_eq!((&*device.serial, &*device.state), (&*serial, STATES[state]));
            }
        }

        #[test]
        fn any_list_is_read(text in "\\PC{0,200}") {
            parse_devices(&text);
        }
    }

    #[test]
    fn one_is_chosen_or_it_is_said_which_there_are() {
        let devices = parse_devices(LIST);
        let message = |devices, serial, all| format!("{:#}", choose(devices, serial, all).unwrap_err());
        assert!(message(vec![], None, false).contains("USB debugging"));
        assert!(message(devices.clone(), None, false).contains("Nexus 7 (0a1b2c3d), 127.0.0.1:5555"));
        assert!(message(devices.clone(), Some("nobody"), false).contains("attached: Nexus 7"));
        assert!(message(devices.clone(), Some("127.0.0.1:5555"), false).contains("unlock it and accept"));
        assert!(message(devices.clone(), None, true).contains("127.0.0.1:5555"), "all of them means all of them");
        assert_eq!(choose(devices.clone(), Some("0a1b2c3d"), false).unwrap().len(), 1);
        assert_eq!(choose(devices[..1].to_vec(), None, false).unwrap().len(), 1);
    }

    #[test]
    fn properties_of_new_and_old_devices_are_read() {
        let new = parse_properties(
            "ro.product.model=Pixel 8\nro.product.cpu.abilist=arm64-v8a\nro.product.cpu.abi=arm64-v8a\nro.build.version.release=15\n\
             machine=aarch64\nnode=123\ndf=\nFilesystem       1K-blocks     Used Available Use% Mounted on\n/dev/block/dm-9  112000000 50000000  61000000  46% /data\n",
        );
        assert_eq!((new.model.as_deref(), new.android.as_deref(), new.node_runs), (Some("Pixel 8"), Some("15"), true));
        assert_eq!(new.free_bytes, Some(61_000_000 * 1024));
        let old = parse_properties(
            "ro.product.model=Nexus 7\nro.product.cpu.abilist=\nro.product.cpu.abi=armeabi-v7a\nro.build.version.release=4.4.4\n\
             machine=/system/bin/sh: uname: not found\nnode=\ndf=\nFilesystem               Size     Used     Free   Blksize\n/data/local/tmp         12.5G     2.7G     9.8G   4096\n",
        );
        assert_eq!(
            (old.abis.as_slice(), old.machine, old.node_runs),
            (["armeabi-v7a".to_string()].as_slice(), None, false)
        );
        assert_eq!(old.free_bytes, Some((9.8 * 1024.0 * 1024.0 * 1024.0) as u64));
        assert_eq!(parse_df("df: /data/local/tmp: Permission denied\n"), None);
        assert_eq!(
            parse_df("Filesystem 1K-blocks Used Available\n/dev/a/very/long/name\n 100 50 40\n"),
            Some(40 * 1024)
        );
        assert_eq!(parse_properties(""), Properties::default());
    }
}

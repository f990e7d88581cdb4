//! Reading and setting values.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::{Place, interface};
use crate::view::{Answer, View};

/// Why a value cannot be set.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum ChangeError {
    /// Only root may set it.
    #[error("{0} needs root to be set; run this as root")]
    NotPermitted(String),
    /// The system refused.
    #[error("{what} cannot be set to '{new}': {source}")]
    Refused { what: String, new: String, source: io::Error },
    /// The kernel accepted it and has another one.
    #[error("{what} was set to '{new}' and is '{found}'")]
    NotTaken { what: String, new: String, found: String },
}

/// The value as it is now.
///
/// # Errors
/// The system's; `NotFound` if there is no such place.
pub fn read(place: &Place) -> io::Result<String> {
    if !place.is_sound() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no place that is ever set here"));
    }
    match place {
        Place::Mtu { interface } => interface::mtu(interface).map(|mtu| mtu.to_string()),
        Place::PowerSave { interface } => match power_save(&View::of_this_device(), interface) {
            Ok(true) => Ok("on".into()),
            Ok(false) => Ok("off".into()),
            Err(why) => Err(io::Error::other(why)),
        },
        Place::Scheduler { .. } => {
            let text = std::fs::read_to_string(place.file())?;
            let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
            Ok(chosen.unwrap_or(text.trim()).to_string())
        }
        _ => {
            let text = std::fs::read_to_string(place.file())?;
            Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// Whether a Wi-Fi interface saves power, by `iw`; or why that is not known.
pub(crate) fn power_save(view: &View, interface: &str) -> Result<bool, String> {
    match view.ask("iw", &["dev", interface, "get", "power_save"]) {
        Answer::Said(text) => match text.split_once(':').map(|(_, value)| value.trim()) {
            Some("on") => Ok(true),
            Some("off") => Ok(false),
            _ => Err(format!("iw said nothing of it: '{}'", text.lines().next().unwrap_or_default())),
        },
        Answer::Refused(why) => Err(format!("iw could not tell: {why}")),
        Answer::Absent => Err("the program iw is not there".into()),
    }
}

/// Sets the value, and reads it back.
///
/// # Errors
/// See [`ChangeError`].
pub fn write(place: &Place, new: &str) -> Result<(), ChangeError> {
    let what = || place.words();
    let refused = |source: io::Error| match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => ChangeError::NotPermitted(what()),
        _ => ChangeError::Refused { what: what(), new: new.into(), source },
    };
    if !place.is_sound() || new.is_empty() || new.len() > 200 || new.contains(char::is_control) {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "no value that is ever set here");
        return Err(ChangeError::Refused { what: what(), new: new.into(), source });
    }
    match place {
        Place::Mtu { interface } => {
            let mtu = new.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no number"));
            mtu.and_then(|mtu| interface::set_mtu(interface, mtu)).map_err(refused)?;
        }
        Place::PowerSave { interface } => set_power_save(interface, new).map_err(refused)?,
        _ => {
            // In one write: the kernel takes each write for a value. Sysfs ignores the truncation, which ordinary files need.
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).truncate(true).open(place.file()).map_err(refused)?;
            file.write_all(new.as_bytes()).map_err(refused)?;
        }
    }
    let found = read(place).map_err(refused)?;
    if found == new { Ok(()) } else { Err(ChangeError::NotTaken { what: what(), new: new.into(), found }) }
}

fn set_power_save(interface: &str, value: &str) -> io::Result<()> {
    let mut command = Command::new("iw");
    command.args(["dev", interface, "set", "power_save", value]).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    // iw says "Operation not permitted (-1)".
    if said.contains("(-1)") { Err(io::Error::from_raw_os_error(libc::EPERM)) } else { Err(io::Error::other(said)) }
}

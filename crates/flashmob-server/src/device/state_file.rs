//! The file in which an app stores values that only an app may read: battery, screen, Doze. JSON, replaced by renaming.
//!
//! It is not trusted: it may be missing, half-written, huge, a pipe, or invalid. Invalid values are ignored; the rest counts.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flashmob_core::condition::{Condition, Network, THERMAL_STATUS_MAX};
use serde_json::{Map, Value};

/// Maximum size of the file, in bytes.
const BYTES_MAX: u64 = 64 * 1024;
/// Maximum age: if it is older, the app has ended or is stopped.
const BELIEVED_FOR: Duration = Duration::from_secs(60);
/// Battery temperatures beyond this are sensor errors.
const CELSIUS_MAX: f64 = 150.0;

/// The valid values of the file.
///
/// # Errors
/// Why none of it is valid.
pub fn read(path: &Path, now: SystemTime) -> Result<Condition, String> {
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = open.map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_string());
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("it is larger than {BYTES_MAX} bytes"));
    }
    parse(&bytes, metadata.modified().ok(), now)
}

/// The valid values of such a text; `modified` is used if it has no time of writing.
///
/// # Errors
/// If it is not a JSON object, or too old.
pub fn parse(bytes: &[u8], modified: Option<SystemTime>, now: SystemTime) -> Result<Condition, String> {
    let state: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not a JSON object: {error}"))?;
    let written = match state.get("written_at_unix_ms").and_then(Value::as_u64) {
        Some(ms) => UNIX_EPOCH.checked_add(Duration::from_millis(ms)),
        None => modified,
    };
    let age = written.map(|at| now.duration_since(at).unwrap_or_else(|ahead| ahead.duration()));
    match age {
        Some(age) if age <= BELIEVED_FOR => Ok(condition(&state)),
        Some(age) => Err(format!("it was written {} s ago or ahead of this clock", age.as_secs())),
        None => Err("it has no time of writing".to_string()),
    }
}

fn condition(state: &Map<String, Value>) -> Condition {
    let answer = |key: &str| state.get(key).and_then(Value::as_bool);
    let up_to = |key: &str, most: u8| {
        state.get(key).and_then(Value::as_u64).and_then(|n| u8::try_from(n).ok()).filter(|&n| n <= most)
    };
    let celsius = state.get("battery_celsius").and_then(Value::as_f64).filter(|c| c.abs() <= CELSIUS_MAX);
    let network = state.get("network").and_then(Value::as_str);
    Condition {
        battery_percent: up_to("battery_percent", 100),
        charging: answer("charging"),
        celsius_tenths: celsius.map(|c| (c * 10.0).round() as i16),
        screen_on: answer("screen_on"),
        thermal_status: up_to("thermal_status", THERMAL_STATUS_MAX),
        power_save: answer("power_save"),
        doze: answer("doze"),
        battery_exempt: answer("battery_exempt"),
        network: network.and_then(|name| Network::ALL.into_iter().find(|network| network.name() == name)),
        ..Condition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: &str = r#"{"written_at_unix_ms":1763800000000,"battery_percent":81,"charging":true,"battery_celsius":31.5,
        "screen_on":false,"thermal_status":0,"power_save":false,"doze":false,"battery_exempt":true,"network":"wifi","mood":1}"#;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn told(text: impl AsRef<[u8]>, now: SystemTime) -> Result<Condition, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path(), now)
    }

    fn believed(text: &str) -> Result<Condition, String> {
        told(text, SystemTime::now())
    }

    #[test]
    fn everything_that_an_app_tells_is_taken() {
        let expected = Condition {
            battery_percent: Some(81),
            charging: Some(true),
            celsius_tenths: Some(315),
            screen_on: Some(false),
            thermal_status: Some(0),
            power_save: Some(false),
            doze: Some(false),
            battery_exempt: Some(true),
            network: Some(Network::Wifi),
            ..Condition::default()
        };
        assert_eq!(told(ALL, at(1_763_800_000_000)), Ok(expected));
        assert_eq!(believed("{}"), Ok(Condition::default()));
    }

    #[test]
    fn it_is_believed_for_a_minute_by_its_own_time_or_the_files() {
        for (ms, is_believed) in [(60_000, true), (60_001, false), (-60_000, true), (-60_001, false)] {
            assert_eq!(told(ALL, at(1_763_800_000_000u64.saturating_add_signed(ms))).is_ok(), is_believed, "{ms}");
        }
        assert!(told(r#"{"charging":true}"#, SystemTime::now() + Duration::from_secs(62)).is_err());
        assert!(told(r#"{"written_at_unix_ms":18446744073709551615}"#, SystemTime::now()).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_not_known_and_the_rest_counts() {
        for odd in [
            r#""battery_percent":101"#,
            r#""battery_percent":-1"#,
            r#""battery_percent":"81""#,
            r#""battery_percent":8.5"#,
            r#""battery_celsius":1e9"#,
            r#""battery_celsius":null"#,
            r#""thermal_status":7"#,
            r#""screen_on":1"#,
            r#""network":"5G""#,
            r#""doze":[true]"#,
        ] {
            let known = Condition { charging: Some(true), ..Condition::default() };
            assert_eq!(believed(&format!("{{\"charging\":true,{odd}}}")), Ok(known), "{odd}");
        }
    }

    #[test]
    fn what_is_no_state_is_refused_and_waits_for_nobody() {
        let mut texts: Vec<Vec<u8>> = (0..ALL.len()).map(|cut| ALL.as_bytes()[..cut].to_vec()).collect();
        texts.extend(["[]", "1", "null", "{\"a\":", "{}x"].map(|text| text.as_bytes().to_vec()));
        texts.push(vec![0xff; 100]);
        texts.push(vec![b'['; 60_000]);
        texts.push(vec![b' '; 70_000]);
        for text in texts {
            assert!(told(&text, SystemTime::now()).is_err(), "{}", String::from_utf8_lossy(&text));
        }
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe.as_path(), dir.path(), Path::new("/nonexistent"), Path::new("/dev/zero")] {
            assert!(read(path, SystemTime::now()).is_err(), "{}", path.display());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_content_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), key in "[a-z_]{0,20}", value in any::<f64>()) {
            let _ = told(&bytes, SystemTime::now());
            let _ = believed(&format!("{{\"{key}\":{value},\"battery_celsius\":{value}}}"));
        }
    }
}

//! `flashmob push list`: the devices on adb, and the binary for each.

use flashmob_text::Bytes;
use serde::Serialize;

use super::adb::Adb;
use super::binary::Processor;
use super::devices::{Properties, attached, properties};
use super::{Form, trouble::Trouble};

/// A device in the list.
#[derive(Debug, Serialize)]
struct Listed {
    serial: String,
    state: String,
    #[serde(flatten)]
    properties: Properties,
    /// The binary for it.
    binary: Option<&'static str>,
    /// Why it is not usable.
    trouble: Option<String>,
}

pub fn run(adb: &Adb, folder: &str, form: Form) -> anyhow::Result<()> {
    let mut list = Vec::new();
    for device in attached(adb)? {
        let found = match device.trouble() {
            Some(trouble) => Err(trouble.into()),
            None => properties(adb, &device, folder),
        };
        let trouble = found.as_ref().err().map(ToString::to_string);
        let mut properties = found.unwrap_or_default();
        properties.model = properties.model.or(device.model);
        let processor = if trouble.is_none() { Processor::of(&properties) } else { Err(anyhow::anyhow!("")) };
        let trouble = trouble.or_else(|| processor.as_ref().err().map(ToString::to_string));
        let binary = processor.ok().map(Processor::name);
        list.push(Listed { serial: device.serial, state: device.state, properties, binary, trouble });
    }
    match form {
        Form::Json => println!("{}", serde_json::to_string_pretty(&list)?),
        Form::Text if list.is_empty() => println!("{}", Trouble::NoDevice),
        Form::Text => print!("{}", table(&list)),
    }
    Ok(())
}

fn table(list: &[Listed]) -> String {
    let titles = ["SERIAL", "MODEL", "ANDROID", "ABI", "BINARY", "FREE", "NODE"].map(str::to_string).to_vec();
    let mut rows = vec![titles];
    for device in list {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
        let free = device.properties.free_bytes.map(|bytes| Bytes(bytes).to_string());
        rows.push(vec![
            device.serial.clone(),
            or_dash(device.properties.model.clone()),
            or_dash(device.properties.android.clone()),
            or_dash(device.properties.abis.first().or(device.properties.machine.as_ref()).cloned()),
            or_dash(device.binary.map(str::to_string)),
            or_dash(free),
            if device.properties.node_runs { "runs" } else { "-" }.to_string(),
        ]);
    }
    let mut text = String::new();
    for (index, line) in flashmob_text::aligned(&rows, 7, "", usize::MAX).lines().enumerate() {
        text.push_str(&format!("{line}\n"));
        if let Some(trouble) = index.checked_sub(1).and_then(|index| list[index].trouble.as_ref()) {
            text.push_str(&format!("  {trouble}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_a_line_and_its_trouble_one_below() {
        let properties = Properties {
            model: Some("Nexus 7".into()),
            abis: vec!["armeabi-v7a".into()],
            android: Some("6.0.1".into()),
            free_bytes: Some(10 << 30),
            node_runs: true,
            ..Properties::default()
        };
        let list = [
            Listed { serial: "0a1b".into(), state: "device".into(), properties, binary: Some("armv7"), trouble: None },
            Listed {
                serial: "R58M".into(),
                state: "unauthorized".into(),
                properties: Properties::default(),
                binary: None,
                trouble: Some("unlock it".into()),
            },
        ];
        let expected = "SERIAL  MODEL    ANDROID  ABI          BINARY  FREE    NODE\n\
                        0a1b    Nexus 7  6.0.1    armeabi-v7a  armv7   10 GiB  runs\n\
                        R58M    -        -        -            -       -       -\n  unlock it\n";
        assert_eq!(table(&list), expected);
    }
}

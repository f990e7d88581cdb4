//! `flashmob key init`: draws the keys of a cluster.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flashmob_server::config::Config;
use flashmob_server::keys::Folder;

/// Generate the keys of a cluster and of its gateway, and add their folder to the configuration.
///
/// The folder is created next to the configuration file. Its file cluster.key signs the grants of gateways; it is only needed
/// for `flashmob key rotate` and may be kept offline. Back the folder up: without it, each node must be assigned to a new
/// cluster at the device (flashmob node --repin).
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
}

pub fn run(args: &InitArgs) -> anyhow::Result<()> {
    let path = &args.config;
    let config = Config::load(path)?;
    let (keys, is_named) = match &config.keys {
        Some(keys) => (keys.clone(), true),
        None => (path.with_extension("keys"), false),
    };
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = keys.file_name().unwrap_or_default().to_string_lossy();
    let named = with_keys(&text, &name);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !is_named {
        // Before anything is made.
        Config::parse(&named, &path.display().to_string(), &std::path::absolute(dir)?)?;
    }
    let cluster = Folder::at(&keys).create()?;
    if !is_named {
        replace(path, &named).with_context(|| {
            format!(
                "the keys are made, but {} cannot be changed: add the line keys = \"{name}\" at its top",
                path.display()
            )
        })?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "the cluster's key: {cluster}")?;
    writeln!(out, "the folder with the keys: {}; keep a copy of it elsewhere", keys.display())?;
    writeln!(out, "next: flashmob join {}, which shows a code for a device", path.display())?;
    Ok(())
}

/// The configuration with the line that names the folder: above the first line that is no comment.
fn with_keys(text: &str, name: &str) -> String {
    let is_comment = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let at: usize = text.split_inclusive('\n').take_while(|line| is_comment(line)).map(str::len).sum();
    let line = format!("keys = {}\n", toml_text(name));
    let begin = if at == text.len() && !text.is_empty() && !text.ends_with('\n') { "\n" } else { "" };
    format!("{}{begin}{line}{}", &text[..at], &text[at..])
}

fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// In one step, with the rights that the file has.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let path = fs::canonicalize(path)?;
    let mut new_path = path.clone();
    new_path.as_mut_os_string().push(".new");
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&new_path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(fs::metadata(&path)?.permissions()))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new_path, &path));
    if written.is_err() {
        // What was just made, and is of no use.
        let _ = fs::remove_file(&new_path);
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_named_above_the_first_section_and_below_the_first_comment() {
        assert_eq!(with_keys("# mine\n\nlisten = 'a'\n", "c.keys"), "# mine\n\nkeys = \"c.keys\"\nlisten = 'a'\n");
        assert_eq!(with_keys("[[volume]]\nname = 'v'", "c.keys"), "keys = \"c.keys\"\n[[volume]]\nname = 'v'");
        assert_eq!(with_keys("", "k"), "keys = \"k\"\n");
        assert_eq!(with_keys("# only", "k"), "# only\nkeys = \"k\"\n");
        assert_eq!(with_keys("a = 1\n", "q\"\\"), "keys = \"q\\\"\\\\\"\na = 1\n");
    }
}

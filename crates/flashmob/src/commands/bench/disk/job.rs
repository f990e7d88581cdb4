//! Job files: the same settings as on the command line, in TOML.
//!
//! Each key is an option without its dashes; a list is a TOML list or a text with commas. So job files support every
//! option of the command line, with the same values and messages.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use clap::{CommandFactory, Parser};
use toml::de::{DeTable, DeValue};

use super::settings::{Lines, nearest};

/// Longest job file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Reads the job file at `path`. Relative paths in it start at its own folder.
pub fn load(path: &Path) -> anyhow::Result<Lines> {
    let name = path.display();
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    // Special files have no length.
    let length = read.with_context(|| format!("cannot read the job file {name}"))? as u64;
    anyhow::ensure!(length <= FILE_BYTES_MAX, "{name}: larger than a job file may be ({FILE_BYTES_MAX} bytes)");
    let mut lines = parse(&text, &name.to_string())?;
    if let (Some(file), Some(folder)) = (&lines.file, path.parent()) {
        lines.file = Some(folder.join(file));
    }
    Ok(lines)
}

/// Reads a job file's text; `file` is its name in messages.
pub fn parse(text: &str, file: &str) -> anyhow::Result<Lines> {
    let line_of = |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(error.span().map_or(0, |span| span.start));
        anyhow::anyhow!("{file}:{line}: {}; write key = value, strings in quotes, lists in [ ]", error.message())
    })?;
    let command = Lines::command();
    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let mut arguments: Vec<OsString> = Vec::new();
    for (key, value) in table.get_ref() {
        let (name, line) = (key.get_ref().as_ref(), line_of(key.span().start));
        // TOML keys usually have underscores where command lines have dashes.
        let option = name.replace('_', "-");
        if !known.contains(&option.as_str()) {
            match nearest(&option, &known) {
                Some(near) => bail!("{file}:{line}: unknown key '{name}'; did you mean '{near}'?"),
                None => bail!("{file}:{line}: unknown key '{name}'; the keys are {}", known.join(", ")),
            }
        }
        match value.get_ref() {
            DeValue::Boolean(true) => arguments.push(format!("--{option}").into()),
            DeValue::Boolean(false) => {}
            other => {
                let text = text_of(other).with_context(|| {
                    format!("{file}:{line}: '{name}' must be a string, a number, or a list of them")
                })?;
                arguments.push(format!("--{option}={text}").into());
            }
        }
    }
    Lines::try_parse_from(arguments).map_err(|error| {
        let text = error.to_string();
        // The first line has the error; the others are about a command line.
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        anyhow::anyhow!("{file}: {first}")
    })
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> = items.iter().map(|item| text_of(item.get_ref())).collect();
            texts.map(|texts| texts.join(","))
        }
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(text: &str) -> String {
        format!("{:#}", parse(text, "job.toml").unwrap_err())
    }

    #[test]
    fn a_job_file_says_what_a_command_line_says() {
        let text = "# a comment\nblock-size = [1, \"4k\"]\nthreads = \"1,2\"\ntime = 0.5\nwrite = true\nsync = \"dsync\"\nfile = \"x\"\n";
        let line = "--block-size 1,4k --threads 1,2 --time 0.5 --write --sync dsync --file x";
        let (job, line) = (parse(text, "j").unwrap(), Lines::try_parse_from(line.split(' ')).unwrap());
        assert_eq!((job.settings, job.file), (line.settings, line.file));
        assert!(!parse("block_size = 1\nwrite = false", "j").unwrap().settings.write);
        assert_eq!(parse("", "j").unwrap().settings, Default::default());
    }

    #[test]
    fn what_has_no_end_is_no_job_file() {
        let message = format!("{:#}", load(Path::new("/dev/zero")).unwrap_err());
        assert!(message.contains("larger than a job file may be"), "{message}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_a_remedy() {
        assert_eq!(message("\nblok-size = 1"), "job.toml:2: unknown key 'blok-size'; did you mean 'block-size'?");
        assert!(message("zzz = 1").contains("the keys are size, pattern"), "{}", message("zzz = 1"));
        assert!(message("a = 1\nthreads 4").starts_with("job.toml:2: "), "{}", message("a = 1\nthreads 4"));
        assert_eq!(message("[threads]\na = 1"), "job.toml:1: 'threads' must be a string, a number, or a list of them");
        assert!(
            message("pattern = 'shufle'").starts_with("job.toml: invalid value 'shufle'"),
            "{}",
            message("pattern = 'shufle'")
        );
        assert!(message("reads = 1\ntime = 1").contains("cannot be used with"));
        assert!(message("write = 1").contains("--write"), "{}", message("write = 1"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z=\"\\[\\]0-9,. \n-]{0,80}") {
            let _ = parse(&text, "j");
        }
    }
}

//! The command line that results record, so that a report can show how to repeat a measurement.

/// Holds the recorded command line in processes that a measuring command starts: they measure on its behalf.
pub const VARIABLE: &str = "FLASHMOB_COMMAND_LINE";

/// The command line that repeats the running measurement, quoted for a POSIX shell: that of this process, or of the command that started it.
///
/// `--save FILE` is left out, because a repetition must not overwrite the result.
pub fn recorded() -> String {
    std::env::var(VARIABLE)
        .unwrap_or_else(|_| repeatable(std::env::args_os().map(|word| word.to_string_lossy().into())))
}

fn repeatable(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["flashmob".to_string()];
    let mut arguments = arguments.skip(1).peekable();
    // After `--` follows another program's command line, unless it is this program in the lab.
    let mut is_own = true;
    while let Some(word) = arguments.next() {
        if is_own && word == "--" {
            is_own = arguments.peek().is_some_and(|program| program.rsplit('/').next() == Some("flashmob"));
        }
        if is_own && word == "--save" {
            arguments.next();
        } else if !(is_own && word.starts_with("--save=")) {
            words.push(quoted(&word));
        }
    }
    words.join(" ")
}

/// A word quoted for a POSIX shell, whatever its characters.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_repeats_without_overwriting_its_result() {
        for (arguments, expected) in [
            (
                ["/usr/bin/flashmob", "bench", "disk", "my file", "--save", "a.json", "--label=Anna's"].as_slice(),
                r"flashmob bench disk 'my file' '--label=Anna'\''s'",
            ),
            (
                &["flashmob", "trace", "run", "--save=a", "--", "tar", "--save", "$x"],
                "flashmob trace run -- tar --save '$x'",
            ),
            (
                &[
                    "flashmob",
                    "lab",
                    "run",
                    "--nodes=2",
                    "--",
                    "flashmob",
                    "bench",
                    "cluster",
                    "--save",
                    "a",
                    "--links=1",
                ],
                "flashmob lab run --nodes=2 -- flashmob bench cluster --links=1",
            ),
            (&["flashmob", "bench", "net", "--save"], "flashmob bench net"),
        ] {
            assert_eq!(repeatable(arguments.iter().map(|word| (*word).to_string())), expected);
        }
    }
}

//! The command line that results record, so that a report can show how to repeat a measurement.

/// Holds the recorded command line in processes that a measuring command starts: they measure on its behalf.
pub const VARIABLE: &str = "FLASHMOB_COMMAND_LINE";

/// The command line that repeats the running measurement, quoted for a POSIX shell: that of this process, or of the command that started it.
///
/// `--save FILE` is left out, because a repetition must not overwrite the result.
pub fn recorded() -> String {
    recorded_before(0)
}

/// [`recorded`], for a command that ends with another program's command line of `foreign` words, whose own `--save` stays.
pub fn recorded_before(foreign: usize) -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| {
        let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
        repeatable(&words, foreign)
    })
}

fn repeatable(arguments: &[String], foreign: usize) -> String {
    let (arguments, foreign) = arguments.split_at(arguments.len().saturating_sub(foreign));
    let mut words = vec!["flashmob".to_string()];
    let mut arguments = arguments.iter().peekable();
    // After `--` follows another program's command line, unless it is this program in the lab.
    let mut is_own = true;
    while let Some(word) = arguments.next() {
        if is_own && word == "--" {
            is_own = arguments.peek().is_some_and(|program| program.rsplit('/').next() == Some("flashmob"));
        }
        if is_own && word == "--save" {
            arguments.next();
        } else if !(is_own && word.starts_with("--save=")) {
            words.push(quoted(word));
        }
    }
    words.extend(foreign.iter().map(|word| quoted(word)));
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
        for (arguments, foreign, expected) in [
            (
                ["bench", "disk", "my file", "--save", "a.json", "--label=Anna's"].as_slice(),
                0,
                r"flashmob bench disk 'my file' '--label=Anna'\''s'",
            ),
            (&["trace", "run", "--save=a", "--", "tar", "--save", "$x"], 3, "flashmob trace run -- tar --save '$x'"),
            (&["trace", "run", "--save", "a", "tar", "--save", "$x"], 3, "flashmob trace run tar --save '$x'"),
            (
                &["lab", "run", "--nodes=2", "--", "flashmob", "bench", "cluster", "--save", "a", "--links=1"],
                0,
                "flashmob lab run --nodes=2 -- flashmob bench cluster --links=1",
            ),
            (&["bench", "net", "--save"], 0, "flashmob bench net"),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_string()).collect();
            assert_eq!(repeatable(&arguments, foreign), expected);
        }
    }
}

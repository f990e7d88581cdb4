//! The log on stderr.

use std::io::{self, Write};

use env_logger::fmt::Formatter;
use env_logger::{Builder, Env};
use flashmob_text::{harmless, shortened};
use log::Record;

/// Begins to log, as much as `-v` and `-q`, or FLASHMOB_LOG, say.
pub fn start(verbose: u8, quiet: bool) {
    let level = match (quiet, verbose) {
        (true, _) => "warn",
        (false, 0) => "info",
        (false, 1) => "debug",
        (false, _) => "trace",
    };
    Builder::from_env(Env::default().filter_or("FLASHMOB_LOG", level)).format(write_record).init();
}

/// The most columns of a line of a message.
const LINE_COLUMNS_MAX: usize = 1000;

/// Writes a message. What it quotes may be anybody's text: it steers no terminal, and none of its lines looks like another message, also not where a terminal
/// wraps it behind many blanks.
fn write_record(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let style = out.default_level_style(record.level());
    let text = record.args().to_string();
    let mut lines = text.split('\n').map(|line| shortened(&harmless(&with_single_blanks(line)), LINE_COLUMNS_MAX));
    let first = lines.next().unwrap_or_default();
    writeln!(out, "[{} {style}{:<5}{style:#}] {first}", out.timestamp(), record.level())?;
    lines.try_for_each(|line| writeln!(out, "  {line}"))
}

/// A line whose blanks are single ones, but for those before it.
fn with_single_blanks(line: &str) -> String {
    // Those that steer a terminal are shown.
    let is_blank = |c: char| c.is_whitespace() && !c.is_control();
    let words = line.trim_start_matches(is_blank);
    let before = &line[..line.len() - words.len()];
    let words: Vec<&str> = words.split(is_blank).filter(|word| !word.is_empty()).collect();
    format!("{before}{}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use env_logger::{Target, WriteStyle};
    use log::{Level, Log};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blanks_do_not_push_words_into_a_line_of_their_own() {
        assert_eq!(with_single_blanks("  busy;   \u{3000} [time INFO ] x  "), "  busy; [time INFO ] x");
        assert_eq!(with_single_blanks(""), "");
    }

    #[test]
    fn what_a_stranger_sends_neither_forges_a_line_nor_steers_a_terminal() {
        let written = Written::default();
        let logger = Builder::new()
            .filter_level(log::LevelFilter::Info)
            .target(Target::Pipe(Box::new(written.clone())))
            .write_style(WriteStyle::Never)
            .format(write_record)
            .build();
        let volume = "pool\u{1b}[2J\r\n[2026-01-01T00:00:00Z INFO ] all is well\u{202e}";
        logger.log(&Record::builder().level(Level::Warn).args(format_args!("refused: volume '{volume}'")).build());
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("WARN ] refused: volume 'pool\u{fffd}[2J\u{fffd}"), "{text}");
        assert_eq!(lines[1..], ["  [2026-01-01T00:00:00Z INFO ] all is well\u{fffd}'"]);
    }
}

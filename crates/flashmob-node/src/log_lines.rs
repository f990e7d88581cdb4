//! The log on stderr.

use std::io::{self, Write};

use env_logger::fmt::Formatter;
use env_logger::{Builder, Env};
use flashmob_text::message_lines;
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

/// Writes a message. What it quotes may be anybody's text: it steers no terminal, and none of its lines looks like another message, also not where a terminal
/// wraps it behind many blanks.
fn write_record(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let style = out.default_level_style(record.level());
    let text = record.args().to_string();
    let mut lines = message_lines(&text);
    let first = lines.next().unwrap_or_default();
    writeln!(out, "[{} {style}{:<5}{style:#}] {first}", out.timestamp(), record.level())?;
    lines.try_for_each(|line| writeln!(out, "{line}"))
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

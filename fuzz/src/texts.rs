//! What people write and other programs keep as text: sizes, job files, result files. What is no UTF-8 is no text.

use std::path::Path;

use flashmob::commands::bench::disk::job;
use flashmob_core::units::{Bytes, parse_size};
use flashmob_report::{Input, Report};
use flashmob_results::read;

/// Sizes: any text is read or refused, and what is read is what it says.
pub fn sizes(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match parse_size(text) {
        Ok(bytes) => {
            assert!(bytes <= i64::MAX as u64);
            // The same number without unit or decoration means the same.
            assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
            assert_eq!(parse_size(&format!("  {text}\n")), Ok(bytes));
            assert!(!Bytes(bytes).to_string().is_empty());
        }
        Err(error) => assert!(error.to_string().contains(text), "the message does not show the text"),
    }
}

/// A job file of `flashmob bench disk`: any text gives settings or an error.
pub fn job(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(lines) = job::parse(text, "job.toml") {
        // What was accepted gives points, or says why not.
        if let Ok(grid) = lines.settings.grid() {
            let _ = grid.points(1 << 30);
        }
    }
}

/// A result file: any text is refused with an error, or makes a page and a table.
pub fn results(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(document) = read::text(text, Path::new("result.json")) {
        let report = Report::new(vec![Input { path: "result.json".into(), document }]);
        let _ = report.html();
        let _ = report.csv();
    }
}

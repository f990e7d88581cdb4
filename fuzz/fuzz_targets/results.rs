//! A result file: any text is refused with an error, or makes a page and a table.

#![no_main]

use std::path::Path;

use flashmob_report::{Input, Report};
use flashmob_results::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(document) = read::text(text, Path::new("result.json")) {
        let report = Report::new(vec![Input { path: "result.json".into(), document }]);
        let _ = report.html();
        let _ = report.csv();
    }
});

//! A result file: any text is refused with an error, or makes a page and a table.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::texts::results(data));

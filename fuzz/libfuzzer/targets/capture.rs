//! Captures: any bytes are refused with a reason, or give counts that add up.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::capture::run(data));

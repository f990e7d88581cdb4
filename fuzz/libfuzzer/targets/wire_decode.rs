//! Frames and their contents: what is decoded stays within its limits and encodes to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::wire::run(data));

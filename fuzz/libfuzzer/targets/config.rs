//! Configurations: any text is read or refused with a reason; what is read survives being written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::config::run(data));

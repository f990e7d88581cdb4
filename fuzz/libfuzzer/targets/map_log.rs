//! The file of a map: any bytes are refused with a reason, or give a sound image that survives being written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::map_log::run(data));

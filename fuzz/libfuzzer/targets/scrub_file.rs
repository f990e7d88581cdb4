//! The file of a volume's scrubs: any bytes are refused, or give what a gateway can go on with, and survive being written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::scrub_file::run(data));

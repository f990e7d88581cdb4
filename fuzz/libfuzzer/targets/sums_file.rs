//! The file of checksums: any bytes are refused with a reason, or give sound values that survive being written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::sums_file::run(data));

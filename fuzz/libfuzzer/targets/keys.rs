//! Grants, pins and public keys: any bytes are refused with a reason, or give values that survive being written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::keys::run(data));

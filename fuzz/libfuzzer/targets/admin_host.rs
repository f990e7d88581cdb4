//! The check of a request's Host and Origin: what is taken was meant for this server.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::admin_host::run(data));

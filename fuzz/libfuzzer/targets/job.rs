//! A job file of `flashmob bench disk`: any text gives settings or an error, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::texts::job(data));

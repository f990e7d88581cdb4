//! The beginning of a TLS connection with any bytes: no key is proven by them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::tls::run(data));

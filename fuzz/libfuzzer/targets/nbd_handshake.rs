//! NBD clients from the greeting on: any stream, in any chunks, ends in an open export, a refusal or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::nbd::handshake(data));

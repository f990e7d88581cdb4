//! NBD clients behind the handshake: what is accepted lies in the export, and memory is held to its limit.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::nbd::requests(data));

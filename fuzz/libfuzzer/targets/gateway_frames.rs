//! A gateway, its clients and what nodes may send it: every request is answered once, and nothing is held for ever.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::gateway_frames::run(data));

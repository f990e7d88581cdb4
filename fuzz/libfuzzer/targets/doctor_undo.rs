//! What the doctor reads: an undo names nothing but what is ever set, and no device's files make a check panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::doctor::undo(data));

//! A node and what gateways may send it: every piece that it takes is answered once, and nothing is held for ever.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::node_frames::run(data));

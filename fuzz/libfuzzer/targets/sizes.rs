//! Sizes as people write them: any text is read or refused, and what is read is what it says.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::texts::sizes(data));

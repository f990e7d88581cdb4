//! What devices tell, at `/join`, by multicast DNS and in files: within the limits whatever comes, and a node that belongs to a volume never seems free.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::heard::run(data));

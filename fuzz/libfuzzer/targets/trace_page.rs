//! Pages of a kernel's buffer: any bytes give events in the order of their times, and a count of bytes that adds up.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::trace::page(data));

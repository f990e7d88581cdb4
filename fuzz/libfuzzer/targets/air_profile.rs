//! Modelled airs as people write them: any text is read or refused with a reason; what is read carries frames.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::air_profile::run(data));

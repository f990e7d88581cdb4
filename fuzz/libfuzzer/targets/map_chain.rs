//! A signed map in etcd: any parts make a map that a gateway has signed, or none.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::map_chain::run(data));

//! What etcd answers: any bytes are refused with a reason, or give values that do not depend on how the JSON is laid out.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::etcd::run(data));

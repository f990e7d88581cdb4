//! What a peer of `bench net` sends: read or refused; what is read as parameters or results comes back when it is written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::iperf3::run(data));

//! Enrolment: messages, codes and links with any bytes, and a desk that nobody convinces without a secret.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::enroll::run(data));

//! Layouts of events and pages as a kernel tells them: any text gives fields whose values lie within a record, or is refused with a reason.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| flashmob_fuzz::trace::format(data));

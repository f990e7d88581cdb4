//! Sizes as people write them: any text is read or refused, and what is read is what it says.

#![no_main]

use flashmob_core::units::{Bytes, parse_size};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match parse_size(text) {
        Ok(bytes) => {
            assert!(bytes <= i64::MAX as u64);
            // The same number without unit or decoration means the same.
            assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
            assert_eq!(parse_size(&format!("  {text}\n")), Ok(bytes));
            assert!(!Bytes(bytes).to_string().is_empty());
        }
        Err(error) => assert!(error.to_string().contains(text), "the message does not show the text"),
    }
});

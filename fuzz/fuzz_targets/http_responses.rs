//! Any bytes as the responses of a connection.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/splice/tests/support/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::responses(data));

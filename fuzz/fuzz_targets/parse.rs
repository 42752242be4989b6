//! Any bytes through the checks of `parse`.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wire/tests/support/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::parse(data));

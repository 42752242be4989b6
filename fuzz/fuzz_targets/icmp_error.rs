//! Any bytes through the checks of `icmp_error`.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wire/tests/support/checks.rs"]
mod checks;
#[allow(dead_code)]
#[path = "../../crates/wire/tests/support/replies.rs"]
mod replies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| replies::icmp_error(data));

//! Any segments through the L7 forwarding agent.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/splice/tests/support/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::agent(data));

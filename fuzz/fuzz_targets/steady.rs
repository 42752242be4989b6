//! Any segments behind a request: through the agent alone, and with its fast path in front.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/splice/tests/support/checks.rs"]
mod checks;
#[allow(dead_code)]
#[path = "../../crates/splice/tests/support/shortcut.rs"]
mod shortcut;
#[path = "../../crates/splice/tests/support/steady.rs"]
mod steady;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    steady::twins(data);
});

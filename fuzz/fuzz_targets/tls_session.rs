//! Records of a connection whose secrets were handed over, changed on their way: what comes
//! out is what the client has sent, in order and once.
#![no_main]

#[path = "../../crates/tls/tests/support/handed_over.rs"]
mod handed_over;

libfuzzer_sys::fuzz_target!(|data: &[u8]| handed_over::check(data));

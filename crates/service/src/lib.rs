//! VIPs, backends, schedulers, Maglev and the action: pure logic.
#![forbid(unsafe_code)]

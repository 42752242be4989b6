//! The hybrid load balancer: one program.
#![forbid(unsafe_code)]

fn main() {}

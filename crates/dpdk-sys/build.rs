//! Generates the bindings and compiles the shim.

fn main() {}

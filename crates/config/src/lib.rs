//! The configuration file: TOML, its schema and its errors.
#![forbid(unsafe_code)]

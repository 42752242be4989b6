//! Encodings, rule life cycle, quiescing: the connection table in the NIC.
#![forbid(unsafe_code)]

//! The connection table, TCP state and ageing.

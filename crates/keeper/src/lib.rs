//! Slow work on the state that all threads share: connections age, and next
//! hops are resolved and kept fresh.
//!
//! Nothing here knows a thread or a clock: time is an argument, and frames and
//! connections to withdraw are given to closures.
#![forbid(unsafe_code)]

mod ager;
mod resolver;

pub use ager::{Ager, AgerSettings};
pub use resolver::{Resolver, ResolverSettings};

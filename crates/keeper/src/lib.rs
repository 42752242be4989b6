//! Slow work on the state that all threads share: connections age, and next
//! hops are resolved and kept fresh.
//!
//! [`Keeper::turn`] does all of it. The crate knows no thread, clock or driver: time
//! is an argument, and the results of a turn go to a [`KeeperOutbox`].
#![forbid(unsafe_code)]

mod ager;
mod keeper;
mod resolver;

pub use ager::{Ager, AgerSettings};
pub use keeper::{Keeper, KeeperOutbox};
pub use resolver::{LinkNotice, Resolver, ResolverSettings};

//! Slow work on the state that all threads share: connections age, and next
//! hops are resolved and kept fresh.
//!
//! [`Keeper::turn`] does all of it. Nothing here knows a thread, a clock or a
//! driver: time is an argument, and what a turn gives out goes to a
//! [`KeeperOutbox`].
#![forbid(unsafe_code)]

mod ager;
mod keeper;
mod resolver;

pub use ager::{Ager, AgerSettings};
pub use keeper::{Keeper, KeeperOutbox};
pub use resolver::{LinkNotice, Resolver, ResolverSettings};

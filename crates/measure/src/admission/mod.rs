//! Who gets the entries of a card, in emulated time: how many packets are
//! matched with each policy, and with one that knows every rate.
//!
//! Packets come at a stated rate and each is of a connection drawn by Zipf's
//! law, independently. One in 64 is told to the offload side, as workers do;
//! one in 64 of independent draws are independent draws again, so only those
//! are drawn. What is matched is not sampled: it is the sum of the true rates
//! of the connections whose rule is in the card.
mod card;
mod oracle;
mod policy;
mod population;
mod row;
mod run;
mod show;
mod spread;

pub use row::{Row, Summary};
pub use run::{Change, Options, Outcome, run};

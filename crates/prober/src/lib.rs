//! Tries out a card: which rules its driver takes, whether packets obey them, how many
//! rules its match table holds, what inserting them and matching packets costs, and what
//! a change of the redirection table costs. `hnlb nic probe` prints the [`Report`].
//!
//! A [`Card`] is the emulated NIC ([`EmulatedCard`]) or a port of DPDK. All rules that
//! are made here are destroyed again.
#![forbid(unsafe_code)]

mod advice;
mod card;
mod catalogue;
mod emulated;
mod examine;
mod frame;
mod held;
mod page;
mod redirection;
mod report;
mod spread;
mod table;
mod trial;

pub use card::{Card, Facts, Fate, Passed};
pub use emulated::EmulatedCard;
pub use examine::{Options, examine};
pub use frame::is_ours as is_trial_frame;
pub use report::{
    Advice, Area, RedirectionReport, Report, TableReport, TableStep, TrialOutcome, Verdict,
};
pub use spread::Spread;

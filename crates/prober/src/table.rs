//! How many rules the match table holds, how long one takes, and what packets take with
//! so many rules in it.
mod fill;
mod latency;
mod queued;

pub(crate) use fill::fill;
pub(crate) use queued::fill_by_queue;

/// Numbers of rules at which the table is looked at: 0, 1, and then powers of two from
/// 128, as far as it goes.
fn is_step(rules: u32) -> bool {
    rules <= 1 || (rules >= 128 && rules.is_power_of_two())
}

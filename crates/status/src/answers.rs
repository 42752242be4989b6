//! How soon backends answer new connections.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How soon first answers came. Of connections: SYN to SYN and ACK, or a datagram to the
/// first one back; in one-way modes and for `protocol = "http"` none are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FirstAnswers {
    /// Answers.
    pub count: u64,
    /// The milliseconds of all of them together.
    pub sum_ms: u64,
    /// Answers that took less than a bound, those of lower bounds included.
    pub below: Vec<AnswersBelow>,
}

/// Answers that took less than a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnswersBelow {
    /// The bound in milliseconds.
    pub ms: u16,
    /// How many.
    pub count: u64,
}

impl FirstAnswers {
    /// The lowest bound in milliseconds that so large a `part` of all answers is below;
    /// `None`: there are none, or it is above all bounds.
    #[must_use]
    pub fn quantile_ms(&self, part: f64) -> Option<u16> {
        if self.count == 0 {
            return None;
        }
        let wanted = part * self.count as f64;
        self.below.iter().find(|own| own.count as f64 >= wanted).map(|own| own.ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_that_enough_answers_are_below() {
        let below = [(1, 50), (5, 98), (100, 99)].map(|(ms, count)| AnswersBelow { ms, count });
        let all = FirstAnswers { count: 100, sum_ms: 400, below: below.to_vec() };
        let quantiles = [0.5, 0.51, 0.98, 0.99, 0.999].map(|part| all.quantile_ms(part));
        assert_eq!(quantiles, [Some(1), Some(5), Some(5), Some(100), None]);
        assert_eq!(FirstAnswers::default().quantile_ms(0.5), None);
    }
}

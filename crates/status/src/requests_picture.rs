//! What becomes of requests in a second.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RequestsStatus;

/// What becomes of requests in a second; `None` in the first picture, and of services that
/// read none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestsPicture {
    /// Responses, those of HNLB itself included.
    pub responses: Option<f64>,
    /// Those of them with a status code of 500 to 599.
    pub server_errors: Option<f64>,
    /// The mean time to the first byte in milliseconds; `None` without a response.
    pub first_byte_ms: Option<f64>,
}

impl RequestsPicture {
    /// The rates from `before` to `now`, which is `seconds` later.
    #[must_use]
    pub fn between(
        before: Option<&RequestsStatus>,
        now: Option<&RequestsStatus>,
        seconds: f64,
    ) -> Self {
        let Some((before, now)) = before.zip(now) else { return Self::default() };
        let rate = |count: fn(&RequestsStatus) -> u64| {
            Some(count(now).saturating_sub(count(before)) as f64 / seconds)
        };
        let count = now.first_bytes.count.saturating_sub(before.first_bytes.count);
        let sum = now.first_bytes.sum_ms.saturating_sub(before.first_bytes.sum_ms);
        Self {
            responses: rate(|own| own.responses.sum() + own.own.sum()),
            server_errors: rate(|own| own.responses.server_error + own.own.server_error),
            first_byte_ms: (count > 0).then(|| sum as f64 / count as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FirstAnswers;

    #[test]
    fn rates_are_of_what_came_between_the_two_reports() {
        let status = |backend: [u64; 5], own: [u64; 5], count, sum_ms| RequestsStatus {
            responses: backend.into(),
            own: own.into(),
            first_bytes: FirstAnswers { count, sum_ms, ..FirstAnswers::default() },
            ..RequestsStatus::default()
        };
        let before = status([0, 10, 0, 0, 1], [0, 0, 0, 2, 3], 11, 100);
        let now = status([1, 30, 2, 1, 5], [0, 0, 0, 4, 4], 37, 230);
        let between = RequestsPicture::between;
        let (responses, server_errors) = (Some(15.5), Some(2.5));
        let wanted = RequestsPicture { responses, server_errors, first_byte_ms: Some(5.0) };
        assert_eq!(between(Some(&before), Some(&now), 2.0), wanted);
        assert_eq!(between(None, Some(&now), 2.0), RequestsPicture::default());
        assert_eq!(between(Some(&now), Some(&now), 1.0).first_byte_ms, None);
    }
}

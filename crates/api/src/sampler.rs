//! Reports that are asked for again and again, kept so that each gives rates since the
//! one before, however many clients look.
use std::time::{Duration, Instant};

use control::{Refusal, Request};
use status::{Picture, Status};
use tokio::sync::Mutex;

use crate::engine::Engine;

/// How long a report serves everyone who asks.
const FRESH: Duration = Duration::from_millis(900);
/// How long a report is one to compare with: nobody looked in between.
const RECENT: Duration = Duration::from_secs(10);

/// The last two reports.
#[derive(Debug, Default)]
pub(crate) struct Sampler(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    before: Option<Status>,
    last: Option<(Instant, Status)>,
}

impl Sampler {
    /// What happens now.
    pub(crate) async fn picture(&self, engine: &Engine) -> Result<Picture, Refusal> {
        // The lock is kept while the load balancer is asked: others wait for the answer.
        let mut samples = self.0.lock().await;
        if samples.is_stale(Instant::now()) {
            let status = engine.ask_for(Request::Status).await?;
            samples.take(status, Instant::now());
        }
        let Samples { before, last } = &*samples;
        let picture = last.as_ref().map(|(_, last)| Picture::between(before.as_ref(), last));
        Ok(picture.unwrap_or_default())
    }
}

impl Samples {
    fn is_stale(&self, now: Instant) -> bool {
        self.last.as_ref().is_none_or(|(at, _)| now.duration_since(*at) >= FRESH)
    }

    fn take(&mut self, status: Status, now: Instant) {
        let last = self.last.replace((now, status));
        let recent = last.filter(|(at, _)| now.duration_since(*at) < RECENT);
        self.before = recent.map(|(_, status)| status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_since_the_report_before_if_that_is_recent() {
        let mut samples = Samples::default();
        let start = Instant::now();
        assert!(samples.is_stale(start));
        let status = |uptime_seconds| Status { uptime_seconds, ..Status::default() };
        samples.take(status(1.0), start);
        assert!(!samples.is_stale(start + FRESH / 2) && samples.is_stale(start + FRESH));
        assert!(samples.before.is_none());
        samples.take(status(2.0), start + FRESH);
        assert_eq!(samples.before.as_ref().unwrap().uptime_seconds, 1.0);
        samples.take(status(60.0), start + FRESH + RECENT);
        assert!(samples.before.is_none(), "a mean over a pause says nothing of now");
    }
}

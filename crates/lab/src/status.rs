//! What `hnlb status --json` says, as far as the lab reads it.

pub use ::status::Status;

/// Who found the packets' connections between an earlier report and a later
/// one: by mark or queue, or by a lookup, as the workers saw it; and those that
/// the NIC has sent on, past all workers.
#[must_use]
pub fn matches(earlier: &Status, later: &Status) -> Matches {
    let since = |name: &str| {
        let count = |status: &Status| status.counters.get(name).copied().unwrap_or(0);
        count(later).saturating_sub(count(earlier))
    };
    Matches {
        matched: since("matched_by_mark")
            + since("matched_by_queue")
            + past_workers(later).saturating_sub(past_workers(earlier)),
        missed: since("looked_up") + since("missed"),
    }
}

/// Packets that the NIC has sent on by itself. The emulated NIC counts them; of others
/// the rules' counters tell, which are read a little later.
fn past_workers(status: &Status) -> u64 {
    match status.nic.forwarded {
        0 => status.offload.get("forwarded_packets").copied().unwrap_or(0),
        counted => counted,
    }
}

/// util and util+ of every worker between two reports, from 0 to 1.
#[must_use]
pub fn utilization(earlier: &Status, later: &Status) -> Vec<(f64, f64)> {
    let pairs = earlier.workers.iter().zip(&later.workers);
    let utils = pairs.map(|(before, after)| {
        let reading = after.totals.since(before.totals);
        (reading.util(), reading.util_plus(after.queues, after.burst))
    });
    utils.collect()
}

/// Packets by who found their connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Matches {
    /// The NIC.
    pub matched: u64,
    /// The software.
    pub missed: u64,
}

impl Matches {
    /// The NIC's share, 0 to 1; 0 without packets.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share(self) -> f64 {
        let all = self.matched + self.missed;
        if all == 0 { 0.0 } else { self.matched as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> serde_json::Result<Status> {
        serde_json::from_str(text)
    }

    #[test]
    fn missing_fields_are_zero_and_unknown_ones_are_passed_over() {
        let text = r#"{"ready":true,"nic":{"matched":90,"missed":10,"name":"x550"},"uptime":3,
            "counters":{"matched_by_mark":80,"matched_by_queue":10,"looked_up":7,"missed":3}}"#;
        let status = parse(text).unwrap();
        assert!(status.ready);
        assert_eq!(status.nic.matched, 90);
        assert!((matches(&Status::default(), &status).share() - 0.9).abs() < 1e-9);
        assert!(parse("7").is_err() && parse("").is_err());
    }

    #[test]
    fn utilization_is_of_the_time_between() {
        let report = |cycles: u64, busy: u64| {
            let totals = format!(
                r#"{{"ref_cycles":{cycles},"ops_cycles":{busy},"packets":320,"bursts":10}}"#
            );
            parse(&format!(r#"{{"workers":[{{"queues":1,"burst":32,"loop":{totals}}}]}}"#)).unwrap()
        };
        let (earlier, later) = (report(1000, 0), report(2000, 500));
        let [(util, plus)] = utilization(&earlier, &later)[..] else { panic!("one worker") };
        assert!((util - 0.5).abs() < 1e-9);
        assert!(plus.abs() < 1e-9, "no packet came between");
    }
}

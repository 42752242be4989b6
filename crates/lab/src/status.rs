//! What `hnlb status --json` says, as far as the lab reads it.
//!
//! Every field may be missing: a lab that meets an older or newer HNLB shows
//! zeros rather than failing.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One report.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// False while HNLB is still starting; missing means ready.
    pub ready: Option<bool>,
    /// One entry a worker.
    pub workers: Vec<Worker>,
    /// The workers' counters by name, added up.
    pub counters: BTreeMap<String, u64>,
    /// The rule life cycle's counters by name.
    pub offload: BTreeMap<String, u64>,
    /// The NIC.
    pub nic: Nic,
    /// The connection table.
    pub connections: Connections,
}

/// One worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// Share of polls that found packets, 0 to 1.
    pub util: f64,
    /// The paper's util+, 0 to 1.
    pub util_plus: f64,
}

/// The NIC's rules and matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Nic {
    /// Rules in the table now.
    pub rules: u64,
    /// Rules the table takes, as far as known.
    pub capacity: u64,
    /// Packets received that a rule had matched.
    pub matched: u64,
    /// Packets received that no rule had matched.
    pub missed: u64,
}

/// The connection table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// In the table now.
    pub active: u64,
    /// Entered since the start.
    pub created: u64,
}

impl Status {
    /// Reads a report.
    ///
    /// # Errors
    /// If the text is not JSON of this shape.
    pub fn parse(text: &str) -> Result<Self, crate::LabError> {
        serde_json::from_str(text).map_err(|error| crate::LabError::Parse {
            tool: "hnlb status --json",
            detail: format!("{error} in: {text}"),
        })
    }

    /// Who found the packets' connections between an earlier report and this
    /// one, as the workers saw it: by mark or queue, or by a lookup.
    #[must_use]
    pub fn matches_since(&self, earlier: &Self) -> Matches {
        let since = |name: &str| {
            let count = |status: &Self| status.counters.get(name).copied().unwrap_or(0);
            count(self).saturating_sub(count(earlier))
        };
        Matches {
            matched: since("matched_by_mark") + since("matched_by_queue"),
            missed: since("looked_up") + since("missed"),
        }
    }
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

    #[test]
    fn missing_fields_are_zero_and_unknown_ones_are_passed_over() {
        assert_eq!(Status::parse("{}").unwrap(), Status::default());
        let text = r#"{"workers":[{"util":0.5,"util_plus":0.25,"polls":7}],
            "nic":{"matched":90,"missed":10,"name":"x550"},"uptime":3,
            "counters":{"matched_by_mark":80,"matched_by_queue":10,"looked_up":7,"missed":3},
            "connections":{"active":4}}"#;
        let status = Status::parse(text).unwrap();
        assert_eq!(status.workers, [Worker { util: 0.5, util_plus: 0.25 }]);
        assert_eq!(status.nic.matched, 90);
        assert!((status.matches_since(&Status::default()).share() - 0.9).abs() < 1e-9);
        assert!(Status::parse("7").is_err() && Status::parse("").is_err());
    }
}

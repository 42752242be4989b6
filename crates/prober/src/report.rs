//! What was found out about a card, as plain data.
use flow::Encoding;
use serde::Serialize;

use crate::card::Facts;
use crate::spread::Spread;

/// All that was found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was known before.
    pub card: Facts,
    /// Every kind of rule that was tried.
    pub trials: Vec<TrialOutcome>,
    /// How many rules the match table holds, and what they cost; one for each encoding
    /// that was measured.
    pub tables: Vec<TableReport>,
    /// What a change of the redirection table costs.
    pub redirection: RedirectionReport,
    /// What follows.
    pub advice: Advice,
    /// Rules that the card would not destroy. They are there until the port is closed.
    pub left_rules: usize,
}

/// Which part of a rule is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// What it matches.
    Match,
    /// What it does with packets for the host.
    Action,
    /// What it does in the card's switch.
    Switch,
    /// The tunnels that it puts packets into.
    Tunnel,
}

/// The driver's answer to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was validated and created.
    Taken,
    /// It was validated, and then it could not be created.
    ValidatedOnly,
    /// It was not even validated.
    Refused,
}

/// What has become of one kind of rule.
#[derive(Clone, Debug, Serialize)]
pub struct TrialOutcome {
    /// The part of the rule that matters.
    pub area: Area,
    /// What is tried.
    pub name: &'static str,
    /// What HNLB needs it for.
    pub needed_for: &'static str,
    /// The driver's answer.
    pub verdict: Verdict,
    /// The driver's reason, if it has refused.
    pub reason: Option<String>,
    /// Whether a packet was treated as the rule says; `None`: not tried with a packet.
    pub obeyed: Option<bool>,
}

/// The match table, filled with rules of one encoding.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// The encoding whose rules they are.
    pub encoding: Encoding,
    /// Whether they were made through a queue of operations.
    pub queued: bool,
    /// Rules that the table held.
    pub rules: u32,
    /// Why it took no more; `None`: no more were tried.
    pub refusal: Option<String>,
    /// From empty to full.
    pub steps: Vec<TableStep>,
    /// How long the destruction of a rule took.
    pub destruction: Option<Spread>,
    /// How long a destroyed rule still matched packets at most, in nanoseconds; `None`:
    /// not tried.
    pub matched_after_destruction_ns: Option<u64>,
}

/// The table with so many rules.
#[derive(Clone, Debug, Serialize)]
pub struct TableStep {
    /// Rules in the table.
    pub rules: u32,
    /// Rules a second, since the step before; `None` at the first step.
    pub per_second: Option<f64>,
    /// How long the insertion of a rule took since the step before; through a queue: not
    /// known by rule.
    pub insertion: Option<Spread>,
    /// How long packets of rules in the table took.
    pub latency: Option<Spread>,
    /// Packets that did not come as the rule says.
    pub disobeyed: u32,
}

/// The cost of changes of the redirection table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RedirectionReport {
    /// Its entries; 0: there is no table.
    pub entries: u16,
    /// Changes of one entry.
    pub one_entry: Option<Spread>,
    /// Changes of all entries.
    pub all_entries: Option<Spread>,
    /// Whether the table then said what was written; `None`: it can't be read.
    pub reads_back: Option<bool>,
    /// Why it was not changed.
    pub refusal: Option<String>,
}

/// What follows for the configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The encoding that `auto` would choose.
    pub encoding: Encoding,
    /// Why.
    pub reasons: Vec<String>,
    /// The lines of the configuration.
    pub configuration: String,
}

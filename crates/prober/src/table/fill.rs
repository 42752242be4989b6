//! The table filled by rules that are made one by one.
use dpdk::flow::RuleHandle;
use offload::TrialRules;

use super::{is_step, latency};
use crate::card::Card;
use crate::examine::Options;
use crate::held::Held;
use crate::report::{TableReport, TableStep};
use crate::spread::Spread;

/// Destroyed rules whose packets are sent afterwards.
const WATCHED: usize = 16;
/// A destroyed rule that still matches after so long is given up, in nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Fills the table with `rules`, and empties it again; tells how full it is.
pub(crate) fn fill(
    card: &mut dyn Card,
    rules: &TrialRules,
    how: (&Options, &dyn Fn(&str)),
    held: &mut Held,
) -> TableReport {
    let mut leading = Vec::new();
    for rule in rules.leading() {
        leading.extend(card.flows().create(&rule).ok());
    }
    let mut filling = Filling { steps: Vec::new(), since: Vec::new(), handles: Vec::new() };
    let refusal = filling.insert(card, rules, how);
    let in_table = filling.handles.len() as u32;
    let (destruction, matched_after_destruction_ns) = filling.empty(card, rules, held);
    for handle in leading.into_iter().rev() {
        held.destroy(card.flows(), handle);
    }
    TableReport {
        encoding: rules.encoding(),
        queued: false,
        rules: in_table,
        refusal,
        steps: filling.steps,
        destruction,
        matched_after_destruction_ns,
    }
}

/// A table while it is filled.
struct Filling {
    steps: Vec<TableStep>,
    /// How long each insertion has taken since the last step.
    since: Vec<u64>,
    /// The rules, by their numbers.
    handles: Vec<RuleHandle>,
}

impl Filling {
    /// Inserts rules until the card refuses one; its reason.
    fn insert(
        &mut self,
        card: &mut dyn Card,
        rules: &TrialRules,
        (options, tell): (&Options, &dyn Fn(&str)),
    ) -> Option<String> {
        let mut refusal = None;
        for number in 0..options.most_rules {
            if is_step(number) {
                tell(&format!("a packet of each rule, {number} rules in the table"));
                self.step(card, rules, options);
            }
            let Some(rule) = rules.rule(number) else { break };
            let start = card.now_ns();
            match card.flows().create(&rule) {
                Ok(handle) => {
                    self.since.push(card.now_ns().saturating_sub(start));
                    self.handles.push(handle);
                }
                Err(error) => {
                    refusal = Some(error.to_string());
                    break;
                }
            }
        }
        self.step(card, rules, options);
        refusal
    }

    /// Looks at the table as it is now.
    fn step(&mut self, card: &mut dyn Card, rules: &TrialRules, options: &Options) {
        let in_table = self.handles.len() as u32;
        if self.steps.last().is_some_and(|last| last.rules == in_table) {
            return;
        }
        let times = std::mem::take(&mut self.since);
        let ns: u64 = times.iter().sum();
        let per_second = (ns > 0).then(|| times.len() as f64 * 1e9 / ns as f64);
        let (latency, disobeyed) = latency::measure(card, rules, in_table, options.packets);
        let insertion = Spread::of(times);
        self.steps.push(TableStep { rules: in_table, per_second, insertion, latency, disobeyed });
    }

    /// Destroys all rules: how long one took, and how long it then still matched.
    fn empty(
        &mut self,
        card: &mut dyn Card,
        rules: &TrialRules,
        held: &mut Held,
    ) -> (Option<Spread>, Option<u64>) {
        let (mut times, mut longest) = (Vec::new(), None);
        while let Some(handle) = self.handles.pop() {
            let number = self.handles.len() as u32;
            let start = card.now_ns();
            let is_destroyed = held.destroy(card.flows(), handle);
            let end = card.now_ns();
            if is_destroyed && times.len() < WATCHED {
                longest = longest.max(still_matches(card, rules, number, end));
            }
            times.push(end.saturating_sub(start));
        }
        (Spread::of(times), longest)
    }
}

/// How long after `end` packets of rule `number`, which is destroyed, still matched;
/// `None`: there is no way for packets.
fn still_matches(card: &mut dyn Card, rules: &TrialRules, number: u32, end: u64) -> Option<u64> {
    let frame = latency::packet(card, number)?;
    let mut last_match = 0;
    loop {
        let sent = card.now_ns().saturating_sub(end);
        let passed = card.pass(&frame)?;
        if !latency::obeys(card, rules, number, &passed.fate) || sent > PATIENCE_NS {
            return Some(last_match);
        }
        last_match = sent;
    }
}

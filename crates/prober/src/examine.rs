//! The order in which a card is tried out.
use dpdk::flow::FlowPort;
use flow::{Encoding, EncodingChoice};
use offload::{Probe, ProbeInput, TrialRules, probe_card};

use crate::card::Card;
use crate::catalogue;
use crate::held::Held;
use crate::report::{Report, TableReport, TrialOutcome, Verdict};
use crate::{advice, redirection, table};

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rules that are put into the match table at most.
    pub most_rules: u32,
    /// Packets whose latency is measured for each number of rules.
    pub packets: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { most_rules: 65_536, packets: 1000 }
    }
}

/// Tries out `card`. `tell` is told what is done, for whoever waits.
pub fn examine(card: &mut dyn Card, options: &Options, tell: &dyn Fn(&str)) -> Report {
    let mut held = Held::default();
    tell("kinds of rules");
    let trials = try_rules(card, &mut held);
    let probe = choose(card, &trials, &mut held);
    let mut tables = Vec::new();
    for rules in kinds(card, &probe) {
        tell(&format!("rules of encoding {}", rules.encoding()));
        tables.push(table::fill(card, &rules, (options, tell), &mut held));
    }
    tell("the redirection table");
    let redirection = redirection::measure(card);
    // The last, since a port that has queues makes rules by them only.
    if let Some(rules) = kinds(card, &probe).pop() {
        tell("rules through a queue of operations");
        tables.extend(table::fill_by_queue(card, &rules, (options, tell)));
    }
    let left_rules = held.end(card.flows());
    let advice = advice::advise(card.facts(), probe, &tables);
    Report { card: card.facts().clone(), trials, tables, redirection, advice, left_rules }
}

/// Tries every kind of rule.
fn try_rules(card: &mut dyn Card, held: &mut Held) -> Vec<TrialOutcome> {
    let facts = card.facts().clone();
    let mut outcomes = Vec::new();
    for trial in catalogue::matches(&facts).into_iter().chain(catalogue::actions(&facts)) {
        outcomes.push(trial.run(card, held));
    }
    let Some(port) = facts.outputs.iter().flatten().next().copied() else { return outcomes };
    let entry = catalogue::entry(facts.mac);
    let leads = entry.rule.clone();
    outcomes.push(entry.run(card, held));
    let leading = card.flows().create(&leads).ok();
    let mut outlet = None;
    for (way, trial) in catalogue::outlets(&facts, port) {
        let outcome = trial.run(card, held);
        if outcome.verdict == Verdict::Taken {
            outlet.get_or_insert(way);
        }
        outcomes.push(outcome);
    }
    if let Some(outlet) = outlet {
        let changes = catalogue::fields(&facts, outlet);
        for trial in changes.into_iter().chain(catalogue::tunnels(&facts, outlet)) {
            outcomes.push(trial.run(card, held));
        }
    }
    if let Some(handle) = leading {
        held.destroy(card.flows(), handle);
    }
    outcomes
}

/// What HNLB would choose at its start, knowing what packets have shown.
fn choose(card: &mut dyn Card, trials: &[TrialOutcome], held: &mut Held) -> Probe {
    let facts = card.facts().clone();
    let marked = trials.iter().find(|trial| trial.name == "QUEUE, MARK");
    let mark_arrives = marked.and_then(|trial| trial.obeyed);
    let input = ProbeInput { queues: facts.queues, mark_arrives, outputs: &facts.outputs };
    let flows: &mut dyn FlowPort = card.flows();
    let mut probe = probe_card(flows, &input, EncodingChoice::Auto);
    for handle in probe.left.drain(..) {
        held.destroy(card.flows(), handle);
    }
    probe
}

/// The rules with which the match table is measured: those for the host, and those of
/// the switch, which are in another table.
fn kinds(card: &dyn Card, probe: &Probe) -> Vec<TrialRules> {
    let facts = card.facts();
    let queue = facts.queues.saturating_sub(1);
    let mut kinds = Vec::new();
    let takes = |encoding| probe.types(encoding).first() == Some(&true);
    if takes(Encoding::Mark) {
        kinds.push(TrialRules::mark(queue));
    } else if takes(Encoding::Queue) {
        kinds.push(TrialRules::queue(queue));
    }
    let rewrite = probe.rewrite.as_ref().filter(|_| takes(Encoding::Rewrite));
    kinds.extend(rewrite.and_then(|card| TrialRules::rewrite(card, facts.mac, facts.peer)));
    kinds
}

/// Whether `table` is one whose rules HNLB would make for `encoding`.
pub(crate) fn is_for(table: &TableReport, encoding: Encoding) -> bool {
    table.encoding == encoding || (table.encoding == Encoding::Mark && encoding == Encoding::Queue)
}

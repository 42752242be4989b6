//! The table filled through a queue of operations, as cards with hardware steering have.
use dpdk::flow::{Completion, FlowError, QueueConfig, RuleHandle, TableHandle, Template};
use offload::TrialRules;

use super::is_step;
use crate::card::Card;
use crate::examine::Options;
use crate::report::{TableReport, TableStep};

/// The one queue.
const QUEUE: u16 = 0;
/// Operations that it holds, and that are pushed together.
const DEPTH: u32 = 256;
/// Without any completion for so long, in nanoseconds, the card is given up.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Fills a table with `rules` through a queue; `None`: the port has no queues, or no
/// table for such rules.
pub(crate) fn fill_by_queue(
    card: &mut dyn Card,
    rules: &TrialRules,
    (options, tell): (&Options, &dyn Fn(&str)),
) -> Option<TableReport> {
    let most = options.most_rules;
    let config = QueueConfig { queues: 1, depth: DEPTH, counters: most, aging: most };
    card.flows().configure_queues(&config).ok()?;
    let first = rules.rule(0)?;
    let template = Template {
        attributes: first.attributes,
        pattern: first.pattern,
        actions: first.actions,
        rules: most,
        hash: None,
    };
    let table = card.flows().create_table(&template).ok()?;
    let mut filling = Filling { steps: Vec::new(), handles: Vec::new(), last: (0, 0) };
    let refusal = filling.insert(card, rules, &table, (most, tell));
    let in_table = filling.handles.len() as u32;
    filling.empty(card);
    // A table that can't be destroyed goes with the port.
    let _ = card.flows().destroy_table(table);
    Some(TableReport {
        encoding: rules.encoding(),
        queued: true,
        rules: in_table,
        refusal,
        steps: filling.steps,
        destruction: None,
        matched_after_destruction_ns: None,
    })
}

struct Filling {
    steps: Vec<TableStep>,
    handles: Vec<RuleHandle>,
    /// The rules and the time at the last step.
    last: (u32, u64),
}

impl Filling {
    /// Inserts up to `most` rules, a queueful at a time; why there are not more.
    fn insert(
        &mut self,
        card: &mut dyn Card,
        rules: &TrialRules,
        table: &TableHandle,
        (most, tell): (u32, &dyn Fn(&str)),
    ) -> Option<String> {
        self.last = (0, card.now_ns());
        let (mut number, mut refusal) = (0, None);
        while number < most && refusal.is_none() {
            let mut in_line = 0;
            while in_line < DEPTH && number < most {
                let rule = rules.rule(number)?;
                match card.flows().enqueue_create(QUEUE, table, &rule, number.into()) {
                    Ok(handle) => self.handles.push(handle),
                    Err(error) => {
                        refusal = Some(error.to_string());
                        break;
                    }
                }
                (in_line, number) = (in_line + 1, number + 1);
            }
            match complete(card, in_line) {
                Ok(failed) if failed.is_empty() => {}
                Ok(failed) => {
                    refusal = Some(format!("the card did not carry out {} of them", failed.len()));
                }
                Err(error) => refusal = Some(error),
            }
            if is_step(number) {
                tell(&format!("{number} rules in the table"));
                self.step(card, number);
            }
        }
        self.step(card, self.handles.len() as u32);
        refusal
    }

    fn step(&mut self, card: &mut dyn Card, rules: u32) {
        let (before, start) = self.last;
        let now = card.now_ns();
        if rules <= before {
            return;
        }
        let seconds = now.saturating_sub(start).max(1) as f64 / 1e9;
        let per_second = Some(f64::from(rules - before) / seconds);
        self.steps.push(TableStep {
            rules,
            per_second,
            insertion: None,
            latency: None,
            disobeyed: 0,
        });
        self.last = (rules, now);
    }

    /// Destroys all rules.
    fn empty(&mut self, card: &mut dyn Card) {
        while !self.handles.is_empty() {
            let mut in_line = 0;
            for _ in 0..DEPTH {
                let Some(handle) = self.handles.pop() else { break };
                match card.flows().enqueue_destroy(QUEUE, handle, 0) {
                    Ok(()) => in_line += 1,
                    // It stays until the port is closed.
                    Err(_) => continue,
                }
            }
            if complete(card, in_line).is_err() {
                return;
            }
        }
    }
}

/// Waits for `in_line` operations; the tokens of those that were not carried out.
fn complete(card: &mut dyn Card, in_line: u32) -> Result<Vec<u64>, String> {
    let told = |error: FlowError| error.to_string();
    if in_line == 0 {
        return Ok(Vec::new());
    }
    card.flows().push(QUEUE).map_err(told)?;
    let (mut done, mut failed) = (0, Vec::new());
    let mut completions: Vec<Completion> = Vec::new();
    let mut heard = card.now_ns();
    while done < in_line {
        let found = card.flows().pull(QUEUE, &mut completions).map_err(told)?;
        failed.extend(completions.drain(..).filter(|one| !one.done).map(|one| one.token));
        done += found as u32;
        let now = card.now_ns();
        if found > 0 {
            heard = now;
        } else if now.saturating_sub(heard) > PATIENCE_NS {
            return Err(format!("the card has not completed {} operations", in_line - done));
        }
    }
    Ok(failed)
}

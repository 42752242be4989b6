//! One kind of rule: asked for, made, tried with a packet, and destroyed.
use dpdk::flow::{Action, FlowError, FlowPort, Rule, RuleHandle};

use crate::card::{Card, Fate};
use crate::held::Held;
use crate::report::{Area, TrialOutcome, Verdict};

/// What becomes of a packet that a rule matches.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// It comes to this queue.
    Queue(u16),
    /// It comes with this mark.
    Mark(u32),
    /// It comes to the queue with the mark.
    QueueAndMark(u16, u32),
    /// It comes to any queue.
    Received,
    /// It is dropped.
    Lost,
    /// The card sends it out, changed so that this is true of it.
    Leaves(fn(&[u8]) -> bool),
}

impl Expected {
    fn is(&self, fate: &Fate) -> bool {
        match (self, fate) {
            (Self::Queue(wanted), Fate::Received { queue, .. }) => wanted == queue,
            (Self::Mark(wanted), Fate::Received { mark, .. }) => Some(*wanted) == *mark,
            (Self::QueueAndMark(to, wanted), Fate::Received { queue, mark }) => {
                to == queue && Some(*wanted) == *mark
            }
            (Self::Received, Fate::Received { .. }) | (Self::Lost, Fate::Lost) => true,
            (Self::Leaves(is_right), Fate::Left(frame)) => is_right(frame),
            _ => false,
        }
    }
}

/// A kind of rule.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) area: Area,
    pub(crate) name: &'static str,
    pub(crate) needed_for: &'static str,
    pub(crate) rule: Rule,
    /// A packet that it matches, and what becomes of it.
    pub(crate) packet: Option<(Vec<u8>, Expected)>,
}

impl Trial {
    /// Asks the card.
    pub(crate) fn run(self, card: &mut dyn Card, held: &mut Held) -> TrialOutcome {
        let (verdict, reason, made) = ask(card.flows(), &self.rule);
        let mut obeyed = None;
        if let Some(handle) = made {
            let passed = self.packet.and_then(|(frame, expected)| {
                let passed = card.pass(&frame)?;
                Some(expected.is(&passed.fate) && counted(card.flows(), &self.rule, &handle))
            });
            obeyed = passed;
            held.destroy(card.flows(), handle);
        }
        let Self { area, name, needed_for, .. } = self;
        TrialOutcome { area, name, needed_for, verdict, reason, obeyed }
    }
}

/// Validates and creates `rule`.
fn ask(flows: &mut dyn FlowPort, rule: &Rule) -> (Verdict, Option<String>, Option<RuleHandle>) {
    match flows.validate(rule) {
        // A driver without validation may still take rules.
        Err(error) if error.errno != FlowError::NOT_IMPLEMENTED => {
            return (Verdict::Refused, Some(error.to_string()), None);
        }
        Ok(()) | Err(_) => {}
    }
    match flows.create(rule) {
        Ok(handle) => (Verdict::Taken, None, Some(handle)),
        Err(error) if error.errno == FlowError::NOT_IMPLEMENTED => {
            (Verdict::Refused, Some(error.to_string()), None)
        }
        Err(error) => (Verdict::ValidatedOnly, Some(error.to_string()), None),
    }
}

/// Whether a rule that counts has counted a packet.
fn counted(flows: &mut dyn FlowPort, rule: &Rule, handle: &RuleHandle) -> bool {
    !rule.actions.contains(&Action::Count)
        || flows.query(handle).is_ok_and(|counters| counters.packets > 0)
}

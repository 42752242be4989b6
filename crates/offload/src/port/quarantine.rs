//! From a rule's end to the end of its tag: packets may still carry the tag.
use state::Ticket;

use super::{Owner, PortRules};
use crate::encode::Tag;
use crate::environment::PortTables;

/// Tags whose rules were destroyed in the same tick.
#[derive(Debug)]
pub(super) struct Batch {
    until_ms: u64,
    ticket: Option<Ticket>,
    tags: Vec<(Owner, Tag)>,
}

/// The part of a rule that is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gone {
    /// The rule is out of the card.
    Destroyed(Owner),
    /// No packet carries the rule's tag any more.
    Settled(Owner),
}

impl PortRules {
    /// Begins to settle what the last tick destroyed, and frees the tags that no
    /// packet can carry any more: the card had `settle_ms` to let go of the rule, and
    /// all packets that were in the receive queues then have been processed. Adds the
    /// owners to `gone`.
    pub(crate) fn settle(
        &mut self,
        tables: PortTables<'_>,
        settle_ms: u64,
        now_ms: u64,
        gone: &mut Vec<Gone>,
    ) {
        if !self.fresh.is_empty() {
            let tags = std::mem::take(&mut self.fresh);
            gone.extend(tags.iter().map(|(owner, _)| Gone::Destroyed(*owner)));
            let until_ms = now_ms.saturating_add(settle_ms);
            self.settling.push_back(Batch { until_ms, ticket: None, tags });
        }
        for batch in &mut self.settling {
            if now_ms < batch.until_ms {
                break;
            }
            batch.ticket.get_or_insert_with(|| tables.queue_epochs.ticket());
        }
        let passed = |batch: &Batch| batch.ticket.is_some_and(|t| tables.queue_epochs.passed(t));
        while self.settling.front().is_some_and(passed) {
            for (owner, tag) in self.settling.pop_front().map(|b| b.tags).unwrap_or_default() {
                self.encoders.release(tag, tables);
                gone.push(Gone::Settled(owner));
            }
        }
    }

    /// Destroyed rules whose tag a packet may still carry.
    pub(super) fn settling(&self) -> usize {
        self.fresh.len() + self.settling.iter().map(|batch| batch.tags.len()).sum::<usize>()
    }

    /// At the end: all tags on their way lose their meaning for good.
    pub(super) fn silence_all(&self, tables: PortTables<'_>) {
        let settling = self.settling.iter().flat_map(|batch| &batch.tags);
        settling.chain(&self.fresh).for_each(|&(_, tag)| self.encoders.silence(tag, tables));
    }
}

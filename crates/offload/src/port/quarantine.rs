//! From a rule's end to the end of its tag: what packets may still carry.

use state::Ticket;

use crate::connection::Tag;
use crate::environment::PortTables;
use crate::port::{Owner, PortRules};

/// Tags whose rules were destroyed in the same tick.
#[derive(Debug)]
pub(crate) struct Batch {
    until_ms: u64,
    ticket: Option<Ticket>,
    tags: Vec<(Owner, Tag)>,
}

impl PortRules {
    /// Begins to settle what the last tick destroyed, and frees the tags that
    /// no packet can carry any more: the card had `settle_ms` to let go of the
    /// rule, and all packets that were in the receive queues then have been
    /// processed. Returns their owners.
    pub(crate) fn settle(
        &mut self,
        tables: PortTables<'_>,
        settle_ms: u64,
        now_ms: u64,
    ) -> Vec<Owner> {
        if !self.fresh.is_empty() {
            let tags = std::mem::take(&mut self.fresh);
            let until_ms = now_ms.saturating_add(settle_ms);
            self.settling.push_back(Batch { until_ms, ticket: None, tags });
        }
        for batch in &mut self.settling {
            if now_ms < batch.until_ms {
                break;
            }
            batch.ticket.get_or_insert_with(|| tables.drained.ticket());
        }
        let mut owners = Vec::new();
        let passed = |batch: &Batch| batch.ticket.is_some_and(|t| tables.drained.passed(t));
        while self.settling.front().is_some_and(passed) {
            for (owner, tag) in self.settling.pop_front().map(|b| b.tags).unwrap_or_default() {
                self.free(tag, tables);
                owners.push(owner);
            }
        }
        owners
    }

    /// Destroyed rules whose tag a packet may still carry.
    pub(crate) fn settling(&self) -> usize {
        self.fresh.len() + self.settling.iter().map(|batch| batch.tags.len()).sum::<usize>()
    }

    /// The rule with `tag` was refused: no packet ever carried it.
    pub(crate) fn take_back(&mut self, tag: Tag, tables: PortTables<'_>) {
        match tag {
            Tag::Mark(mark) => {
                tables.marks.clear(mark);
                self.marks.give_back(mark);
            }
            Tag::Queue(_) | Tag::Nothing => self.free(tag, tables),
        }
    }

    /// No packet carries `tag` for its rule any more.
    fn free(&mut self, tag: Tag, tables: PortTables<'_>) {
        match tag {
            Tag::Mark(mark) => {
                tables.marks.clear(mark);
                self.marks.release(mark);
            }
            Tag::Queue(tag) => {
                if self.queues.release(tag) {
                    tables.queues.set(tag, None);
                }
            }
            Tag::Nothing => {}
        }
    }

    /// At the end: all tags on their way lose their meaning for good.
    pub(crate) fn forget_all(&self, tables: PortTables<'_>) {
        let settling = self.settling.iter().flat_map(|batch| &batch.tags);
        settling.chain(&self.fresh).for_each(|&(_, tag)| forget(tag, tables));
    }
}

/// Packets with `tag` are looked up in software from now on.
pub(crate) fn forget(tag: Tag, tables: PortTables<'_>) {
    match tag {
        Tag::Mark(mark) => {
            tables.marks.clear(mark);
        }
        Tag::Queue(tag) => {
            tables.queues.set(tag, None);
        }
        Tag::Nothing => {}
    }
}

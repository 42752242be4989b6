//! Rules without counters, kept equal to a wanted set.
use dpdk::flow::{FlowError, FlowPort, Rule, RuleHandle};

/// Rules of one port that are in the card, each once.
#[derive(Debug, Default)]
pub(crate) struct FixedRules(Vec<(Rule, RuleHandle)>);

impl FixedRules {
    /// How many are in the card.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is in the card.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the rules that are missing, until the card refuses one.
    pub(crate) fn add(
        &mut self,
        wanted: &[Rule],
        flows: &mut dyn FlowPort,
    ) -> Result<(), FlowError> {
        for rule in wanted {
            if !self.0.iter().any(|(own, _)| own == rule) {
                let handle = flows.create(rule)?;
                self.0.push((rule.clone(), handle));
            }
        }
        Ok(())
    }

    /// Destroys the rules that aren't wanted; those that stay are tried again.
    pub(crate) fn remove(&mut self, wanted: &[Rule], flows: &mut dyn FlowPort) {
        for (rule, handle) in std::mem::take(&mut self.0) {
            if wanted.contains(&rule) {
                self.0.push((rule, handle));
            } else if let Err((handle, _)) = flows.destroy(handle) {
                self.0.push((rule, handle));
            }
        }
    }
}

//! The rules of one group of a stateless service, and which of them each class of clients
//! has.
use std::collections::BTreeMap;

/// Lowest bits of an address that a rule can match.
pub(crate) const BITS: u32 = 14;
/// All classes that these bits make.
pub(crate) const CLASSES: u32 = 1 << BITS;

/// A rule for all clients whose address has these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Masked {
    /// Lowest bits of the address, and how many of them count.
    pub(crate) value: u32,
    pub(crate) bits: u32,
    /// Among rules that match the same client the lowest counts.
    pub(crate) priority: u32,
    /// The places of its action and of its counter.
    pub(crate) action: u32,
    pub(crate) counter: u32,
}

/// The rules of a group, by the numbers that they got.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    rules: BTreeMap<u32, Masked>,
    /// By class: the rule that counts.
    chosen: Vec<Option<u32>>,
}

impl Masked {
    /// The classes of its clients.
    pub(crate) fn classes(&self) -> impl Iterator<Item = u32> + use<> {
        (self.value..CLASSES).step_by(1 << self.bits)
    }

    fn has(&self, class: u32) -> bool {
        (class ^ self.value) & ((1 << self.bits) - 1) == 0
    }
}

impl Classes {
    /// The rule that counts for the class.
    pub(crate) fn chosen(&self, class: u32) -> Option<&Masked> {
        self.rules.get(&(*self.chosen.get(class as usize)?)?)
    }

    /// Adds a rule under a number that no other has.
    pub(crate) fn add(&mut self, number: u32, rule: Masked) {
        self.chosen.resize(CLASSES as usize, None);
        for class in rule.classes() {
            let better = self.chosen(class).is_none_or(|own| rule.priority < own.priority);
            if let Some(chosen) = self.chosen.get_mut(class as usize).filter(|_| better) {
                *chosen = Some(number);
            }
        }
        self.rules.insert(number, rule);
    }

    /// Takes a rule away.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Masked> {
        let rule = self.rules.remove(&number)?;
        let of_both = |other: &Masked| {
            (other.value ^ rule.value) & ((1 << other.bits.min(rule.bits)) - 1) == 0
        };
        let others: Vec<_> = self.rules.iter().filter(|(_, other)| of_both(other)).collect();
        for class in rule.classes() {
            let Some(chosen) = self.chosen.get_mut(class as usize) else { continue };
            if *chosen == Some(number) {
                let left = others.iter().filter(|(_, other)| other.has(class));
                *chosen = left.min_by_key(|(_, other)| other.priority).map(|(number, _)| **number);
            }
        }
        Some(rule)
    }
}

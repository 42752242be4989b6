//! How far one direction of a connection is, and the rule that it has then.
use flow::PortId;

use crate::encode::{NotRewritten, Visibility};

/// How far one direction of a connection is.
#[derive(Debug, Default)]
pub(crate) enum Stage<R> {
    /// Served in software.
    #[default]
    Software,
    /// In line for a rule on this port.
    Waiting(PortId),
    /// Its rule is in the card.
    Installed(Installed<R>),
    /// Its rule is being destroyed.
    Destroying,
    /// Packets may still carry the tag of its destroyed rule.
    Settling,
}

/// A rule in the card.
#[derive(Debug)]
pub(crate) struct Installed<R> {
    pub(super) rule: R,
    pub(super) port: PortId,
    pub(super) visibility: Visibility,
    /// The card says that the rule's timeout has passed without a packet.
    pub(super) aged: bool,
}

impl<R> Installed<R> {
    /// The port whose card has the rule.
    pub(crate) const fn port(&self) -> PortId {
        self.port
    }

    /// Whether its packets pass the workers by.
    pub(crate) fn is_unseen(&self) -> bool {
        self.visibility == Visibility::None
    }

    /// The rule.
    pub(crate) const fn rule(&self) -> &R {
        &self.rule
    }

    /// The rule, to be destroyed.
    pub(crate) fn into_rule(self) -> R {
        self.rule
    }

    /// The rule, if its packets pass the workers by.
    pub(crate) fn unseen_mut(&mut self) -> Option<&mut R> {
        if self.is_unseen() { Some(&mut self.rule) } else { None }
    }
}

/// One direction.
#[derive(Debug)]
pub(super) struct Side<R> {
    pub(super) stage: Stage<R>,
    /// Why the port's first encoding can't express the rule.
    pub(super) not_rewritten: Option<NotRewritten>,
}

impl<R> Default for Side<R> {
    fn default() -> Self {
        Self { stage: Stage::Software, not_rewritten: None }
    }
}

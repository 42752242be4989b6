//! Why a rule was refused, in the driver's words.
use std::fmt;

/// Which part of a rule the driver objects to (`rte_flow_error_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowErrorKind {
    /// No cause given.
    Unspecified,
    /// The rule itself: duplicate, unknown handle, table full.
    Handle,
    /// Group, priority or direction.
    Attribute,
    /// A pattern item.
    Item,
    /// An action.
    Action,
}

/// A rule was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowError {
    /// The part objected to.
    pub kind: FlowErrorKind,
    /// The positive errno: ENOSPC for a full table, ENOTSUP for what the card
    /// can't, EINVAL for what it never takes, EEXIST for a duplicate.
    pub errno: i32,
    /// The driver's text.
    pub message: String,
}

impl FlowError {
    /// ENOSPC.
    pub const NO_SPACE: i32 = 28;
    /// ENOSYS: the driver has no rte_flow at all.
    pub const NOT_IMPLEMENTED: i32 = 38;
    /// ENOTSUP.
    pub const NOT_SUPPORTED: i32 = 95;
    /// EINVAL.
    pub const INVALID: i32 = 22;
    /// EEXIST.
    pub const EXISTS: i32 = 17;
    /// ENOENT.
    pub const NOT_FOUND: i32 = 2;

    /// Whether the table has no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.errno == Self::NO_SPACE
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}, errno {})", self.message, self.kind, self.errno)
    }
}

impl std::error::Error for FlowError {}

//! Why the shared state can't be built.

/// Something is wrong that the configuration's own check can't see, or that
/// was passed over.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The first plan can't be brought about.
    #[error(transparent)]
    Plan(#[from] control::CompileError),
    /// The connection table can't be made.
    #[error(transparent)]
    Connections(#[from] conntrack::TableError),
}

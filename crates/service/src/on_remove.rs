//! What happens to connections whose backend leaves the configuration.

/// What happens to the connections of a backend that leaves the configuration,
/// or of a service that does with all its backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnRemove {
    /// They go on with that backend until they end.
    #[default]
    Keep,
    /// They are ended: a TCP packet of theirs is answered with RST, a UDP packet
    /// is dropped.
    Reset,
    /// They are forgotten: the next packet is scheduled as if it were the first.
    Move,
}

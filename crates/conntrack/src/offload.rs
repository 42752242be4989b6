//! How far a connection's way into the NIC is.

/// What a connection is to the offload manager. The table stores it and lets
/// exactly one party make each change; it draws no conclusions from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OffloadState {
    /// Only in software.
    #[default]
    None = 0,
    /// Rules have been asked for.
    Wanted = 1,
    /// Rules may match its packets.
    Installed = 2,
    /// Its rules are being taken back.
    Withdrawing = 3,
}

impl OffloadState {
    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            1 => Self::Wanted,
            2 => Self::Installed,
            3 => Self::Withdrawing,
            _ => Self::None,
        }
    }
}

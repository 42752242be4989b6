//! Why the kernel can't be the NIC.

/// What went wrong with a program or its maps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// libbpf or the kernel refused; the text says what was tried.
    #[error("XDP: {what}: {source}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A map could not be mapped into this process.
    #[error("XDP: the map {map} can't be mapped: {source}")]
    NotMapped {
        /// The map's name.
        map: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The compiled program lacks a map or a function.
    #[error("XDP: the compiled program has no {0}")]
    Missing(&'static str),
    /// The benchmark's packets were not forwarded.
    #[error("XDP: the benchmark's last packet was not sent back")]
    NotForwarded,
    /// The benchmark's connections don't fit.
    #[error("XDP: {0}")]
    Full(#[from] crate::Full),
    /// The order of loads and stores that the table relies on is that of x86-64.
    #[error("XDP: the match table is safe against concurrent writes on x86-64 only")]
    Architecture,
}

impl Error {
    /// Whether the process lacks the permission: CAP_BPF and CAP_NET_ADMIN, or root.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Refused { source, .. } => source.kind() == libbpf_rs::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    pub(crate) fn refused(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Refused { what, source }
    }
}

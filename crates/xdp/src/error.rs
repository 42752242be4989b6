//! Why the kernel can't be the NIC.

/// What went wrong with a program or its maps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not load programs.
    #[error("XDP: loading a program needs root, or CAP_BPF with CAP_NET_ADMIN")]
    NotPermitted,
    /// libbpf or the kernel refused; the text says what was tried.
    #[error("XDP: {what}: {source}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// The verifier refuses the program.
    #[error("XDP: the kernel's verifier refuses the program: {verdict}")]
    Verifier {
        /// The last line of its log.
        verdict: String,
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
    /// There is no such interface.
    #[error("XDP: there is no interface '{name}' in this network namespace: {source}")]
    NoInterface {
        /// The name.
        name: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The interface has another program.
    #[error(
        "XDP: {interface} has another XDP program, {program}; to remove it: ip link set dev {interface} xdp off"
    )]
    Taken {
        /// The interface.
        interface: String,
        /// The program's name and number.
        program: String,
    },
    /// The driver has attached no program with AF_XDP sockets.
    #[error("XDP: the driver has attached no program with AF_XDP sockets")]
    NoGate,
    /// A file can't be opened.
    #[error("XDP: a file can't be opened: {source}")]
    File {
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The order of loads and stores that the table relies on is that of x86-64.
    #[error("XDP: the match table is safe against concurrent writes on x86-64 only")]
    Architecture,
}

impl Error {
    /// Whether the process lacks the permission: CAP_BPF and CAP_NET_ADMIN, or root.
    #[must_use]
    pub const fn is_permission(&self) -> bool {
        matches!(self, Self::NotPermitted)
    }

    /// The error of a refused program with the verifier's verdict, if it has given one.
    pub(crate) fn by_verifier(self, verdict: Option<String>) -> Self {
        match (self, verdict) {
            (Self::Refused { .. }, Some(verdict)) => Self::Verifier { verdict },
            (other, _) => other,
        }
    }

    pub(crate) fn refused(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Refused { what, source }
    }
}

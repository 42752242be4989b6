//! How large an agent may become, and how large it is.

/// Sizes and times of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections at once.
    pub connections: usize,
    /// Those of them at once whose handshake is not complete; when they are so many,
    /// SYNs are answered by cookies.
    pub half_open: usize,
    /// Headers of more than 512 bytes held at once, 16 KiB each: from the first byte to the
    /// backend's acknowledgement. Of shorter ones there may be as many as connections.
    pub headers: usize,
    /// Requests at once whose responses are still to come and that are logged then.
    pub records: usize,
    /// Bytes of a header, at most.
    pub header_limit: usize,
    /// How long a client may take for a header.
    pub header_ms: u64,
    /// How long a connection may be silent.
    pub idle_ms: u64,
    /// The secret of cookies and request ids.
    pub secret: [u64; 2],
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 16_384,
            half_open: 4_096,
            headers: 1_024,
            records: 0,
            header_limit: 8_192,
            header_ms: 10_000,
            idle_ms: 900_000,
            secret: [0; 2],
        }
    }
}

/// What an agent holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections, also half-open ones.
    pub connections: usize,
    /// Connections whose handshake is not complete.
    pub half_open: usize,
    /// Connections whose client has asked for nothing more.
    pub idle: usize,
    /// Headers held in 16 KiB each.
    pub headers: usize,
    /// Headers held in 512 bytes each.
    pub short_headers: usize,
    /// Bytes of memory that connections and headers take.
    pub bytes: usize,
}

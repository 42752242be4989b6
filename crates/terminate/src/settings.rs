//! Sizes and times.
use crate::stack::Buffers;

/// Sizes and times of a terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Clients' connections at once.
    pub connections: usize,
    /// Those of them at once whose TCP handshake is not complete. One more takes the place
    /// of the oldest.
    pub half_open: usize,
    /// The longest packet.
    pub mtu: usize,
    /// What a client's connection may hold: this at least,
    pub client: Buffers,
    /// this at most,
    pub client_most: Buffers,
    /// and what all connections may hold before those that follow get less.
    pub memory: usize,
    /// What a backend's connection may hold.
    pub backend: Buffers,
    /// Connections to backends at once.
    pub backends: usize,
    /// Streams of one connection of HTTP/2 that a client may open at once.
    pub streams: u32,
    /// Those of them that are served at once, each by a connection to a backend; the others
    /// wait.
    pub streams_served: usize,
    /// Bytes of a request's header, at most.
    pub header_limit: usize,
    /// How long a client may take from its SYN to the end of the TLS handshake.
    pub handshake_ms: u64,
    /// How long a client may take for a header.
    pub header_ms: u64,
    /// How long a connection may be silent between two requests.
    pub keep_alive_ms: u64,
    /// How long a request or a response may rest.
    pub idle_ms: u64,
    /// How long a backend may take for a TCP handshake.
    pub connect_ms: u64,
    /// How long the client may take to end its direction.
    pub linger_ms: u64,
    /// The secret of sequence numbers, ports and request ids.
    pub secret: [u64; 2],
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 8_192,
            half_open: 4_096,
            mtu: 1_500,
            client: Buffers { receive: 65_536, send: 131_072 },
            client_most: Buffers { receive: 1 << 20, send: 1 << 20 },
            memory: 1 << 30,
            backend: Buffers { receive: 131_072, send: 65_536 },
            backends: 16_384,
            streams: 100,
            streams_served: 16,
            header_limit: 8_192,
            handshake_ms: 10_000,
            header_ms: 10_000,
            keep_alive_ms: 75_000,
            idle_ms: 300_000,
            connect_ms: 3_000,
            linger_ms: 10_000,
            secret: [0; 2],
        }
    }
}

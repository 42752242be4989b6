//! One end of a TCP connection, whoever's TCP it is.

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The handshake is not complete.
    Opening,
    /// Data may go both ways, as far as the peer has not ended its own.
    Open,
    /// Both directions have ended in order, or the connection was reset.
    Closed,
}

/// One end of one TCP connection: packets and time in, packets and deadlines out.
pub trait Endpoint {
    /// Takes an IP packet of the connection's.
    fn take(&mut self, packet: Vec<u8>);

    /// Does what is due at `now_ms`.
    fn poll(&mut self, now_ms: u64);

    /// When [`Endpoint::poll`] is due again without a packet; `None`: never.
    fn due_ms(&mut self, now_ms: u64) -> Option<u64>;

    /// The next IP packet to the peer.
    fn outgoing(&mut self) -> Option<Vec<u8>>;

    /// How far the connection is.
    fn stage(&self) -> Stage;

    /// Whether the peer sends no more than what can be read now.
    fn has_ended(&self) -> bool;

    /// Whether the connection was reset, by whomever, or given up.
    fn is_reset(&self) -> bool;

    /// Bytes that the peer has sent, in order, as far as they are in one piece.
    fn readable(&mut self) -> &[u8];

    /// Forgets the first `n` readable bytes: the peer may send more.
    fn consume(&mut self, n: usize);

    /// How many bytes [`Endpoint::write`] takes.
    fn room(&self) -> usize;

    /// Appends to what the peer is sent; returns how many bytes were taken.
    fn write(&mut self, bytes: &[u8]) -> usize;

    /// How many of the bytes that were written the peer has not acknowledged.
    fn unacknowledged(&self) -> usize;

    /// Whether the peer has acknowledged all that was written.
    fn is_flushed(&self) -> bool {
        self.unacknowledged() == 0
    }

    /// Nothing more will be written: ends this direction behind what was.
    fn close(&mut self);

    /// Resets the connection.
    fn abort(&mut self);
}

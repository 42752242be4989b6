//! The timestamps of a connection (RFC 7323): the client sees one clock from the agent's
//! SYN-ACK to the end, whichever backend's it is.
//!
//! The agent's SYN-ACK carries a number of the agent's. A backend's clock starts
//! elsewhere, and a client that saw it go back would drop every segment (PAWS, section 5).
//! So the backend's first number becomes the agent's last, by a constant that is added to
//! all that follow and taken off the client's echoes. A client whose connection goes on to
//! another backend may still echo what it had before: the new backend gets its own first
//! number instead, since it has sent nothing older.
use crate::edits::before;
use crate::known_clocks::is_ahead;
use crate::options::Stamps;

/// How far behind the backend's last number a client's echo may be, at most: as far as
/// numbers can be compared, with room for the client's own delay.
const OLDEST: u32 = 1 << 30;

/// How far a backend's clock may go, at most, from the client's last echo to the last
/// segment of the backend's.
const LEAP: u32 = 10_000;

/// Both clocks as they were seen last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    client: u32,
    server: u32,
    /// What is added to the backend's clock to get what the client sees.
    delta: u32,
    /// The oldest of the backend's numbers that a client may echo.
    first: u32,
}

impl Clocks {
    /// The clocks before there is a backend: the agent's SYN-ACK carries `told`.
    pub(crate) const fn new(client: u32, told: u32) -> Self {
        Self { client, server: told, delta: 0, first: told }
    }

    /// Notes the client's clock.
    pub(crate) const fn see_client(&mut self, stamps: Stamps) {
        if before(self.client, stamps.value) {
            self.client = stamps.value;
        }
    }

    /// Notes the backend's clock.
    pub(crate) const fn see_server(&mut self, stamps: Stamps) {
        if before(self.server, stamps.value) {
            self.server = stamps.value;
        }
        if self.server.wrapping_sub(self.first) > OLDEST {
            self.first = self.server.wrapping_sub(OLDEST);
        }
    }

    /// Notes how far the client has seen the backend's clock, by what it echoes: a card may
    /// have sent on what the agent has not seen.
    pub(crate) const fn see_echo(&mut self, echo: u32) {
        let value = echo.wrapping_sub(self.delta);
        if before(self.server, value) {
            self.server = value;
        }
    }

    /// The client's view is certainly not behind any more, whatever a card has sent on.
    pub(crate) const fn leap(&mut self) {
        self.server = self.server.wrapping_add(LEAP);
    }

    /// A backend's clock begins: it goes on where the client's view of it stands. If what the
    /// client was told is `learnt` from an earlier connection, its view goes on where the
    /// clock is, as long as that is ahead.
    pub(crate) const fn join(&mut self, stamps: Stamps, learnt: bool) {
        if learnt && self.delta == 0 && is_ahead(stamps.value, self.server) {
            (self.server, self.first) = (stamps.value, stamps.value);
            return;
        }
        self.delta = self.server.wrapping_add(self.delta).wrapping_sub(stamps.value);
        (self.server, self.first) = (stamps.value, stamps.value);
    }

    /// The timestamps of a segment that the agent makes for the client.
    pub(crate) const fn for_client(&self) -> Stamps {
        Stamps { value: self.server.wrapping_add(self.delta), echo: self.client }
    }

    /// The timestamps of a segment that the agent makes for the backend.
    pub(crate) const fn for_server(&self) -> Stamps {
        Stamps { value: self.client, echo: self.server }
    }

    /// What is added to the timestamps of a client's segment that echoes `echo`.
    pub(crate) const fn to_server(self, echo: u32) -> Stamps {
        let is_old = before(echo.wrapping_sub(self.delta), self.first);
        let added = if is_old { self.first.wrapping_sub(echo) } else { self.delta.wrapping_neg() };
        Stamps { value: 0, echo: added }
    }

    /// What is added to the timestamps of the backend's segments.
    pub(crate) const fn to_client(self) -> Stamps {
        Stamps { value: self.delta, echo: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_backend_goes_on_where_the_first_stood() {
        let mut clocks = Clocks::new(7, 1_000);
        clocks.join(Stamps { value: u32::MAX, echo: 7 }, false);
        assert_eq!(clocks.for_client().value, 1_000);
        clocks.see_server(Stamps { value: 49, echo: 7 });
        clocks.see_server(Stamps { value: 3, echo: 7 });
        assert_eq!(clocks.for_client().value, 1_050);
        clocks.join(Stamps { value: 500, echo: 7 }, false);
        assert_eq!(clocks.for_client(), Stamps { value: 1_050, echo: 7 });
        assert_eq!(clocks.to_server(1_050).echo.wrapping_add(1_050), 500);
        assert_eq!(clocks.for_server(), Stamps { value: 7, echo: 500 });
    }

    #[test]
    fn a_clock_that_was_learnt_passes_as_it_is() {
        let mut clocks = Clocks::new(7, 1_000);
        clocks.join(Stamps { value: 90_000, echo: 7 }, true);
        assert_eq!(clocks.to_client(), Stamps::default());
        // The client has not seen the backend's clock yet.
        assert_eq!(clocks.to_server(1_000).echo.wrapping_add(1_000), 90_000);
        assert_eq!(clocks.to_server(90_007), Stamps::default());
        // Of a clock that is behind, what was learnt is wrong.
        let mut clocks = Clocks::new(7, 1_000);
        clocks.join(Stamps { value: 999, echo: 7 }, true);
        assert_eq!(clocks.to_client().value, 1);
    }

    #[test]
    fn an_echo_from_before_a_switch_becomes_the_first_number_of_the_new_backend() {
        let mut clocks = Clocks::new(7, 1_000);
        clocks.join(Stamps { value: 3, echo: 7 }, false);
        clocks.see_server(Stamps { value: 40, echo: 7 });
        clocks.join(Stamps { value: 900, echo: 7 }, false);
        let echoed = |clocks: &Clocks, echo: u32| clocks.to_server(echo).echo.wrapping_add(echo);
        assert_eq!(echoed(&clocks, 1_010), 900);
        assert_eq!(echoed(&clocks, 1_037), 900);
        assert_eq!(echoed(&clocks, 1_038), 901);
        // A clock that has gone round since then is not older than its first number.
        for step in 1..9_u32 {
            let value = 900_u32.wrapping_add(step << 29);
            clocks.see_server(Stamps { value, echo: 7 });
            assert_eq!(echoed(&clocks, value.wrapping_add(137)), value);
        }
    }
}

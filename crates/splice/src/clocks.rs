//! The timestamps of a connection (RFC 7323): the client sees one clock from the agent's
//! SYN-ACK to the end, whichever backend's it is.
//!
//! The agent's SYN-ACK carries a number of the agent's. A backend's clock starts
//! elsewhere, and a client that saw it go back would drop every segment (PAWS, section 5).
//! So the backend's first number becomes the agent's last, by a constant that is added to
//! all that follow and taken off the client's echoes.
use crate::edits::before;
use crate::options::Stamps;

/// Both clocks as they were seen last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    client: u32,
    server: u32,
    /// What is added to the backend's clock to get what the client sees.
    delta: u32,
}

impl Clocks {
    /// The clocks before there is a backend: the agent's SYN-ACK carries `told`.
    pub(crate) const fn new(client: u32, told: u32) -> Self {
        Self { client, server: told, delta: 0 }
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
    }

    /// A backend's clock begins: it goes on where the client's view of it stands.
    pub(crate) const fn join(&mut self, stamps: Stamps) {
        self.delta = self.server.wrapping_add(self.delta).wrapping_sub(stamps.value);
        self.server = stamps.value;
    }

    /// The timestamps of a segment that the agent makes for the client.
    pub(crate) const fn for_client(&self) -> Stamps {
        Stamps { value: self.server.wrapping_add(self.delta), echo: self.client }
    }

    /// The timestamps of a segment that the agent makes for the backend.
    pub(crate) const fn for_server(&self) -> Stamps {
        Stamps { value: self.client, echo: self.server }
    }

    /// What is added to the timestamps of the client's segments.
    pub(crate) const fn to_server(self) -> Stamps {
        Stamps { value: 0, echo: self.delta.wrapping_neg() }
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
        clocks.join(Stamps { value: u32::MAX, echo: 7 });
        assert_eq!(clocks.for_client().value, 1_000);
        clocks.see_server(Stamps { value: 49, echo: 7 });
        clocks.see_server(Stamps { value: 3, echo: 7 });
        assert_eq!(clocks.for_client().value, 1_050);
        clocks.join(Stamps { value: 500, echo: 7 });
        assert_eq!(clocks.for_client(), Stamps { value: 1_050, echo: 7 });
        assert_eq!(clocks.to_server().echo.wrapping_add(1_050), 500);
        assert_eq!(clocks.for_server(), Stamps { value: 7, echo: 500 });
    }
}

//! What a client has said so far, without its socket.
use std::os::fd::OwnedFd;

use mapped::Mapped;
use rustix::fs::OFlags;

use crate::connection::Connection;
use crate::message::{DisconnectReason, MOST_LOG2_RING, MOST_REGIONS, Message, VERSION};
use crate::ring::{Place, Ring};

/// A client between its first word and its connection.
#[derive(Debug, Default)]
pub(crate) struct Session {
    introduced: bool,
    regions: Vec<Mapped>,
    from_client: Option<Place>,
    to_client: Option<(Place, OwnedFd)>,
}

/// What follows from a message.
#[derive(Debug)]
pub(crate) enum Step {
    /// It is acknowledged.
    Ack,
    /// The client is connected, and is told so.
    Connected(Connection),
    /// The client goes.
    Gone(String),
}

impl Session {
    /// A message of the client, with the descriptor that came with it.
    pub(crate) fn take(
        &mut self,
        message: &Message,
        descriptor: Option<OwnedFd>,
    ) -> Result<Step, DisconnectReason> {
        match *message {
            Message::Init { version, id, mode } if !self.introduced => {
                self.introduced = true;
                match (version, mode, id) {
                    (VERSION, 0, 0) => Ok(Step::Ack),
                    (VERSION, 0, _) => Err(DisconnectReason::Id),
                    (VERSION, _, _) => Err(DisconnectReason::Mode),
                    _ => Err(DisconnectReason::Version),
                }
            }
            Message::AddRegion { index, size } if self.introduced => {
                let memory = descriptor.ok_or(DisconnectReason::Descriptor)?;
                if usize::from(index) != self.regions.len() || self.regions.len() == MOST_REGIONS {
                    return Err(DisconnectReason::Region);
                }
                let region = Mapped::sealed(memory, size).map_err(|error| {
                    tracing::debug!("region {index} of {size} bytes: {error}");
                    DisconnectReason::Memory
                })?;
                self.regions.push(region);
                Ok(Step::Ack)
            }
            Message::AddRing { to_server, index, region, offset, log2_size } if self.introduced => {
                let wake = descriptor.ok_or(DisconnectReason::Descriptor)?;
                // The thread that polls must not wait for a client that is never awake.
                let flags = rustix::fs::fcntl_getfl(&wake);
                flags
                    .and_then(|flags| rustix::fs::fcntl_setfl(&wake, flags | OFlags::NONBLOCK))
                    .map_err(|_| DisconnectReason::Descriptor)?;
                if index != 0 || log2_size > MOST_LOG2_RING {
                    return Err(DisconnectReason::Ring);
                }
                let place = Place { region: region.into(), offset: offset as usize, log2_size };
                let twice = if to_server {
                    self.from_client.replace(place).is_some()
                } else {
                    self.to_client.replace((place, wake)).is_some()
                };
                if twice { Err(DisconnectReason::Ring) } else { Ok(Step::Ack) }
            }
            Message::Connect if self.introduced => self.connect().map(Step::Connected),
            Message::Disconnect { ref reason } => Ok(Step::Gone(reason.clone())),
            _ => Err(DisconnectReason::Order),
        }
    }

    fn connect(&mut self) -> Result<Connection, DisconnectReason> {
        let (from, to) = (self.from_client.take(), self.to_client.take());
        let ((to, wake), from) = to.zip(from).ok_or(DisconnectReason::NoRing)?;
        let regions = std::mem::take(&mut self.regions);
        let ring = |place: Place| {
            let region = regions.get(place.region);
            region.and_then(|region| Ring::new(place, region)).ok_or(DisconnectReason::Ring)
        };
        let (from, to) = (ring(from)?, ring(to)?);
        Ok(Connection::new(regions, from, to, wake))
    }
}

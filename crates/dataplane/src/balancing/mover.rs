//! Carries out moves: commands of the handover on gates, tables and epochs, and the
//! events that these have for it.
use std::sync::Arc;

use balance::{Command, Event, Handover, HandoverSettings, HandoverTotals, Move};
use state::{PortShared, QueueEpochs, Shared, Ticket};

/// A redirection table that can change while packets arrive.
pub trait RedirectionTable: Send {
    /// Gives an entry another queue.
    ///
    /// # Errors
    /// Why it still has the queue that it had.
    fn write(&self, entry: u16, queue: u16) -> Result<(), String>;
}

/// A port whose entries move.
pub struct MovedPort {
    /// Its number.
    pub number: usize,
    /// Its name in the configuration.
    pub name: String,
    /// Its table.
    pub table: Box<dyn RedirectionTable>,
    /// The worker of each entry, whose queue has the same number.
    pub map: Vec<u16>,
    /// How far an emulated NIC has put what the workers sent on the wire.
    pub sent: Option<Arc<QueueEpochs>>,
}

/// What is waited for.
#[derive(Clone, Copy)]
enum Wait {
    /// The new worker leaves its queue alone.
    Closed(Move),
    /// The old worker empties its queue.
    Received(Move, Ticket),
    /// The emulated NIC sends what the old worker gave it.
    Sent(Move, Ticket),
}

/// Where a bucket is: its port's place among those of the mover, and its entry.
type Place = (usize, u16);

/// Moves the buckets of several ports, which are numbered through.
pub struct Mover {
    ports: Vec<MovedPort>,
    places: Vec<Place>,
    map: Vec<u16>,
    handover: Handover,
    wait: Option<Wait>,
    shared: Arc<Shared>,
}

impl Mover {
    /// Of these ports.
    #[must_use]
    pub fn new(ports: Vec<MovedPort>, settings: HandoverSettings, shared: Arc<Shared>) -> Self {
        let entries = |(at, port): (usize, &MovedPort)| {
            (0_u16..).take(port.map.len()).map(move |entry| (at, entry)).collect::<Vec<_>>()
        };
        Self {
            places: ports.iter().enumerate().flat_map(entries).collect(),
            map: ports.iter().flat_map(|port| port.map.iter().copied()).collect(),
            handover: Handover::new(settings),
            wait: None,
            ports,
            shared,
        }
    }

    /// What the threads of the process share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The worker of each bucket.
    #[must_use]
    pub fn map(&self) -> &[u16] {
        &self.map
    }

    /// Whether a move is on its way.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.handover.is_busy()
    }

    /// What became of moves so far.
    #[must_use]
    pub const fn totals(&self) -> HandoverTotals {
        self.handover.totals()
    }

    /// Begins to move `bucket` to the worker `to`, unless it is there, or another move is
    /// on its way.
    pub fn begin(&mut self, bucket: u16, to: u16, now_ns: u64) {
        let Some(from) = self.map.get(usize::from(bucket)).copied() else { return };
        if from != to {
            let command = self.handover.begin(Move { bucket, from, to }, now_ns);
            self.obey(command, now_ns);
        }
    }

    /// Goes on with the move on its way.
    pub fn advance(&mut self, now_ns: u64) {
        let event = self.look();
        let command = event.and_then(|event| self.handover.tell(event, now_ns));
        let command = command.or_else(|| self.handover.advance(now_ns));
        self.obey(command, now_ns);
    }

    /// Whether what is waited for has happened.
    fn look(&mut self) -> Option<Event> {
        match self.wait? {
            Wait::Closed(wanted) => {
                let (port, ..) = self.port(wanted)?;
                port.gates.is_left(wanted.to).then_some(Event::Closed)
            }
            Wait::Received(wanted, ticket) => {
                let (port, own, _) = self.port(wanted)?;
                if !port.queue_epochs.emptied(wanted.from, ticket) {
                    return None;
                }
                let Some(sent) = &own.sent else { return Some(Event::Emptied) };
                let ticket = sent.ticket();
                self.wait = Some(Wait::Sent(wanted, ticket));
                None
            }
            Wait::Sent(wanted, ticket) => {
                let (_, own, _) = self.port(wanted)?;
                let sent = own.sent.as_ref()?;
                sent.emptied(wanted.from, ticket).then_some(Event::Emptied)
            }
        }
    }

    /// A bucket's port, as all threads see it and as the mover does, and the bucket's entry.
    fn port(&self, wanted: Move) -> Option<(&PortShared, &MovedPort, u16)> {
        let (at, entry) = self.places.get(usize::from(wanted.bucket)).copied()?;
        let own = self.ports.get(at)?;
        Some((self.shared.ports().get(own.number)?, own, entry))
    }

    fn obey(&mut self, command: Option<Command>, now_ns: u64) {
        let mut next = command;
        while let Some(command) = next.take() {
            let (Command::Close(wanted)
            | Command::Write(wanted)
            | Command::Await(wanted)
            | Command::Open(wanted)) = command;
            let Some((port, ..)) = self.port(wanted) else { return };
            match command {
                Command::Close(_) => {
                    port.gates.shut(wanted.to);
                    self.wait = Some(Wait::Closed(wanted));
                }
                Command::Write(_) => {
                    self.wait = None;
                    let event = self.write(wanted);
                    next = self.handover.tell(event, now_ns);
                }
                Command::Await(_) => {
                    self.wait = Some(Wait::Received(wanted, port.queue_epochs.ticket()));
                }
                Command::Open(_) => {
                    self.wait = None;
                    if let Some((port, ..)) = self.port(wanted) {
                        port.gates.open(wanted.to);
                    }
                }
            }
        }
    }

    fn write(&mut self, wanted: Move) -> Event {
        let Some((_, own, entry)) = self.port(wanted) else { return Event::Refused };
        let Move { bucket, from, to } = wanted;
        match own.table.write(entry, to) {
            Ok(()) => {
                let port = &own.name;
                tracing::debug!(port, bucket = entry, from, to, "a bucket moves to another worker");
                if let Some(worker) = self.map.get_mut(usize::from(bucket)) {
                    *worker = to;
                }
                Event::Written
            }
            Err(why) => {
                tracing::warn!(port = own.name, bucket = entry, why, "a bucket can't be moved");
                Event::Refused
            }
        }
    }
}

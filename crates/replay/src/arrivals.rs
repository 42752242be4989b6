//! The frames of a replay: of one capture or several, in the order of their time.
use std::collections::VecDeque;
use std::time::Duration;

use capture::{CaptureError, CaptureReader, Captured};
use flow::PortId;
use wire::{Headers, Mac, Net};

/// Frames that are read ahead at most, to find the ports' addresses.
const AHEAD: usize = 16_384;

/// Why no more frames come of a capture.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    /// The capture is cut off or damaged.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A frame of an interface that is no port.
    #[error(
        "frame {frame} is of interface {interface}{name}, and the configuration has the ports {ports}; name the port of the whole capture with --port"
    )]
    NoPort {
        /// The frame's number, from 1.
        frame: u64,
        /// The interface's number, from 0.
        interface: u32,
        /// The interface's name in brackets, if it has one.
        name: String,
        /// The names of the ports.
        ports: String,
    },
}

/// A frame and the port at which it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Where it arrives.
    pub port: PortId,
    /// The frame.
    pub captured: Captured,
}

/// At which ports the frames of a capture arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All at this one.
    One(PortId),
    /// At those with these names: an interface of the capture is the port of the same
    /// name, else that of the same number. With one port, all frames arrive there.
    Named(Vec<String>),
}

struct Source {
    reader: CaptureReader,
    ports: Ports,
    next: Option<Arrival>,
    ended: bool,
}

/// The frames of captures, merged by time.
pub struct Arrivals {
    sources: Vec<Source>,
    ahead: VecDeque<Arrival>,
    error: Option<ArrivalError>,
}

impl Arrivals {
    /// Those of `captures`.
    #[must_use]
    pub fn new(captures: Vec<(CaptureReader, Ports)>) -> Self {
        let source = |(reader, ports)| Source { reader, ports, next: None, ended: false };
        let sources = captures.into_iter().map(source).collect();
        Self { sources, ahead: VecDeque::new(), error: None }
    }

    /// The Ethernet address that the frames of each of `ports` ports are sent to: the
    /// first unicast destination of an IP frame. A replay takes it as the port's own.
    /// `None`: the first frames have none.
    pub fn destinations(&mut self, ports: usize) -> Vec<Option<Mac>> {
        let mut found = vec![None; ports];
        for Arrival { port, captured } in &self.ahead {
            learn(&mut found, *port, &captured.frame);
        }
        while found.contains(&None) && self.ahead.len() < AHEAD {
            let Some(arrival) = self.merge() else { break };
            learn(&mut found, arrival.port, &arrival.captured.frame);
            self.ahead.push_back(arrival);
        }
        found
    }

    /// Why a capture gave no more frames before its end, once there is no next frame.
    #[must_use]
    pub fn error(self) -> Option<ArrivalError> {
        self.error
    }

    /// The earliest frame of all captures.
    fn merge(&mut self) -> Option<Arrival> {
        for source in &mut self.sources {
            if source.next.is_some() || source.ended {
                continue;
            }
            match source.read() {
                Ok(next) => source.next = next,
                // The other captures go on.
                Err(error) => self.error = self.error.take().or(Some(error)),
            }
            source.ended = source.next.is_none();
        }
        let time = |source: &&mut Source| source.next.as_ref().map(|next| next.captured.time);
        let waiting = self.sources.iter_mut().filter(|source| source.next.is_some());
        waiting.min_by_key(|source| time(source).unwrap_or(Duration::MAX))?.next.take()
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        self.ahead.pop_front().or_else(|| self.merge())
    }
}

impl Source {
    fn read(&mut self) -> Result<Option<Arrival>, ArrivalError> {
        let Some(captured) = self.reader.read()? else { return Ok(None) };
        let name = self.reader.interface_name(captured.interface);
        match self.ports.of(captured.interface, name) {
            Some(port) => Ok(Some(Arrival { port, captured })),
            None => {
                let Ports::Named(names) = &self.ports else { return Ok(None) };
                let name = name.map_or_else(String::new, |name| format!(" ({name})"));
                let (frame, interface) = (captured.number, captured.interface);
                Err(ArrivalError::NoPort { frame, interface, name, ports: names.join(", ") })
            }
        }
    }
}

impl Ports {
    fn of(&self, interface: u32, name: Option<&str>) -> Option<PortId> {
        let names = match self {
            Self::One(port) => return Some(*port),
            Self::Named(names) => names,
        };
        if names.len() == 1 {
            return Some(PortId(0));
        }
        let same = name.and_then(|name| names.iter().position(|port| port == name));
        let at = same.or_else(|| Some(interface as usize).filter(|at| *at < names.len()))?;
        Some(PortId(at as u16))
    }
}

/// Notes the destination of `frame` as the address of `port`, if it can be.
fn learn(found: &mut [Option<Mac>], port: PortId, frame: &[u8]) {
    let Some(own) = found.get_mut(usize::from(port.0)).filter(|own| own.is_none()) else { return };
    let is_ip =
        Headers::parse(frame).is_ok_and(|headers| matches!(headers.net, Net::Ipv4 | Net::Ipv6));
    let mac = frame.first_chunk().copied().map(Mac);
    *own = mac.filter(|mac| is_ip && !mac.is_group());
}

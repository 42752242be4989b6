//! The pairs of ports: where a frame leaves (the thesis' `streamMap`, section 4.1.4).
use serde::Serialize;

/// The way of a frame through the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the first port of a pair to the second.
    Up,
    /// From the second port of a pair to the first.
    Down,
}

/// What an ingress port says of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The port that they leave by.
    pub egress: u8,
    /// Their way.
    pub direction: Direction,
}

/// The stream of each port, which is a position in the list of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streams(Vec<Stream>);

/// Why pairs of ports are no streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// More ports than the tag has room for.
    #[error("{0} ports; a middlebox has 2 to {most}", most = Streams::MOST_PORTS)]
    Ports(usize),
    /// The pair names a port that isn't there.
    #[error("a pair names port {0}, which is not there")]
    Unknown(u8),
    /// The port is in two pairs, or twice in one.
    #[error("port {0} is in two pairs; a port has one partner")]
    Twice(u8),
    /// The port is in no pair.
    #[error("port {0} is in no pair, so that its frames have nowhere to go")]
    Alone(u8),
}

impl Streams {
    /// The VLAN tag has four bits for a port.
    pub const MOST_PORTS: usize = 16;

    /// The streams of `ports` ports, each of which is in one of `pairs`.
    ///
    /// # Errors
    /// [`StreamError`] names the port.
    pub fn new(ports: usize, pairs: &[(u8, u8)]) -> Result<Self, StreamError> {
        if !(2..=Self::MOST_PORTS).contains(&ports) {
            return Err(StreamError::Ports(ports));
        }
        let mut streams = vec![None; ports];
        for &(first, second) in pairs {
            for (ingress, egress, direction) in
                [(first, second, Direction::Up), (second, first, Direction::Down)]
            {
                let place =
                    streams.get_mut(usize::from(ingress)).ok_or(StreamError::Unknown(ingress))?;
                if place.replace(Stream { egress, direction }).is_some() {
                    return Err(StreamError::Twice(ingress));
                }
            }
        }
        let whole = streams.iter().enumerate();
        let whole = whole.map(|(port, stream)| stream.ok_or(StreamError::Alone(port as u8)));
        whole.collect::<Result<_, _>>().map(Self)
    }

    /// What `ingress` says of its frames; `None` if there is no such port.
    #[must_use]
    pub fn of(&self, ingress: u8) -> Option<Stream> {
        self.0.get(usize::from(ingress)).copied()
    }

    /// The number of ports.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_of_the_thesis_pairs_are_there() {
        // Appendix A.3: source ports 0, 1 and destination ports 1, 0.
        let streams = Streams::new(4, &[(0, 1), (2, 3)]).unwrap();
        assert_eq!(streams.of(0), Some(Stream { egress: 1, direction: Direction::Up }));
        assert_eq!(streams.of(1), Some(Stream { egress: 0, direction: Direction::Down }));
        assert_eq!(streams.of(3), Some(Stream { egress: 2, direction: Direction::Down }));
        assert_eq!(streams.of(4), None);
    }

    #[test]
    fn a_port_has_one_partner() {
        assert_eq!(Streams::new(1, &[]), Err(StreamError::Ports(1)));
        assert_eq!(Streams::new(17, &[]), Err(StreamError::Ports(17)));
        assert_eq!(Streams::new(2, &[(0, 2)]), Err(StreamError::Unknown(2)));
        assert_eq!(Streams::new(2, &[(0, 0)]), Err(StreamError::Twice(0)));
        assert_eq!(Streams::new(4, &[(0, 1), (1, 2)]), Err(StreamError::Twice(1)));
        assert_eq!(Streams::new(3, &[(0, 1)]), Err(StreamError::Alone(2)));
    }
}

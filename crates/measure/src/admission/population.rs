//! The connections and their rates.
use traffic::{Rng, TrafficError, Zipf};

/// Connections with Zipf's rates; which has which is by chance, and changes.
#[derive(Debug)]
pub(super) struct Population {
    zipf: Zipf,
    rng: Rng,
    /// By rank, the heaviest first.
    by_rank: Vec<u32>,
    /// The inverse.
    ranks: Vec<u32>,
    /// The share of all packets that each rank has.
    shares: Vec<f64>,
}

impl Population {
    pub(super) fn new(connections: u32, alpha: f64, seed: u64) -> Result<Self, TrafficError> {
        let zipf = Zipf::new(connections, alpha, seed)?;
        let weights = (1..=connections).map(|rank| f64::from(rank).powf(-alpha));
        let all: f64 = weights.clone().rev().sum();
        let mut population = Self {
            zipf,
            rng: Rng::new(!seed),
            by_rank: (0..connections).collect(),
            ranks: (0..connections).collect(),
            shares: weights.map(|weight| weight / all).collect(),
        };
        population.change(connections as usize);
        Ok(population)
    }

    pub(super) fn len(&self) -> u32 {
        self.by_rank.len() as u32
    }

    /// The connection of the next packet.
    pub(super) fn packet(&mut self) -> u32 {
        let rank = self.zipf.next().unwrap_or(0);
        self.of_rank(rank)
    }

    /// The connection with this rank, the heaviest being 0.
    pub(super) fn of_rank(&self, rank: u32) -> u32 {
        self.by_rank.get(rank as usize).copied().unwrap_or(0)
    }

    /// The share of all packets that are of `conn`.
    pub(super) fn share_of(&self, conn: u32) -> f64 {
        let rank = self.ranks.get(conn as usize).copied().unwrap_or(u32::MAX);
        self.shares.get(rank as usize).copied().unwrap_or(0.0)
    }

    /// The share of the `heaviest` heaviest connections.
    pub(super) fn share(&self, heaviest: usize) -> f64 {
        self.zipf.share(heaviest as u32)
    }

    /// The `heaviest` heaviest connections change places with others by chance.
    pub(super) fn change(&mut self, heaviest: usize) {
        let all = self.by_rank.len();
        for rank in 0..heaviest.min(all) {
            let other = rank + self.rng.below((all - rank) as u64) as usize;
            self.by_rank.swap(rank, other);
        }
        for (&conn, rank) in self.by_rank.iter().zip(0..) {
            if let Some(place) = self.ranks.get_mut(conn as usize) {
                *place = rank;
            }
        }
    }

    /// All connections in an order by chance.
    pub(super) fn in_any_order(&mut self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len()).collect();
        for at in (1..order.len()).rev() {
            let other = self.rng.below(at as u64 + 1) as usize;
            order.swap(at, other);
        }
        order
    }
}

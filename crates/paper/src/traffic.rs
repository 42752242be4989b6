//! Which connection sends next.
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// How packets are spread over connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// All alike.
    Uniform,
    /// Connection k has a share proportional to 1 / k^alpha.
    Zipf(f64),
}

/// Least and most packets of a sequence before it starts again.
const LEAST: usize = 1 << 16;
const MOST: usize = 1 << 22;

impl Traffic {
    /// The name in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf(alpha) if alpha > 1.1 => "zipf-1.2",
            Self::Zipf(_) => "zipf-1.0",
        }
    }

    /// A sequence of numbers below `connections`, to be repeated. Uniform:
    /// every connection equally often, in random order.
    #[must_use]
    pub fn sequence(self, connections: u32, seed: u64) -> Vec<u32> {
        let mut rng = SmallRng::seed_from_u64(seed);
        match self {
            Self::Uniform => uniform(connections.max(1), &mut rng),
            Self::Zipf(alpha) => zipf(connections.max(1), alpha, &mut rng),
        }
    }
}

fn uniform(connections: u32, rng: &mut SmallRng) -> Vec<u32> {
    let rounds = LEAST.div_ceil(connections as usize);
    let mut sequence = Vec::with_capacity(rounds * connections as usize);
    for _ in 0..rounds {
        let start = sequence.len();
        sequence.extend(0..connections);
        if let Some(round) = sequence.get_mut(start..) {
            round.shuffle(rng);
        }
    }
    sequence
}

fn zipf(connections: u32, alpha: f64, rng: &mut SmallRng) -> Vec<u32> {
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=connections)
        .map(|rank| {
            sum += f64::from(rank).powf(-alpha);
            sum
        })
        .collect();
    let length = (connections as usize * 4).clamp(LEAST, MOST);
    let draw = |_| {
        let at = rng.random::<f64>() * sum;
        cumulated.partition_point(|&upto| upto <= at).min(connections as usize - 1) as u32
    };
    (0..length).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_is_every_connection_equally_often() {
        for connections in [1, 10, 1000, 100_000] {
            let sequence = Traffic::Uniform.sequence(connections, 1);
            let mut count = vec![0; connections as usize];
            sequence.iter().for_each(|&at| count[at as usize] += 1);
            assert!(count.iter().all(|&n| n == count[0]), "{connections}");
            assert!(sequence.len() >= LEAST);
        }
    }

    #[test]
    fn zipf_has_its_shares() {
        let sequence = Traffic::Zipf(1.0).sequence(1000, 1);
        let share = |rank: u32| {
            sequence.iter().filter(|&&at| at == rank).count() as f64 / sequence.len() as f64
        };
        let harmonic: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [0, 1, 9] {
            let wanted = 1.0 / (f64::from(rank + 1) * harmonic);
            assert!((share(rank) / wanted - 1.0).abs() < 0.1, "rank {rank}");
        }
        assert!(sequence.iter().all(|&at| at < 1000));
    }
}

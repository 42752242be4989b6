//! ClientHellos of any length, over any records.
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The server name of every hello.
pub(crate) const NAME: &[u8] = b"sim.example";

fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

/// The only protocol that every hello offers.
pub(crate) const PROTOCOL: &[u8] = b"other";

/// A hello, in records of any length.
pub(crate) fn random(seed: u64) -> Vec<u8> {
    let mut rng = SmallRng::seed_from_u64(!seed);
    let padding = rng.random_range(0..5_000);
    let name = [&[0], &long(NAME)[..]].concat();
    let protocol = [&[PROTOCOL.len() as u8], PROTOCOL].concat();
    let extensions = [
        [vec![0x1a, 0x1a], long(&[])].concat(),
        [vec![0, 16], long(&long(&protocol))].concat(),
        [vec![0, 21], long(&vec![0; padding])].concat(),
        [vec![0, 0], long(&long(&name))].concat(),
    ];
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(long(&extensions.concat()));
    let message = [&[1, 0], &long(&body)[..]].concat();
    let most = rng.random_range(30..4_000);
    let record = |part: &[u8]| [&[22, 3, 1], &long(part)[..]].concat();
    message.chunks(most).flat_map(record).collect()
}

//! The whole measurement.
use dpdk::Mempool;
use dpdk::crypto::{RECORD_HEADER, RECORD_TAG};

use super::endpoint::Point;
use super::handshake::Handshakes;
use super::options::{CryptoBenchError, Options};
use super::row::Row;
use super::split::Split;
use super::symmetric::Contestant;
use crate::machine::memory::Memory;

/// Megabytes for the mbufs of all engines.
const MEGABYTES: u32 = 96;
/// Mbufs of the pool: a burst for each device and cipher, and a reserve.
const MBUFS: u32 = 511;
/// The longest record.
const LONGEST: usize = 16384 + 1 + RECORD_HEADER + RECORD_TAG;

/// Everything measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The figures.
    pub rows: Vec<Row>,
    /// The memory that the devices' records are in.
    pub memory: String,
}

/// Measures; `told` is called with the steps done and all steps. Starts DPDK, so
/// it works once per process.
///
/// # Errors
/// DPDK, memory or a second processor is not there, or an engine failed.
pub fn run(
    options: Options,
    told: &mut dyn FnMut(usize, usize),
) -> Result<Outcome, CryptoBenchError> {
    let memory = Memory::start(MEGABYTES, options.ordinary_pages)?;
    let pool = Mempool::new("crypto", MBUFS, 0, LONGEST as u16)?;
    let mut handshakes = Handshakes::all()?;
    let mut contestants = Contestant::all(options, &pool)?;
    let mut split = Split::new(options)?;
    let mut endpoints = Point::all(options);
    let a_round = handshakes.len() + contestants.len() + split.steps() + endpoints.len();
    let (mut done, all) = (0, options.repetitions() * a_round);
    let mut step = || {
        done += 1;
        told(done, all);
    };
    for _ in 0..options.repetitions() {
        for kind in &mut handshakes {
            kind.repeat(options)?;
            step();
        }
        for contestant in &mut contestants {
            contestant.repeat(options)?;
            step();
        }
        split.repeat(options, &mut step)?;
        for endpoint in &mut endpoints {
            endpoint.repeat(options)?;
            step();
        }
    }
    let mut rows: Vec<Row> = handshakes.iter().map(Handshakes::row).collect();
    rows.extend(contestants.iter().flat_map(|contestant| contestant.rows(options)));
    rows.extend(split.rows());
    rows.extend(endpoints.iter().map(Point::row));
    Ok(Outcome { rows, memory: memory.to_string() })
}

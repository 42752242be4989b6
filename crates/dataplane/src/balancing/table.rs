//! The redirection tables of real and emulated cards, and what it costs to change them.
use std::sync::Arc;
use std::time::{Duration, Instant};

use dpdk::{Port, Redirection};
use nic::Nic;
use wire::toeplitz::Toeplitz;

use super::drivers::{self, Update};
use super::mover::RedirectionTable;
use crate::device::Device;

/// The longest that an update may take the driver. A driver that restarts the port takes
/// much longer.
const BOUND: Duration = Duration::from_millis(5);

impl RedirectionTable for Nic {
    fn write(&self, entry: u16, queue: u16) -> Result<(), String> {
        self.update_reta(&[(entry, queue)]).map_err(|error| error.to_string())
    }
}

impl RedirectionTable for Redirection {
    /// Reads the entry back: reading registers waits until the card has what was written.
    fn write(&self, entry: u16, queue: u16) -> Result<(), String> {
        self.update(&[(entry, queue)]).map_err(|error| error.to_string())?;
        match self.query().ok().and_then(|now| now.get(usize::from(entry)).copied()) {
            Some(now) if now != queue => {
                Err(format!("entry {entry} still has queue {now} after it was given {queue}"))
            }
            _ => Ok(()),
        }
    }
}

/// A table, and the queue of each entry.
type Known = (Box<dyn RedirectionTable>, Vec<u16>);

/// The redirection table of `device`, if it can be changed while packets arrive, and in
/// words what that takes or why it can't. Writes an entry with what it has, so it is to be
/// asked before there are rules.
pub(super) fn probe(device: &Device, workers: u16) -> (Option<Known>, String) {
    if let Some(emulated) = &device.emulated {
        return measured(Box::new(emulated.nic.clone()), emulated.nic.reta());
    }
    let driver = device.port.capabilities().map_or_else(|_| String::new(), |can| can.driver);
    if let Update::Restarts { source } = drivers::update(&driver) {
        let why = format!(
            "the driver {driver} stops and starts the port to change its redirection table ({source}), which loses packets and every rule"
        );
        return (None, why);
    }
    match known(&device.port, workers) {
        Ok((table, queues)) => measured(table, queues),
        Err(why) => (None, why),
    }
}

/// The hash that names the buckets of a real port, for drivers that don't report it.
pub(super) fn hash(device: &Device) -> Option<Arc<Toeplitz>> {
    let table = device.port.redirection().ok().filter(|_| device.emulated.is_none())?;
    Some(Arc::new(Toeplitz::new(&table.key()?)))
}

/// The table of a card and its entries, which the driver reads, or as they were written
/// at the start.
fn known(port: &Port, workers: u16) -> Result<Known, String> {
    let table = port.redirection().map_err(|error| error.to_string())?;
    let as_written = || (0..workers).cycle().take(table.size().into()).collect();
    let queues = table.query().unwrap_or_else(|_| as_written());
    match queues.iter().find(|queue| **queue >= workers) {
        Some(queue) => {
            Err(format!("its redirection table names queue {queue}, which is no worker's own"))
        }
        None => Ok((Box::new(table), queues)),
    }
}

fn measured(table: Box<dyn RedirectionTable>, queues: Vec<u16>) -> (Option<Known>, String) {
    let began = Instant::now();
    let written = table.write(0, queues.first().copied().unwrap_or(0));
    let took = began.elapsed();
    match written {
        Err(why) => (None, why),
        Ok(()) if took > BOUND => {
            let (took, bound) = (took.as_millis(), BOUND.as_millis());
            let why = format!(
                "an update of the redirection table took {took} ms; more than {bound} ms are not borne"
            );
            (None, why)
        }
        Ok(()) => {
            let why = format!("{} buckets, an update takes {} us", queues.len(), took.as_micros());
            (Some((table, queues)), why)
        }
    }
}

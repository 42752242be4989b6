//! Batches of frames on their way to ports and functions.
use dpdk::{Batch, Mbuf};
use nf::{Middlebox, Outbox};

use crate::plug::Outlet;

/// The batch of one device.
pub(crate) struct Lane {
    outlet: Outlet,
    batch: Batch<64>,
    /// What did not fit.
    refused: Vec<Mbuf>,
}

impl Lane {
    pub(crate) fn new(outlet: Outlet) -> Self {
        Self { outlet, batch: Batch::new(), refused: Vec::with_capacity(64) }
    }

    fn push(&mut self, mbuf: Mbuf) {
        if let Err(mbuf) = self.batch.push(mbuf) {
            self.send();
            if let Err(mbuf) = self.batch.push(mbuf) {
                self.refused.push(mbuf);
            }
        }
    }

    /// Sends what there is; whether there was any, and all of it was taken.
    fn send(&mut self) -> bool {
        if self.batch.is_empty() {
            return false;
        }
        self.outlet.send(&mut self.batch);
        let all = self.batch.is_empty();
        self.refused.extend(self.batch.drain());
        all
    }
}

/// All devices.
pub(crate) struct Lanes {
    ports: Vec<Lane>,
    functions: Vec<Lane>,
}

impl Lanes {
    pub(crate) fn new(ports: Vec<Outlet>, functions: Vec<Outlet>) -> Self {
        let lanes = |outlets: Vec<Outlet>| outlets.into_iter().map(Lane::new).collect();
        Self { ports: lanes(ports), functions: lanes(functions) }
    }

    /// Sends everything, and tells the server what was refused.
    pub(crate) fn flush(&mut self, server: &mut Middlebox<Mbuf>, now_ns: u64) {
        for (port, lane) in (0..).zip(&mut self.ports) {
            lane.send();
            for mbuf in lane.refused.drain(..) {
                server.refused_by_port(port, &mbuf);
            }
        }
        for (function, lane) in (0..).zip(&mut self.functions) {
            if lane.send() && lane.refused.is_empty() {
                server.taken_by_function(function);
            }
            for mbuf in lane.refused.drain(..) {
                server.refused_by_function(function, &mbuf, now_ns);
            }
        }
    }
}

impl Outbox<Mbuf> for Lanes {
    fn to_port(&mut self, port: u8, packet: Mbuf) {
        if let Some(lane) = self.ports.get_mut(usize::from(port)) {
            lane.push(packet);
        }
    }

    fn to_function(&mut self, function: u16, packet: Mbuf) {
        if let Some(lane) = self.functions.get_mut(usize::from(function)) {
            lane.push(packet);
        }
    }
}

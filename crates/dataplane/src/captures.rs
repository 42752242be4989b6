//! The control thread's side of a capture: it has the workers catch frames, and keeps
//! them until they are taken.
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use control::{CaptureOrder, Refusal};
use explain::{Ground, Trace, Verdict};
use flow::{CaptureSide, PortId};
use state::{Counter, Metric, Shared};
use status::{CaptureBatch, CaptureStarted, CapturedFrame, PacketStory};

use crate::catcher::{Catcher, Caught, Filter, RING};

/// Bytes of frames that wait to be taken; workers' rings fill up beyond them.
const WAITING: usize = 1 << 20;
/// A capture whose frames nobody takes for so long ends.
const PATIENCE_MS: u64 = 10_000;

/// The way to each worker, and the capture that goes on.
pub(crate) struct Captures {
    workers: Vec<rtrb::Producer<Catcher>>,
    last: u64,
    running: Option<Running>,
}

struct Running {
    id: u64,
    /// Of each worker, with the comment of the last packet that came in there; none once
    /// the capture has ended.
    rings: Vec<(rtrb::Consumer<Caught>, String)>,
    lost: Arc<AtomicU64>,
    waiting: VecDeque<CapturedFrame>,
    waiting_bytes: usize,
    left: Left,
    taken_ms: u64,
    ended: Option<String>,
}

/// What a capture may still catch.
struct Left {
    packets: u64,
    bytes: u64,
    until_ms: u64,
}

impl Captures {
    /// No capture goes on; `workers` are the ways to each.
    pub(crate) const fn new(workers: Vec<rtrb::Producer<Catcher>>) -> Self {
        Self { workers, last: 0, running: None }
    }

    /// Begins a capture. `names` are those of the ports.
    ///
    /// # Errors
    /// Another one goes on, or the order names what is not there.
    pub(crate) fn start(
        &mut self,
        order: &CaptureOrder,
        shared: &Shared,
        names: &[&str],
        now_ms: u64,
    ) -> Result<CaptureStarted, Refusal> {
        if self.running.as_ref().is_some_and(|own| own.ended.is_none()) {
            return Err(Refusal::Capturing("another capture goes on".to_owned()));
        }
        let filter = filter(order, shared, names)?;
        let lost = Arc::default();
        let mut rings = Vec::with_capacity(self.workers.len());
        for worker in &mut self.workers {
            let (ring, caught) = rtrb::RingBuffer::new(RING);
            let catcher = Catcher { filter: filter.clone(), ring, lost: Arc::clone(&lost) };
            let busy = |_| Refusal::Capturing("a worker has not ended its last capture".to_owned());
            worker.push(catcher).map_err(busy)?;
            rings.push((caught, String::new()));
        }
        self.last += 1;
        let until_ms = now_ms + u64::from(order.seconds) * 1000;
        self.running = Some(Running {
            id: self.last,
            rings,
            lost,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            left: Left { packets: order.packets, bytes: order.bytes, until_ms },
            taken_ms: now_ms,
            ended: None,
        });
        let ports = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(CaptureStarted { id: self.last, ports })
    }

    /// What capture `id` has caught since the last call.
    ///
    /// # Errors
    /// There is no such capture.
    pub(crate) fn take(&mut self, id: u64, now_ms: u64) -> Result<CaptureBatch, Refusal> {
        let running = self.running.as_mut().filter(|own| own.id == id);
        let running = running.ok_or(Refusal::NoCapture(id))?;
        running.taken_ms = now_ms;
        running.waiting_bytes = 0;
        Ok(CaptureBatch {
            frames: running.waiting.drain(..).collect(),
            lost: running.lost.load(Ordering::Relaxed),
            ended: running.ended.clone(),
        })
    }

    /// Ends capture `id`, and gives what it has caught.
    ///
    /// # Errors
    /// There is no such capture.
    pub(crate) fn stop(
        &mut self,
        id: u64,
        shared: &Shared,
        now_ms: u64,
    ) -> Result<CaptureBatch, Refusal> {
        if let Some(running) = self.running.as_mut().filter(|running| running.id == id) {
            // What workers have caught since the last turn.
            running.drain(shared, now_ms);
        }
        let mut batch = self.take(id, now_ms)?;
        self.running = None;
        batch.ended = Some("it was ended".to_owned());
        Ok(batch)
    }

    /// Takes what the workers have caught, and ends a capture that has caught enough.
    pub(crate) fn tick(&mut self, shared: &Shared, now_ms: u64) {
        let Some(running) = &mut self.running else { return };
        running.drain(shared, now_ms);
        running.end_if_due(now_ms);
    }
}

impl Running {
    fn drain(&mut self, shared: &Shared, now_ms: u64) {
        let Self { rings, waiting, waiting_bytes, left, .. } = self;
        for (ring, about) in rings {
            while *waiting_bytes < WAITING && left.packets > 0 && left.bytes > 0 {
                let Ok(caught) = ring.pop() else { break };
                left.packets -= 1;
                left.bytes = left.bytes.saturating_sub(caught.bytes.len() as u64);
                *waiting_bytes += caught.bytes.len();
                waiting.push_back(frame(&caught, shared, about, now_ms));
            }
        }
    }

    fn end_if_due(&mut self, now_ms: u64) {
        let Self { left, taken_ms, ended, rings, .. } = self;
        let why = if left.packets == 0 {
            "it has caught as many packets as it may"
        } else if left.bytes == 0 {
            "it has caught as many bytes as it may"
        } else if now_ms >= left.until_ms {
            "its time is over"
        } else if now_ms >= *taken_ms + PATIENCE_MS {
            "nobody has taken its frames for 10 s"
        } else {
            return;
        };
        // Workers drop their ends when they find these gone.
        rings.clear();
        ended.get_or_insert_with(|| why.to_owned());
    }
}

fn filter(order: &CaptureOrder, shared: &Shared, names: &[&str]) -> Result<Filter, Refusal> {
    let CaptureOrder { filter, side, seconds, packets, bytes } = order;
    if *seconds == 0 || *seconds > CaptureOrder::LONGEST || *packets == 0 || *bytes == 0 {
        let what = "a capture takes 1 to 3600 seconds, and at least one packet and one byte";
        return Err(Refusal::Malformed(what.to_owned()));
    }
    let port = filter.port.as_ref().map(|name| {
        let at = names.iter().position(|own| own == name);
        let unknown = || {
            Refusal::Malformed(format!("there is no port '{name}'; there are {}", names.join(", ")))
        };
        at.and_then(|at| u16::try_from(at).ok()).map(PortId).ok_or_else(unknown)
    });
    let service = filter.service.as_ref().map(|name| {
        let snapshot = shared.snapshot();
        let mut all = snapshot.services.services().iter();
        let found = all.find(|own| own.name() == name).map(service::Service::id);
        found.ok_or_else(|| Refusal::NoService(name.clone()))
    });
    Ok(Filter {
        port: port.transpose()?,
        protocol: filter.protocol,
        address: filter.address,
        l4_port: filter.l4_port,
        service: service.transpose()?,
        before: matches!(side, CaptureSide::Before | CaptureSide::Both),
        after: matches!(side, CaptureSide::After | CaptureSide::Both),
    })
}

/// A caught frame with its comment. `about` is the comment of the last packet that came
/// in, to which those that leave behind it belong.
fn frame(caught: &Caught, shared: &Shared, about: &mut String, now_ms: u64) -> CapturedFrame {
    if !caught.leaves {
        *about = comment(caught, shared, now_ms);
    }
    let comment = match caught.leaves {
        true if about.is_empty() => format!("leaves ({})", names(&caught.raised)),
        true => format!("leaves because of: {about}"),
        false => about.clone(),
    };
    CapturedFrame {
        time_ns: caught.time_ns,
        port: caught.port.0,
        leaves: caught.leaves,
        length: caught.length,
        bytes: hex::encode(&caught.bytes),
        comment,
    }
}

/// What became of a packet that came in, and why.
fn comment(caught: &Caught, shared: &Shared, now_ms: u64) -> String {
    let metric = |counter: &Counter| Metric {
        name: counter.name(),
        kind: counter.kind(),
        help: counter.help(),
        value: 1,
    };
    let raised: Vec<Metric> = caught.raised.iter().map(metric).collect();
    let trace = Trace {
        frame: 0,
        port: caught.port.0,
        verdict: Verdict::of(&raised),
        counters: raised.iter().map(|metric| metric.name).collect(),
        sent: Vec::new(),
    };
    let ground = Ground::of(shared, &caught.bytes, now_ms);
    let PacketStory { verdict, why, service, backend, .. } =
        ground.story(shared, (&trace, &raised), &[], now_ms);
    let part = |name: &str, value: Option<String>| {
        value.map_or_else(String::new, |value| format!("; {name} {value}"))
    };
    format!(
        "{verdict} ({}){}{}; {why}",
        names(&caught.raised),
        part("service", service),
        part("backend", backend)
    )
}

fn names(counters: &[Counter]) -> String {
    counters.iter().map(|counter| counter.name()).collect::<Vec<_>>().join(" ")
}

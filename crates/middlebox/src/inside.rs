//! A network function in the server's own process: a thread behind the rings of a
//! net_ring port.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use dpdk::ring::{Consumer, Producer};
use dpdk::{Batch, Mempool, Port, PortConfig, RingNic, net_ring, pin_to_core, register_thread};
use packet::PacketBuf;

use crate::server::ServerError;
use crate::work::Inspect;

/// Empty rounds before the thread sleeps, and for how long.
const PATIENCE: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// The function's thread, which ends when this is dropped.
pub(crate) struct Inside {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has.
struct Function {
    name: String,
    core: Option<u16>,
    /// What the server sends.
    from_server: Consumer,
    to_server: Producer,
    inspect: Box<dyn Inspect + Send>,
}

impl Inside {
    /// Starts function `number` on `core`, or on any; the server's port towards it.
    pub(crate) fn start(
        number: usize,
        name: &str,
        core: Option<u16>,
        inspect: Box<dyn Inspect + Send>,
        pool: &Mempool,
    ) -> Result<(Port, Self), ServerError> {
        let failed = |source| ServerError::Port { what: "function", name: name.to_owned(), source };
        let wanted = PortConfig::default();
        let RingNic { mut port, mut to_port, mut from_port } =
            net_ring::create(&format!("nf{number}"), &wanted, pool).map_err(failed)?;
        port.start().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        // The default is one queue each way.
        let thread = match (to_port.pop(), from_port.pop()) {
            (Some(to_server), Some(from_server)) => {
                let name = name.to_owned();
                let function = Function { name, core, from_server, to_server, inspect };
                let thread = std::thread::Builder::new().name(format!("nf{number}"));
                let stop = Arc::clone(&stop);
                Some(thread.spawn(move || function.run(&stop)).map_err(ServerError::Thread)?)
            }
            _ => None,
        };
        Ok((port, Self { stop, thread }))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of a network function has panicked");
        }
    }
}

impl Function {
    /// Returns every frame that the function lets pass. What finds no room on its way back
    /// is freed; the server counts it as lost.
    fn run(mut self, stop: &AtomicBool) {
        let ready = register_thread().and_then(|guard| {
            self.core.map_or(Ok(()), |core| pin_to_core(core.into()))?;
            Ok(guard)
        });
        let _guard = match ready {
            Ok(guard) => guard,
            Err(error) => {
                return tracing::error!(function = self.name, "it can't run: {error}");
            }
        };
        let mut batch = Batch::<32>::new();
        let mut empty = 0_u32;
        while !stop.load(Ordering::Acquire) {
            if self.from_server.dequeue_burst(&mut batch) == 0 {
                empty = empty.saturating_add(1);
                if empty > PATIENCE {
                    std::thread::sleep(NAP);
                }
                continue;
            }
            empty = 0;
            batch.retain(|packet| self.inspect.inspect(packet.bytes_mut()));
            self.to_server.enqueue_burst(&mut batch);
            batch.clear();
        }
        if let Some(summary) = self.inspect.summary() {
            tracing::info!(function = self.name, "{summary}");
        }
    }
}

//! What a request costs a balancer of requests: HNLB's L7 agent beside HAProxy and nginx as
//! reverse proxies, in the same lab with the same client, backends and load.
//!
//! Each has one thread for requests. HAProxy and nginx are charged with the time of their
//! process, which holds what the kernel does in their system calls, but not its soft
//! interrupts. HNLB's worker polls without end and is charged with the time that it has had a
//! processor, times util+, the share of its cycles that iterations with packets have taken
//! (algorithm 1 of the HNLB paper).

mod proxy;
mod row;
mod used;

use std::fs;
use std::path::Path;

pub use proxy::System;
pub(crate) use proxy::{Running, start_haproxy};
pub use row::Row;

use crate::load::{Connections, HttpLoad};
use crate::topology::BACKENDS;
use crate::{Lab, LabError, LabOptions, Stop, host};

/// Connections at a time.
const OPEN: u32 = 16;
/// Bytes of responses of a whole run, and of a quick one.
const SIZES: [usize; 6] = [0, 1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20];
const FEW_SIZES: [usize; 3] = [0, 16 << 10, 1 << 20];

/// How the measurement is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fewer and shorter points: a functional check.
    pub quick: bool,
    /// How often each point is measured; rounds go through all of them, so that drift
    /// hits all alike.
    pub rounds: u32,
    /// HNLB's worker has AF_XDP sockets of the kernel instead of an emulated NIC, and is
    /// charged with what they cost.
    pub xdp: bool,
}

impl Options {
    fn sizes(&self) -> &'static [usize] {
        if self.quick { &FEW_SIZES } else { &SIZES }
    }
}

/// Runs the measurement with HNLB's program at `binary`, and gives each row to `tell` as
/// it is there.
///
/// # Errors
/// If the lab cannot be set up, a program is missing, a balancer doesn't start, or the
/// stop is requested. The lab is gone in any case.
pub fn run(
    binary: &Path,
    stop: &Stop,
    options: &Options,
    tell: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, LabError> {
    for program in ["wrk", "haproxy", "nginx"] {
        if !host::has(program) {
            let why = format!("{program} not found; `make deps` installs it");
            return Err(LabError::Unavailable(why));
        }
    }
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    write_bodies(&lab, options.sizes())?;
    let mut rows = Vec::new();
    for round in 0..options.rounds {
        for system in System::ALL {
            eprintln!("http: round {} of {}: {}", round + 1, options.rounds, system.name());
            let running = system.start(&mut lab, binary, options.xdp)?;
            for &bytes in options.sizes() {
                for use_ in [Connections::KeepAlive, Connections::Short] {
                    let row = measure(&mut lab, &running, bytes, use_, options.quick)?;
                    tell(&row);
                    rows.push(row);
                }
            }
            running.stop(&mut lab)?;
        }
    }
    lab.down()?;
    Ok(rows)
}

/// Every backend has every body.
pub(crate) fn write_bodies(lab: &Lab, sizes: &[usize]) -> Result<(), LabError> {
    for host in &BACKENDS {
        for &bytes in sizes {
            let path = lab.dir().join(host.name).join("html").join(format!("body{bytes}"));
            fs::write(&path, vec![b'x'; bytes])
                .map_err(LabError::io(format!("write {}", path.display())))?;
        }
    }
    Ok(())
}

/// One load on one system.
fn measure(
    lab: &mut Lab,
    running: &Running,
    bytes: usize,
    use_: Connections,
    quick: bool,
) -> Result<Row, LabError> {
    let (target, path) = (proxy::target(), format!("/body{bytes}"));
    let load = |seconds| HttpLoad::of(seconds, OPEN, use_);
    // Neighbours are resolved, and connections to backends are there.
    load(1).run_path(lab, proxy::CLIENT, target, &path)?;
    let before = running.read(lab)?;
    let seconds = if quick { 1 } else { 4 };
    let result = load(seconds).run_path(lab, proxy::CLIENT, target, &path)?;
    let used = running.read(lab)?.since(&before);
    running.check(lab)?;
    #[allow(clippy::cast_precision_loss)]
    let of_each = |ns: f64| ns / 1e3 / result.requests.max(1) as f64;
    Ok(Row {
        system: running.system(),
        bytes,
        keepalive: use_ == Connections::KeepAlive,
        requests_per_s: result.rps,
        cpu_us_per_request: of_each(used.all_ns),
        system_us_per_request: of_each(used.system_ns),
        p50_us: result.p50_us,
        p99_us: result.p99_us,
        p999_us: result.p999_us,
        failed: result.failed,
    })
}

//! The process of the control API hangs, and is killed: packets flow, health checks go
//! on, and another process takes its place.

use std::time::{Duration, Instant};

use super::fault::Fault;
use super::run::{NOTICED, Run};
use crate::load::{self, Connections, HttpLoad, Length};
use crate::topology::{BACKENDS, Family, vip};
use crate::{Lab, LabError};

/// Connections of the load, open all the time.
const LOAD: u32 = 16;

impl Run<'_> {
    /// The process hangs for as long as `hung` under load, is killed, and hangs once more
    /// while a backend falls ill: no request fails, and new connections leave the backend.
    pub(super) fn without_control(&mut self, hung: Duration) -> Result<(), LabError> {
        let hangs = control_process(self.balancer.pid())?;
        let load = HttpLoad {
            length: Length::Seconds(hung.as_secs() + 2),
            connections: LOAD,
            use_: Connections::KeepAlive,
            pause_ms: 5,
        };
        let lab = &*self.lab;
        let seen = std::thread::scope(|scope| {
            let load = scope.spawn(|| load.run(lab, "c2", vip(Family::V4)));
            signal(lab, hangs, "STOP")?;
            let slept = lab.stop().sleep(hung);
            signal(lab, hangs, "KILL")?;
            slept?;
            load.join().map_err(|_| missing("the load"))?
        })?;
        if seen.failed > 0 || seen.requests == 0 {
            self.fail(&format!("while the control API hung: {:?} of {seen:?}", seen.errors));
        }
        self.settle(&|_| true)?;
        let next = control_process(self.balancer.pid())?;
        if next == hangs {
            self.fail("the killed process of the control API has no successor");
        }
        println!(
            "{:<18} the control API hung for {} s and was killed: {} requests, {} failed",
            self.name,
            hung.as_secs(),
            seen.requests,
            seen.failed
        );
        self.ill_meanwhile(next)
    }

    /// While the process `hangs`, a backend answers 500 to its checks.
    fn ill_meanwhile(&mut self, hangs: u32) -> Result<(), LabError> {
        let [_, ill, ..] = &BACKENDS;
        signal(self.lab, hangs, "STOP")?;
        Fault::Sick.inflict(self.lab, ill)?;
        let began = Instant::now();
        let well = |host: &str| host != ill.name;
        // Nobody can be asked, so requests must show it: some in a row without the backend.
        loop {
            let mut seen = Vec::new();
            for _ in 0..4 * BACKENDS.len() {
                seen.push(load::get(self.lab, "c1", vip(Family::V4))?);
            }
            if !seen.iter().any(|name| name == ill.name) {
                break;
            }
            if began.elapsed() > NOTICED {
                self.fail("no backend goes down while the control API hangs");
                break;
            }
        }
        self.expect("the control API hangs, one backend is ill", &well)?;
        Fault::Sick.heal(self.lab, ill)?;
        signal(self.lab, hangs, "CONT")?;
        self.settle(&|_| true)?;
        self.expect("the control API goes on", &|_| true)
    }
}

/// The process of the control API: the child of HNLB's that is called so.
fn control_process(parent: u32) -> Result<u32, LabError> {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let ids =
        std::fs::read_to_string(&children).map_err(LabError::io(format!("read {children}")))?;
    let is_it = |id: &u32| {
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"api")
    };
    let mut ids = ids.split_whitespace().filter_map(|id| id.parse().ok());
    ids.find(is_it).ok_or_else(|| missing("the process of the control API"))
}

fn missing(what: &str) -> LabError {
    LabError::Timeout { what: what.to_owned(), seconds: 0, detail: String::new() }
}

fn signal(lab: &Lab, id: u32, name: &str) -> Result<(), LabError> {
    lab.exec("lb", &["kill", "-s", name, &id.to_string()])?.success().map(drop)
}

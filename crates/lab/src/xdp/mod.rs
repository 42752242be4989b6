//! What HNLB does with the kernel as its card where other cards have no counterpart:
//! several receive queues, next hops that move, other programs at the interface, and an
//! interface that goes.

mod scenes;

use std::path::{Path, PathBuf};

use self::scenes::Scene;
use crate::column::Column;
use crate::config::LabRun;
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// HNLB with the kernel as its card, in a lab of its own.
struct Stage<'a> {
    lab: Lab,
    balancer: Balancer,
    binary: &'a Path,
}

impl<'a> Stage<'a> {
    /// Sets up a lab whose link to HNLB has `queues` receive and send queues, lets
    /// `prepare` change it, and starts what that returns with as many workers.
    fn set(
        binary: &'a Path,
        stop: &Stop,
        queues: u16,
        prepare: fn(&Lab, PathBuf) -> Result<PathBuf, LabError>,
    ) -> Result<Self, LabError> {
        let stop = stop.clone();
        let mut lab = Lab::up(LabOptions { queues, stop, ..LabOptions::default() })?;
        let started = prepare(&lab, binary.to_owned())?;
        let one = Column::Xdp.run(flow::Mode::Nat, 1);
        let run = LabRun { workers: queues, queues, ..one };
        let balancer = Balancer::start(&mut lab, &started, &run)?;
        Ok(Self { lab, balancer, binary })
    }

    /// The lines of HNLB's log that have these words in them.
    fn logged(&self, words: &str) -> Result<Vec<String>, LabError> {
        let log = self.lab.log(crate::balancer::NAME);
        let text = std::fs::read_to_string(&log)
            .map_err(LabError::io(format!("read {}", log.display())))?;
        Ok(text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect())
    }

    /// Ends HNLB, which must still run and go by itself.
    fn strike(self) -> Result<(), LabError> {
        let Self { mut lab, balancer, .. } = self;
        balancer.check(&mut lab)?;
        let willing = balancer.end(&mut lab);
        lab.down()?;
        if willing {
            Ok(())
        } else {
            Err(wrong("hnlb had to be killed, it did not end on SIGTERM"))
        }
    }
}

fn wrong(what: impl Into<String>) -> LabError {
    LabError::Parse { tool: "a check", detail: what.into() }
}

/// Runs all scenes with HNLB's program at `binary`; a line for each goes to stdout. True
/// if all went as they should.
///
/// # Errors
/// The stop is requested. The labs are gone in any case.
pub(crate) fn run(binary: &Path, stop: &Stop) -> Result<bool, LabError> {
    let mut fine = true;
    for Scene { name, queues, prepare, play } in scenes::ALL {
        eprintln!("xdp: {name}");
        let played = Stage::set(binary, stop, queues, prepare).and_then(|mut stage| {
            play(&mut stage)?;
            stage.strike()
        });
        stop.check()?;
        match played {
            Ok(()) => println!("ok      {name}"),
            Err(error) => {
                fine = false;
                println!("FAILED  {name}: {error}");
            }
        }
    }
    Ok(fine)
}

//! Floods and forged packets beside real clients: an attacker on the clients'
//! link sends raw frames with spoofed sources, while connections are held idle,
//! clients use long connections, download files, and open new connections.

mod attack;
mod attacker;
mod dawdler;
mod frames;
mod held;
mod run;
mod table;
mod visitor;

use std::path::Path;

pub use attack::Attack;
pub use attacker::Attacker;
pub(crate) use dawdler::Dawdled;
pub use dawdler::Dawdler;
use flow::{EncodingChoice, Mode};
pub(crate) use held::Held;
pub use held::Holder;
pub(crate) use visitor::Visited;
pub use visitor::Visitor;

use crate::config::LabRun;
use crate::progress::Progress;
use crate::{Lab, LabError, LabOptions, Stop};

/// Which floods, and how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seconds of each run.
    pub seconds: u64,
    /// Frames a second of each attack.
    pub rate: u32,
    /// The attacks that are run alone, and together if they are several.
    pub attacks: Vec<Attack>,
    /// Whether the attacks are run only together, none of them alone.
    pub together: bool,
    /// Whether HNLB keeps a neighbour's address against other stations' claims.
    pub pin: bool,
    /// How packets reach the backends.
    pub mode: Mode,
    /// How the NIC tells the worker what it matched.
    pub encoding: EncodingChoice,
    /// A JSON object a run on stdout instead of the table.
    pub json: bool,
}

/// Runs HNLB's program at `binary` without a flood, in each flood, and in all of
/// them at once; the table, or JSON, goes to stdout, progress to stderr. True if
/// no established connection was lost and new ones were served.
///
/// # Errors
/// If a lab cannot be set up, HNLB doesn't start or ends, or the stop is
/// requested. The lab is gone in any case.
pub fn run(binary: &Path, stop: &Stop, options: &Options) -> Result<bool, LabError> {
    let mut floods: Vec<Vec<Attack>> = vec![Vec::new()];
    if !options.together {
        floods.extend(options.attacks.iter().map(|attack| vec![*attack]));
    }
    if options.together || options.attacks.len() > 1 {
        floods.push(options.attacks.clone());
    }
    let how = LabRun { mode: options.mode, ..LabRun::emulated(options.encoding) };
    let progress = Progress::new("flood", floods.len());
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let mut reports = Vec::new();
    for attacks in &floods {
        progress.step(&run::name(attacks));
        let report = run::run(&mut lab, binary, &how, options, attacks)?;
        if options.json {
            println!("{}", serde_json::json!(report));
        }
        reports.push(report);
    }
    lab.down()?;
    progress.done();
    if !options.json {
        print!("{}", table::render(&reports));
    }
    let failures: Vec<String> = reports.iter().flat_map(run::Report::failures).collect();
    for failure in &failures {
        eprintln!("flood: FAILED  {failure}");
    }
    Ok(failures.is_empty())
}

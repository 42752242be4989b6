//! What HNLB answers where it forwards nothing, as the usual tools see it: closed
//! ports, traceroutes that end at a VIP, long pings, connections of a removed
//! backend, stations that claim a VIP, and starts that cannot go well.

mod checks;

use std::path::Path;

use flow::{Encoding, Mode, OnRemove};

use crate::config::LabRun;
use crate::host;
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// Programs that only this needs, with their Debian packages.
const PROGRAMS: [(&str, &str); 3] =
    [("ping", "iputils-ping"), ("tracepath", "iputils-tracepath"), ("traceroute", "traceroute")];

/// HNLB running in the lab, and what the checks need of it.
struct Bench<'a> {
    lab: &'a Lab,
    binary: &'a str,
    balancer: &'a Balancer,
    /// How it runs; the file of its configuration.
    run: &'a LabRun,
    file: &'a Path,
}

/// Runs all checks with HNLB's program at `binary`; a line for each goes to
/// stdout. True if all passed.
///
/// # Errors
/// If the lab cannot be set up, a program is missing, HNLB doesn't start or ends,
/// or the stop is requested. The lab is gone in any case.
pub fn run(binary: &Path, stop: &Stop) -> Result<bool, LabError> {
    for (program, package) in PROGRAMS {
        if !host::has(program) {
            return Err(LabError::Unavailable(format!(
                "{program} not found; `make deps` installs it (Debian: apt-get install {package})"
            )));
        }
    }
    eprintln!("answers: setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let run = LabRun { mode: Mode::Nat, ..LabRun::emulated(Encoding::Mark) };
    const NAME: &str = "hnlb-answers";
    let balancer =
        Balancer::start_with(&mut lab, binary, NAME, run.device, |socket| toml(&run, socket, &[]))?;
    let file = lab.dir().join(NAME).with_extension("toml");
    let program = binary.display().to_string();
    let bench = Bench { lab: &lab, binary: &program, balancer: &balancer, run: &run, file: &file };
    let mut fine = true;
    for (name, check) in checks::ALL {
        let seen = check(&bench);
        stop.check()?;
        match seen {
            Ok(()) => println!("ok      {name}"),
            Err(error) => {
                fine = false;
                println!("FAILED  {name}: {error}");
            }
        }
    }
    balancer.check(&mut lab)?;
    if !balancer.end(&mut lab) {
        fine = false;
        println!("FAILED  hnlb had to be killed, it did not end on SIGTERM");
    }
    lab.down()?;
    Ok(fine)
}

/// The configuration: connections of a backend that goes are reset, and forged claims
/// divert nobody. Services lose the backends whose place in the lab is in `without`.
fn toml(run: &LabRun, socket: &Path, without: &[usize]) -> String {
    let mut text = run.base(socket) + "\n[neighbours]\npin = true\n";
    for mut service in run.services() {
        service.on_remove = OnRemove::Reset;
        let backends = service.backends.into_iter().enumerate();
        service.backends =
            backends.filter(|(place, _)| !without.contains(place)).map(|(_, own)| own).collect();
        text += &service.toml();
    }
    text
}

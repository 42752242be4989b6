//! Termination of TLS with real clients and servers: curl, wrk, h2load and openssl in front of
//! HNLB, nginx behind it. Bodies must arrive byte for byte in both directions, over a good
//! link and over one that loses, repeats, delays and reorders; certificates are exchanged
//! under load, and no request fails.

mod bytes;
mod certificates;
mod checks;
mod loads;
mod memory;
mod misuse;
mod sealed;
mod told;

use std::path::Path;
use std::time::Duration;

use flow::Encoding;

use crate::config::LabRun;
use crate::faulty::{Faults, FaultyLink};
use crate::topology::{BACKENDS, CLIENTS, Family, WEB_BACKEND_PORT, vip};
use crate::{Balancer, Lab, LabError, LabOptions, Stop, host};

pub(crate) use certificates::Certificates;

/// What the links of the first client and of two backends do in the second part, in both
/// directions.
const FAULTS: Faults = Faults { lost: 5, repeated: 5, late: 20, delay_us: 500, late_us: 2_000 };

/// How long a command of the user's may take.
const WITH: Duration = Duration::from_secs(3_600);

/// The port of the service that asks clients for a certificate.
const MUTUAL_PORT: u16 = 8443;

/// The port of the service that changes headers.
const CHANGED_PORT: u16 = 8444;

/// What is wanted of a run.
pub(crate) struct Wanted {
    /// Bodies of 1 GiB, and more requests.
    pub(crate) long: bool,
    /// Bodies of 100 MB over bad links, too.
    pub(crate) faulty: bool,
    /// What happens on the bad links.
    pub(crate) seed: u64,
    /// How often certificates are exchanged under load.
    pub(crate) swaps: u32,
    /// A shell command that a client runs instead.
    pub(crate) with: Option<String>,
}

/// Runs HNLB's program at `binary` and prints a line for each check. True if all passed.
///
/// # Errors
/// If the lab cannot be set up, HNLB doesn't start or ends, or the stop is requested.
/// The lab is gone in any case.
pub(crate) fn run(binary: &Path, stop: &Stop, wanted: &Wanted) -> Result<bool, LabError> {
    for (program, package) in
        [("curl", "curl"), ("wrk", "wrk"), ("openssl", "openssl"), ("h2load", "nghttp2-client")]
    {
        if !host::has(program) {
            return Err(LabError::Unavailable(format!(
                "{program} not found; `make deps` installs it (Debian: apt-get install {package})"
            )));
        }
    }
    eprintln!("https: setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let certificates = Certificates::new(&lab)?;
    sealed::start(&mut lab, &certificates)?;
    bytes::start(&mut lab)?;
    let how = LabRun { workers: 2, ..LabRun::emulated(Encoding::Mark) };
    let told = told::config(&lab, &certificates);
    let balancer = Balancer::start_with(&mut lab, binary, "hnlb-https", how.device, |socket| {
        let services = [Family::V4, Family::V6].map(|family| services(family, &certificates));
        how.base(socket)
            + &services.concat()
            + &sealed::services(&certificates)
            + &bytes::services(&certificates)
            + &told
    })?;
    let failures = match &wanted.with {
        Some(command) => usize::from(!with(&lab, &certificates, command)?),
        None => {
            let mut run = checks::Run::new(&lab, &balancer, &certificates, wanted)?;
            run.all()?;
            bad_link(&lab, &mut run, wanted.seed)?;
            run.refusals()?;
            run.failures()
        }
    };
    balancer.check(&mut lab)?;
    let ended = balancer.end(&mut lab);
    lab.down()?;
    if !ended {
        println!("FAILED  hnlb had to be killed, it did not end on SIGTERM");
    }
    if failures == 0 && ended {
        println!("nothing failed");
    }
    Ok(failures == 0 && ended)
}

/// Runs a command at a client, and prints what it says. Whether it is content.
fn with(lab: &Lab, certificates: &Certificates, command: &str) -> Result<bool, LabError> {
    let script = format!(
        "export LAB_ADDRESS={} LAB_NAME={} LAB_CA={}; {command}",
        vip(Family::V4),
        Certificates::FIRST,
        certificates.ca().display(),
    );
    let output = lab.exec_for(CLIENTS[0].name, &["sh", "-c", &script], WITH)?;
    print!("{}{}", output.stdout, output.stderr);
    Ok(output.status.success())
}

/// Moves bodies over bad links of the client, and of the backends that send and store
/// them.
fn bad_link(lab: &Lab, run: &mut checks::Run<'_>, seed: u64) -> Result<(), LabError> {
    let hosts = [&CLIENTS[0], &BACKENDS[1], &BACKENDS[3]];
    let links: Result<Vec<_>, _> = hosts
        .into_iter()
        .zip(seed..)
        .map(|(host, seed)| FaultyLink::insert(lab, host, FAULTS, seed))
        .collect();
    let links = links?;
    run.bad_bodies()?;
    links.into_iter().try_for_each(|link| link.remove(lab).map(|_| ()))
}

/// A service that changes headers and keeps clients by a cookie, over all backends.
fn changed(family: Family, certificates: &Certificates) -> String {
    let digit = if family == Family::V4 { 4 } else { 6 };
    let mut text = format!(
        "\n[[service]]\nname = \"changed{digit}\"\nvip = \"{}\"\nport = {CHANGED_PORT}\n\
         protocol = \"https\"\nscheduler = \"round-robin\"\n\
         [service.response_headers]\nset = [\"X-Frame-Options: DENY\"]\nremove = [\"Server\"]\n\
         [service.sticky]\nkey = \"000102030405060708090a0b0c0d0e0f\"\nsecure = true\n\
         [service.tls]\n{}",
        vip(family),
        certificates.tables()
    );
    for own in BACKENDS {
        let address = own.address(family);
        text +=
            &format!("[[service.backend]]\naddress = \"{address}\"\nport = {WEB_BACKEND_PORT}\n");
    }
    text
}

/// The services of one family. Requests for `a.lab` go to b1, those below `/up` to b2,
/// and all others to b4. One service asks clients for a certificate.
fn services(family: Family, certificates: &Certificates) -> String {
    let digit = if family == Family::V4 { 4 } else { 6 };
    let mut text = String::new();
    for (name, port, more) in [
        ("tls", 443, String::new()),
        (
            "mutual",
            MUTUAL_PORT,
            format!(
                "client_ca = \"{}\"\nforward_client_certificate = true\n",
                certificates.ca().display()
            ),
        ),
    ] {
        text += &format!(
            "\n[[service]]\nname = \"{name}{digit}\"\nvip = \"{}\"\nport = {port}\n\
             protocol = \"https\"\nscheduler = \"round-robin\"\n\
             [service.tls]\nhsts = \"1h\"\n{more}{}",
            vip(family),
            certificates.tables()
        );
        text += "[[service.route]]\nhost = \"a.lab\"\ngroup = \"a\"\n\
                 [[service.route]]\npath = \"/up\"\ngroup = \"up\"\n\
                 [[service.route]]\npath = \"/old\"\n\
                 redirect = { location = \"https://new-{host}{path}{query}\", status = 308 }\n";
        for (own, group) in
            [(&BACKENDS[0], Some("a")), (&BACKENDS[1], Some("up")), (&BACKENDS[3], None)]
        {
            let address = own.address(family);
            text += &format!(
                "[[service.backend]]\naddress = \"{address}\"\nport = {WEB_BACKEND_PORT}\n"
            );
            if let Some(group) = group {
                text += &format!("group = \"{group}\"\n");
            }
        }
    }
    text + &changed(family, certificates)
}

//! The same requests through HAProxy and through HNLB, before the same server: statuses,
//! fields and bodies are compared, and each difference has an explanation or is a failure.
pub(crate) mod ask;
mod cases;
mod explained;
pub(crate) mod origin;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flow::Encoding;

use crate::config::LabRun;
use crate::http_bench::start_haproxy;
use crate::topology::{BACKENDS, ORIGIN_PORT, VIP4, WEB_PORT};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

use ask::{Outcome, Response};
use cases::Case;

/// How long all cases may take at one of the two.
const PATIENCE: Duration = Duration::from_secs(600);

/// Asks both, and prints what differs. True if each difference has an explanation.
///
/// # Errors
/// If the lab cannot be set up, a program doesn't start, or the stop is requested.
pub(super) fn run(binary: &Path, stop: &Stop) -> Result<bool, LabError> {
    eprintln!("http: setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let program = binary.display().to_string();
    let own = &BACKENDS[0];
    let at = format!("{}:{ORIGIN_PORT}", own.v4);
    let origin = lab.spawn(own.name, "origin", &[&program, "lab", "origin", &at])?;
    let cases = cases::all();
    let file = lab.dir().join("cases.json");
    let text = serde_json::to_string(&cases).map_err(std::io::Error::from);
    text.and_then(|text| std::fs::write(&file, text))
        .map_err(LabError::io(format!("write {}", file.display())))?;
    let ask = |lab: &Lab| {
        let to = format!("{VIP4}:{WEB_PORT}");
        let file = file.display().to_string();
        let argv = [program.as_str(), "lab", "ask", &to, &file];
        let text = lab.exec_for("c1", &argv, PATIENCE)?.success()?.stdout;
        let what = LabError::io("read the outcomes");
        serde_json::from_str::<Vec<Outcome>>(&text).map_err(std::io::Error::from).map_err(what)
    };
    eprintln!("http: {} cases through HAProxy", cases.len());
    let running = start_haproxy(&mut lab, &haproxy(&at))?;
    let theirs = ask(&lab)?;
    running.stop(&mut lab)?;
    eprintln!("http: {} cases through HNLB", cases.len());
    let how = LabRun::emulated(Encoding::Off);
    let balancer = Balancer::start_with(&mut lab, binary, "hnlb-parity", how.device, |socket| {
        how.base(socket) + &service(&own.v4.to_string())
    })?;
    let ours = ask(&lab)?;
    balancer.check(&mut lab)?;
    let ended = balancer.end(&mut lab);
    lab.end(origin, Duration::from_secs(5));
    lab.down()?;
    Ok(compare(&cases, &ours, &theirs) && ended)
}

fn service(backend: &str) -> String {
    format!(
        "\n[[service]]\nname = \"web\"\nvip = \"{VIP4}\"\nport = {WEB_PORT}\nprotocol = \"http\"\n\
         [[service.backend]]\naddress = \"{backend}\"\nport = {ORIGIN_PORT}\n"
    )
}

fn haproxy(backend: &str) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 512\n\
         defaults\n  mode http\n  timeout connect 10s\n  timeout client 60s\n  \
         timeout server 60s\n  timeout http-request 10s\n  option forwardfor\n\
         listen web\n  bind {VIP4}:{WEB_PORT}\n  server own {backend}\n"
    )
}

/// Prints the differences by explanation.
fn compare(cases: &[Case], ours: &[Outcome], theirs: &[Outcome]) -> bool {
    let (mut explained, mut open) = (BTreeMap::<&str, Vec<String>>::new(), 0);
    let mut same = 0;
    for ((case, ours), theirs) in cases.iter().zip(ours).zip(theirs) {
        let (own, other) = (comparable(ours), comparable(theirs));
        if own == other {
            same += 1;
            continue;
        }
        let line = format!("{}: HNLB {}, HAProxy {}", case.name, short(&own), short(&other));
        match explained::why(&case.name, &own, &other) {
            Some(why) => explained.entry(why).or_default().push(line),
            None => {
                open += 1;
                println!("FAILED  {line}\n        HNLB    {own:?}\n        HAProxy {other:?}");
            }
        }
    }
    for (why, lines) in &explained {
        println!("differs {why}");
        lines.iter().for_each(|line| println!("        {line}"));
    }
    let all = cases.len();
    let known: usize = explained.values().map(Vec::len).sum();
    println!("{all} cases: {same} alike, {known} differ as explained, {open} without explanation");
    open == 0 && ours.len() == all && theirs.len() == all
}

/// What is compared of an outcome: of an answer that the load balancer makes itself, only
/// the status code. Fields of one hop do not count.
fn comparable(outcome: &Outcome) -> Outcome {
    let responses = outcome.responses.iter().map(|response| {
        if response.value("x-origin").is_none() && !response.status.starts_with('1') {
            let code = response.status.get(..3).unwrap_or_default();
            return Response { status: code.to_owned(), fields: Vec::new(), body: String::new() };
        }
        let hop = ["connection", "keep-alive"];
        let mut response = response.clone();
        response.fields.retain(|(name, _)| !hop.contains(&name.as_str()));
        response
    });
    Outcome { responses: responses.collect(), end: outcome.end.clone() }
}

fn short(outcome: &Outcome) -> String {
    let statuses: Vec<&str> = outcome.responses.iter().map(|own| own.status.as_str()).collect();
    format!("[{}] {}", statuses.join(", "), outcome.end).trim_end().to_owned()
}

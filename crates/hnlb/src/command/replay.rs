//! `hnlb replay`: a capture through the whole data path.
use std::process::ExitCode;

use config::Config;
use flow::{Encoding, PortId};
use replay::capture::{CaptureReader, CaptureWriter};
use replay::{Options, Replayed, Simulation};

use crate::cli::ReplayArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &ReplayArgs) -> CommandResult {
    let config = Config::load(&args.config)?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let port = port(&config, args.port.as_deref())?;
    let options = options(args)?;
    let mut reader = CaptureReader::open(&args.input)?;
    let writer = CaptureWriter::create(&args.output, reader.format())?;
    let mut simulation = Simulation::new(&config, &options)?;
    let done = replay::replay(&mut simulation, port, &mut reader, writer)?;
    if args.json {
        output::print(&format!("{}\n", json(&simulation, done)))?;
    } else {
        output::print(&page(args, &options, &simulation, done))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn port(config: &Config, name: Option<&str>) -> Result<PortId, String> {
    let Some(name) = name else { return Ok(PortId(0)) };
    let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    let at = names.iter().position(|known| *known == name);
    at.map(|at| PortId(at as u16)).ok_or_else(|| {
        format!("--port {name}: the configuration has the ports {}", names.join(", "))
    })
}

fn options(args: &ReplayArgs) -> Result<Options, replay::capture::CaptureError> {
    let defaults = Options::default();
    Ok(Options {
        nic: args.nic,
        encoding: if args.nic.is_some() { args.encoding } else { Encoding::Off },
        mac: replay::destination(&args.input)?.unwrap_or(defaults.mac),
        ..defaults
    })
}

fn json(simulation: &Simulation, done: Replayed) -> serde_json::Value {
    let stats = simulation.offload_stats();
    let (now, ever) = (stats.now(), stats.done());
    let nic = simulation.nic(PortId(0)).map(nic::Nic::stats);
    serde_json::json!({
        "frames_read": done.read,
        "frames_written": done.written,
        "seconds": done.duration.as_secs_f64(),
        "counters": simulation.counters(),
        "connections": simulation.shared().table.len(),
        "rules": now.rules,
        "rules_created": ever.created,
        "rules_destroyed": ever.destroyed,
        "nic_matched": nic.as_ref().map_or(0, |nic| nic.matched),
        "nic_missed": nic.as_ref().map_or(0, |nic| nic.missed),
    })
}

/// What was done, for people.
fn page(args: &ReplayArgs, options: &Options, simulation: &Simulation, done: Replayed) -> String {
    let mut page = format!(
        "{} frames over {:.3} s from {}, {} frames to {}\nown address {}, encoding {}\n",
        done.read,
        done.duration.as_secs_f64(),
        args.input.display(),
        done.written,
        args.output.display(),
        options.mac,
        options.encoding
    );
    let mut line = |name: &str, value: u64| page += &format!("  {name:<32} {value:>12}\n");
    for (name, value) in simulation.counters().iter().filter(|(_, value)| **value > 0) {
        line(name, *value);
    }
    line("connections", simulation.shared().table.len() as u64);
    let stats = simulation.offload_stats();
    if let Some(nic) = simulation.nic(PortId(0)).map(nic::Nic::stats) {
        line("nic_matched", nic.matched);
        line("nic_missed", nic.missed);
        line("rules_in_use", stats.now().rules as u64);
        line("rules_created", stats.done().created);
    }
    page
}

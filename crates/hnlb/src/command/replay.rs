//! `hnlb replay`: captures through the whole data path.
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::{CaptureError, CaptureReader, CaptureWriter, Format};
use config::{Config, no_rewrite};
use flow::{Encoding, PortId};
use nic::NicStats;
use replay::{Arrivals, Options, Ports, Replayed, Simulation, Trace, Verdict};
use state::CounterKind;

use crate::cli::{ReplayArgs, TracedFrames};
use crate::{CommandResult, output};

/// The exit status after a capture that is cut off or damaged.
const CUT: u8 = 3;

pub(crate) fn run(args: &ReplayArgs) -> CommandResult {
    let (config, warnings) = Config::load_with_warnings(&args.config)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    let files = Files::of(args, &names)?;
    let mut read: Vec<&Path> = files.inputs.iter().map(|(path, _)| path.as_path()).collect();
    read.push(&args.config);
    let open = |(path, ports): &(PathBuf, Ports)| Ok((CaptureReader::open(path)?, ports.clone()));
    let captures = files.inputs.iter().map(open).collect::<Result<Vec<_>, CaptureError>>()?;
    let classic = captures.iter().all(|(reader, _)| reader.format() == Format::Pcap);
    let format = if classic && names.len() == 1 { Format::Pcap } else { Format::PcapNg };
    let mut arrivals = Arrivals::new(captures);
    let options = options(args, arrivals.destinations(names.len()));
    let writer = CaptureWriter::create(&files.output, format, &names, &read)?;
    let mut simulation = Simulation::new(&config, &options)?;
    let mut teller = Teller::new(args, &names, &files.output);
    let mut tell = |trace: &Trace| teller.tell(trace);
    let done = replay::replay(
        &mut simulation,
        arrivals,
        writer,
        if args.trace.is_some() { Some(&mut tell) } else { None },
    )?;
    teller.end()?;
    let report = if args.json {
        format!("{}\n", json(&simulation, &done))
    } else {
        page(&files, &options, names.len(), &simulation, &done)
    };
    print(&files.output, &report)?;
    if let Some(error) = done.error {
        eprintln!("hnlb: {error}");
        return Ok(ExitCode::from(CUT));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints `text`: to standard error if the capture goes to standard output.
fn print(output: &Path, text: &str) -> io::Result<()> {
    if output == Path::new("-") {
        return io::stderr().lock().write_all(text.as_bytes());
    }
    output::print(text)
}

/// The captures that are read, with their ports, and the one that is written.
struct Files {
    inputs: Vec<(PathBuf, Ports)>,
    output: PathBuf,
}

impl Files {
    fn of(args: &ReplayArgs, names: &[&str]) -> Result<Self, String> {
        let id = |name: &str| {
            let at = names.iter().position(|known| *known == name);
            at.map(|at| PortId(at as u16)).ok_or_else(|| {
                format!("--port {name}: the configuration has the ports {}", names.join(", "))
            })
        };
        let mut inputs = Vec::new();
        let mut one = None;
        for port in &args.ports {
            match port.split_once('=') {
                Some((name, file)) => inputs.push((PathBuf::from(file), Ports::One(id(name)?))),
                None => one = Some(id(port)?),
            }
        }
        let ports = match one {
            Some(_) if args.ports.len() > 1 => {
                return Err(
                    "--port: give one port for all of IN, or a NAME=FILE for each".to_owned()
                );
            }
            Some(port) => Ports::One(port),
            None => Ports::Named(names.iter().map(ToString::to_string).collect()),
        };
        match (inputs.is_empty(), args.captures.as_slice()) {
            (true, [input, output]) => {
                Ok(Self { inputs: vec![(input.clone(), ports)], output: output.clone() })
            }
            (false, [output]) => Ok(Self { inputs, output: output.clone() }),
            (true, _) => Err("give two captures: IN, which is read, and OUT".to_owned()),
            (false, _) => {
                Err("--port NAME=FILE names what is read: give one capture more, OUT".to_owned())
            }
        }
    }
}

fn options(args: &ReplayArgs, macs: Vec<Option<wire::Mac>>) -> Options {
    let encoding = if args.nic.is_some() { args.encoding } else { Encoding::Off };
    if let Some(why) = args.nic.filter(|_| encoding == Encoding::Rewrite).and_then(no_rewrite) {
        tracing::warn!("--encoding rewrite: {why}");
    }
    Options { nic: args.nic, encoding, macs, ..Options::default() }
}

/// Prints the stories of frames.
struct Teller<'a> {
    all: bool,
    json: bool,
    names: &'a [&'a str],
    output: &'a Path,
    /// The first error, after which nothing is printed.
    result: io::Result<()>,
}

impl<'a> Teller<'a> {
    fn new(args: &ReplayArgs, names: &'a [&'a str], output: &'a Path) -> Self {
        let all = args.trace == Some(TracedFrames::All);
        Self { all, json: args.json, names, output, result: Ok(()) }
    }

    fn tell(&mut self, trace: &Trace) {
        let changed = matches!(
            trace.verdict,
            Verdict::Dropped | Verdict::Forwarded | Verdict::ForwardedByNic
        );
        if self.result.is_ok() && (self.all || changed) {
            let line = if self.json { self.object(trace) } else { self.line(trace) };
            self.result = print(self.output, &(line + "\n"));
        }
    }

    fn end(self) -> io::Result<()> {
        self.result
    }

    fn name(&self, port: u16) -> &str {
        self.names.get(usize::from(port)).copied().unwrap_or("?")
    }

    fn line(&self, trace: &Trace) -> String {
        let (port, counters) = (self.name(trace.port), trace.counters.join(" "));
        let mut line = format!("{:>8} {port:<8} {:<20} {counters}", trace.frame, trace.verdict);
        for sent in &trace.sent {
            let changes = sent.changes.iter();
            let changes: Vec<String> = changes
                .map(|change| format!("{} {} -> {}", change.field, change.from, change.to))
                .collect();
            let _ = write!(line, " | out of {}: {}", self.name(sent.port), changes.join(", "));
        }
        line
    }

    fn object(&self, trace: &Trace) -> String {
        let mut object = serde_json::json!(trace);
        object["port"] = self.name(trace.port).into();
        for (place, sent) in trace.sent.iter().enumerate() {
            object["sent"][place]["port"] = self.name(sent.port).into();
        }
        object.to_string()
    }
}

/// The terms of the sum that `received` is, in their order.
const KINDS: [(CounterKind, &str); 5] = [
    (CounterKind::Forwarded, "forwarded"),
    (CounterKind::Replied, "replied"),
    (CounterKind::Dropped, "dropped"),
    (CounterKind::Consumed, "consumed"),
    (CounterKind::Held, "held"),
];

/// How many frames workers received, and the sum of the counters of each kind.
fn sums(simulation: &Simulation) -> (u64, [(&'static str, u64); 5]) {
    let metrics = simulation.metrics();
    let sum = |kind| metrics.values().filter(|m| m.kind == kind).map(|m| m.value).sum::<u64>();
    (sum(CounterKind::In), KINDS.map(|(kind, name)| (name, sum(kind))))
}

/// What the NICs of all ports did with the frames.
fn nics(simulation: &Simulation) -> Option<(u64, u64)> {
    let ports = 0..simulation.shared().ports().len() as u16;
    let mut nics = ports.filter_map(|port| Some(simulation.nic(PortId(port))?.stats())).peekable();
    nics.peek()?;
    let add = |(matched, missed), nic: NicStats| (matched + nic.matched, missed + nic.missed);
    Some(nics.fold((0, 0), add))
}

fn json(simulation: &Simulation, done: &Replayed) -> serde_json::Value {
    let stats = simulation.offload_stats();
    let (now, ever) = (stats.now(), stats.done());
    let (matched, missed) = nics(simulation).unwrap_or_default();
    let (intake, (received, sums)) = (simulation.intake(), sums(simulation));
    let sums: serde_json::Map<String, serde_json::Value> =
        sums.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    serde_json::json!({
        "frames_read": done.read,
        "frames_written": done.written,
        "seconds": done.duration.as_secs_f64(),
        "error": done.error.as_ref().map(ToString::to_string),
        "nic_forwarded": intake.nic_forwarded,
        "nic_dropped": intake.nic_dropped,
        "queue_full": intake.queue_full,
        "received": received,
        "sums": sums,
        "counters": simulation.counters(),
        "connections": simulation.shared().table().len(),
        "rules": now.rules,
        "rules_created": ever.created,
        "rules_destroyed": ever.destroyed,
        "nic_matched": matched,
        "nic_missed": missed,
    })
}

/// What was done, for people.
fn page(
    files: &Files,
    options: &Options,
    ports: usize,
    simulation: &Simulation,
    done: &Replayed,
) -> String {
    let inputs: Vec<String> =
        files.inputs.iter().map(|(path, _)| path.display().to_string()).collect();
    let own: Vec<String> =
        (0..ports as u16).map(|port| options.mac(PortId(port)).to_string()).collect();
    let mut page = format!(
        "{} frames over {:.3} s from {}, {} frames to {}\nown address {}, encoding {}\n",
        done.read,
        done.duration.as_secs_f64(),
        inputs.join(", "),
        done.written,
        files.output.display(),
        own.join(", "),
        options.encoding
    );
    let (intake, (received, sums)) = (simulation.intake(), sums(simulation));
    let _ = writeln!(
        page,
        "read = {} sent on by the NIC + {} dropped by the NIC + {} for a full queue + {received} received",
        intake.nic_forwarded, intake.nic_dropped, intake.queue_full
    );
    let sums = sums.map(|(name, value)| format!("{value} {name}"));
    let _ = writeln!(page, "received = {}", sums.join(" + "));
    let mut line = |name: &str, value: u64| page += &format!("  {name:<32} {value:>12}\n");
    for (name, value) in simulation.counters().iter().filter(|(_, value)| **value > 0) {
        line(name, *value);
    }
    line("connections", simulation.shared().table().len() as u64);
    let stats = simulation.offload_stats();
    if let Some((matched, missed)) = nics(simulation) {
        line("nic_matched", matched);
        line("nic_missed", missed);
        line("rules_in_use", stats.now().rules as u64);
        line("rules_created", stats.done().created);
    }
    page
}

//! `hnlb explain`: where packets would go, and why.
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use api::Client;
use capture::{CaptureReader, Captured};
use config::Config;
use control::{FlowProbe, FrameProbe, Probe, Question};
use replay::{Arrival, Arrivals, Options, Ports, Simulation};
use status::{PacketStories, PacketStory, Status};

use crate::cli::ExplainArgs;
use crate::{CommandError, CommandResult, output};

/// Bytes of frames in one question: its hexadecimal digits must fit into a request.
const BYTES: usize = 400_000;

pub(crate) fn run(args: &ExplainArgs) -> CommandResult {
    match args.packet.as_slice() {
        [file] => of_capture(args, Path::new(file))?,
        [protocol, source, destination] => {
            let probe = flow(args, [protocol, source, destination])?;
            let story = match &args.config {
                Some(config) => offline(config, &probe)?,
                None => ask(args, vec![probe])?.pop().ok_or("the load balancer tells nothing")?,
            };
            tell(args, &story)?;
        }
        _ => return Err(format!("give a capture, or a 5-tuple: {EXAMPLE}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

const EXAMPLE: &str = "tcp 198.51.100.7:40000 192.0.2.100:80";

fn flow(args: &ExplainArgs, words: [&String; 3]) -> Result<Probe, CommandError> {
    let [protocol, source, destination] = words;
    let endpoint = |text: &str| {
        let what = format!("'{text}' is no address and port; write them as in {EXAMPLE}");
        text.parse().map_err(|_| what)
    };
    Ok(Probe::Flow(FlowProbe {
        protocol: protocol.parse()?,
        source: endpoint(source)?,
        destination: endpoint(destination)?,
        flags: args.flags.clone(),
    }))
}

/// The story of a packet of a 5-tuple, without a running load balancer.
fn offline(file: &Path, probe: &Probe) -> Result<PacketStory, CommandError> {
    let config = Config::load(file)?;
    let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    let mut simulation = Simulation::new(&config, &Options::default())?;
    let (port, frame) = ::explain::arrival(probe, simulation.shared(), &names)?;
    let captured = Captured { number: 1, time: Duration::ZERO, interface: 0, frame };
    Ok(replay::story(&mut simulation, (port, &captured), &names, Duration::ZERO))
}

fn of_capture(args: &ExplainArgs, file: &Path) -> Result<(), CommandError> {
    if args.flags.is_some() {
        return Err("--flags is for a 5-tuple; the packets of a capture have theirs".into());
    }
    match &args.config {
        Some(config) => replayed(args, file, config),
        None => asked(args, file),
    }
}

/// Explains a capture without a running load balancer.
fn replayed(args: &ExplainArgs, file: &Path, config: &Path) -> Result<(), CommandError> {
    let config = Config::load(config)?;
    let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    let mut arrivals = arrivals(args, file, &names)?;
    let macs = arrivals.destinations(names.len());
    let mut simulation = Simulation::new(&config, &Options { macs, ..Options::default() })?;
    let (mut told, mut result) = (0, Ok(()));
    let error = replay::explain(&mut simulation, arrivals, &names, &mut |story| {
        told += 1;
        if result.is_ok() {
            result = tell(args, &story);
        }
        result.is_ok() && told < args.count
    });
    result?;
    error.map_or(Ok(()), |error| Err(error.into()))
}

/// Asks the running load balancer about a capture.
fn asked(args: &ExplainArgs, file: &Path) -> Result<(), CommandError> {
    let status: Status = Client::new(&args.socket).get(&["v1", "status"])?;
    let names: Vec<&str> = status.ports.iter().map(|port| port.name.as_str()).collect();
    let mut arrivals = arrivals(args, file, &names)?;
    let mut left = args.count as usize;
    let mut number = 0;
    while left > 0 {
        let (mut packets, mut bytes) = (Vec::new(), 0);
        while packets.len() < left.min(Question::MOST) && bytes < BYTES {
            let Some(Arrival { port, captured }) = arrivals.next() else { break };
            bytes += captured.frame.len();
            let port = names.get(usize::from(port.0)).map(|name| (*name).to_owned());
            packets.push(Probe::Frame(FrameProbe { port, frame: hex::encode(captured.frame) }));
        }
        if packets.is_empty() {
            break;
        }
        left -= packets.len();
        for mut story in ask(args, packets)? {
            number += 1;
            story.number = number;
            tell(args, &story)?;
        }
    }
    arrivals.error().map_or(Ok(()), |error| Err(error.into()))
}

fn arrivals(args: &ExplainArgs, file: &Path, names: &[&str]) -> Result<Arrivals, CommandError> {
    let ports = match &args.port {
        None => Ports::Named(names.iter().map(ToString::to_string).collect()),
        Some(name) => {
            let at = names.iter().position(|own| own == name).ok_or_else(|| {
                format!("--port {name}: the configuration has the ports {}", names.join(", "))
            })?;
            Ports::One(flow::PortId(u16::try_from(at)?))
        }
    };
    Ok(Arrivals::new(vec![(CaptureReader::open(file)?, ports)]))
}

fn ask(args: &ExplainArgs, packets: Vec<Probe>) -> Result<Vec<PacketStory>, CommandError> {
    let question = Question { packets };
    let stories: PacketStories = Client::new(&args.socket).post(&["v1", "explain"], &question)?;
    Ok(stories.packets)
}

fn tell(args: &ExplainArgs, story: &PacketStory) -> Result<(), CommandError> {
    let text = if args.json { serde_json::to_string(story)? + "\n" } else { page(story) };
    Ok(output::print(&text)?)
}

/// A packet's story for people.
fn page(story: &PacketStory) -> String {
    let ends = [&story.protocol, &story.source, &story.destination];
    let what = match ends {
        [Some(protocol), Some(source), Some(destination)] => {
            format!("{protocol} {source} -> {destination}")
        }
        _ => "neither TCP nor UDP".to_owned(),
    };
    let mut page = format!("packet {}: {what}, into {}\n", story.number, story.port);
    let mut line = |name: &str, text: &str| {
        // Writing to a string can't fail.
        let _ = writeln!(page, "  {name:<9} {text}");
    };
    line("verdict", &story.verdict);
    line("why", &story.why);
    if let Some(service) = &story.service {
        line("service", service);
    }
    if let Some(backend) = &story.backend {
        line("backend", backend);
    }
    match &story.entry {
        None => line("table", "no entry"),
        Some(own) => {
            let age = match own.new {
                true => "new entry".to_owned(),
                false => format!("entry, idle {:.1} s", own.idle_ms as f64 / 1000.0),
            };
            let ends = format!("{} {} | {} {}", own.client, own.vip, own.local, own.server);
            line("table", &format!("{age}, {}: {ends}", own.state));
        }
    }
    match &story.rules {
        Some(rules) => {
            line("NIC", &format!("client's packets: {}", rules.forward));
            line("NIC", &format!("backend's packets: {}", rules.reply));
            line("NIC", &rules.why);
        }
        None => line("NIC", "no rule of a connection"),
    }
    let counters: Vec<&str> = story.counters.iter().map(|own| own.name.as_str()).collect();
    line("counters", &counters.join(" "));
    line("before", &story.frame);
    for sent in &story.sent {
        line("out of", &sent.port);
        for change in &sent.changes {
            line("", &format!("{}: {} -> {}", change.field, change.from, change.to));
        }
        line("after", &sent.frame);
    }
    page
}

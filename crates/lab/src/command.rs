//! `hnlb lab …`: the lab from the command line.

use std::path::Path;

use clap::Subcommand;
use flow::{CardProfile, EncodingChoice, Mode};

use crate::column::Column;
use crate::config::{Device, LabRun};
use crate::flood::{self, Attack, Attacker, Dawdler, Holder, Visitor};
use crate::{
    Balancer, Lab, LabError, LabOptions, Stop, answers, crash, demo, dns, health, http, https,
    idle, kernel, latency, nf, pair, reload, topology, vm_check, xdp,
};

/// The commands of `hnlb lab`.
#[derive(Debug, Clone, Subcommand)]
pub enum LabCommand {
    /// Set up clients, backends and HNLB in network namespaces and leave them running
    Up {
        /// Name of the lab
        #[arg(long, default_value = "lab")]
        name: String,
        /// How the emulated NIC tells the worker what it matched
        #[arg(long, value_enum, default_value = "mark")]
        encoding: EncodingChoice,
        /// How packets get to the backends
        #[arg(long, value_enum, default_value = "nat")]
        mode: Mode,
        /// The card whose limits and quirks the emulated NIC has
        #[arg(long, value_enum, default_value = "x550")]
        profile: CardProfile,
        /// The number of worker cores
        #[arg(long, default_value_t = 1)]
        workers: u16,
        /// Have the kernel forward connections, by XDP, in the place of the emulated NIC
        #[arg(long, conflicts_with_all = ["encoding", "profile", "workers"])]
        xdp: bool,
        /// Set up the network and the servers without starting HNLB
        #[arg(long)]
        without_hnlb: bool,
    },
    /// Show which processes of a lab run
    Status {
        /// Name of the lab
        #[arg(long, default_value = "lab")]
        name: String,
    },
    /// End a lab: stop its processes, delete its namespaces and files
    Down {
        /// Name of the lab
        #[arg(long, default_value = "lab")]
        name: String,
    },
    /// Run a program on a host of a lab (c1, c2, x1, b1 to b4, lb, sw)
    Exec {
        /// Name of the lab
        #[arg(long, default_value = "lab")]
        name: String,
        /// The host
        host: String,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Send load through HNLB with each encoding and print the results side by side
    Demo {
        /// How packets get to the backends
        #[arg(long, value_enum, default_value = "nat")]
        mode: Mode,
        /// Use only these encodings; may be given several times
        #[arg(long, value_enum, default_values = ["rewrite", "mark", "queue", "off", "xdp"])]
        encoding: Vec<Column>,
    },
    /// Change the configuration at random under load, in each mode with each encoding; no request may fail
    Reload {
        /// Reloads of each run
        #[arg(long, default_value_t = 200)]
        reloads: u32,
        /// Seed of the changes; by default another one each time
        #[arg(long)]
        seed: Option<u64>,
        /// Run only these modes; may be given several times
        #[arg(long, value_enum, default_values = ["nat", "fullnat", "dsr", "ipip"])]
        mode: Vec<Mode>,
        /// Run only these encodings; may be given several times
        #[arg(long, value_enum, default_values = ["rewrite", "mark", "queue", "off", "xdp"])]
        encoding: Vec<Column>,
    },
    /// Attack HNLB beside real clients: each flood alone, and all at once; no established connection may be lost
    Flood {
        /// Seconds of each flood
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Frames a second of each attack
        #[arg(long, default_value_t = 10_000)]
        rate: u32,
        /// Run only these attacks; may be given several times
        #[arg(long, value_enum, default_values = ["syn", "udp", "rst", "fragments", "arp", "neighbours"])]
        attack: Vec<Attack>,
        /// Run the attacks only all at once, none of them alone
        #[arg(long)]
        together: bool,
        /// Leave `[neighbours] pin` at false, so that `arp` may divert connections
        #[arg(long)]
        no_pin: bool,
        /// How packets get to the backends
        #[arg(long, value_enum, default_value = "nat")]
        mode: Mode,
        /// How the NIC tells the worker what it matched
        #[arg(long, value_enum, default_value = "mark")]
        encoding: EncodingChoice,
        /// Print a JSON object a run instead of the table
        #[arg(long)]
        json: bool,
    },
    /// Check what HNLB answers at closed ports, to traceroutes, long pings and forged claims, and what it refuses to start with
    Answers,
    /// Put a middlebox server with two network functions between clients and servers; kill and stop functions under load
    Nf {
        /// Seconds of each phase
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// The program of the network functions, started as `PROGRAM --attach ATTACHMENT`; by default a plain forwarder
        #[arg(long)]
        function: Option<std::path::PathBuf>,
        /// How the network functions are attached
        #[arg(long, value_enum, default_value = "vhost")]
        attach: nf::Attach,
        /// Print a JSON object a phase instead of the table
        #[arg(long)]
        json: bool,
    },
    /// Measure what HNLB costs while nothing happens, by thread, and how late the first packet after a pause is
    Idle {
        /// Seconds for which nothing happens
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// Round trips, each after 20 ms in which nothing happens
        #[arg(long, default_value_t = 200)]
        count: u32,
        /// Print a JSON object a row instead of the table
        #[arg(long)]
        json: bool,
    },
    /// Kill, stop, slow and cut off backends, with health checks: no request may fail once HNLB knows; then let the control API hang under load
    Health {
        /// How packets get to the backends
        #[arg(long, value_enum, default_value = "nat")]
        mode: Mode,
        /// Run only these encodings; may be given several times
        #[arg(long, value_enum, default_values = ["rewrite", "mark", "queue", "off"])]
        encoding: Vec<EncodingChoice>,
        /// For how many seconds the process of the control API hangs under load
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        hung: u64,
    },
    /// Kill HNLB while connections are forwarded in the kernel by XDP: they go on, and a new HNLB takes them over
    Crash {
        /// How packets get to the backends
        #[arg(long, value_enum, default_value = "nat")]
        mode: Mode,
        /// Connections of each of two clients
        #[arg(long, default_value_t = 500)]
        connections: usize,
    },
    /// Check the kernel as the card: several queues, next hops that move, other programs at the interface, an interface that goes
    Xdp,
    /// Route HTTP requests with real clients and servers: bodies both ways byte for byte, over a good and a bad link, routes, and what HNLB answers itself
    Http {
        /// Also move 1 GiB each way, and ten times the requests
        #[arg(long)]
        long: bool,
        /// Move bodies only, 100 MB at most, over links of client and backends that lose, repeat, delay and reorder
        #[arg(long)]
        faulty: bool,
        /// What happens on the bad links
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Send the same requests through HAProxy and through HNLB, and compare statuses, headers and bodies; nothing else
        #[arg(long, conflicts_with_all = ["long", "faulty"])]
        compare: bool,
        /// So many clients that send a byte a second, beside real ones; nothing else
        #[arg(long, value_name = "CLIENTS", conflicts_with_all = ["long", "faulty", "compare"])]
        slow: Option<usize>,
        /// SYNs a second from sources that do not answer, beside the slow clients
        #[arg(long, value_name = "RATE", default_value_t = 0, requires = "slow")]
        flood: u32,
        /// How long real clients go on beside the slow ones
        #[arg(long, default_value_t = 30, requires = "slow")]
        seconds: u64,
        /// Long downloads with this encoding, and which share of their bytes the NIC sends on; nothing else
        #[arg(long, value_enum, conflicts_with_all = ["long", "faulty", "compare", "slow"])]
        encoding: Option<EncodingChoice>,
        /// Bytes of a long download
        #[arg(long, default_value_t = 100_000_000, requires = "encoding")]
        bytes: usize,
    },
    /// Terminate TLS: curl, wrk and openssl through HNLB, certificates exchanged under load, bodies over good and bad links
    Https {
        /// Also move 1 GiB each way, and load for longer
        #[arg(long)]
        long: bool,
        /// Also move 100 MB over links of client and backends that lose, repeat, delay and reorder
        #[arg(long)]
        faulty: bool,
        /// What happens on the bad links
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How often certificates are exchanged under load
        #[arg(long, default_value_t = 10)]
        swaps: u32,
        /// Run this shell command at a client instead of the checks; it gets LAB_ADDRESS, LAB_NAME and LAB_CA of the service at port 443
        #[arg(long, value_name = "COMMAND", conflicts_with_all = ["long", "faulty"])]
        with: Option<String>,
    },
    /// Let HNLB's kernel serve, check backends and route over the port that HNLB drives, and flood it
    Kernel {
        /// Run only these encodings; may be given several times
        #[arg(long, value_enum, default_values = ["rewrite", "mark", "queue", "off"])]
        encoding: Vec<EncodingChoice>,
    },
    /// Put two HNLB behind a router; drain, kill, start and end one of them under load: connections of maglev services go on through the other
    Pair {
        /// Run only these ways of announcing; may be given several times
        #[arg(long, value_enum, default_values = ["bgp", "vrrp"])]
        by: Vec<pair::AnnouncedBy>,
    },
    /// Balance DNS entirely in an emulated BlueField-3, and drain a backend meanwhile (the case of the XenoFlow paper)
    Dns {
        /// Have the kernel balance, by XDP, in the place of the BlueField-3
        #[arg(long)]
        xdp: bool,
    },
    /// Echo UDP packets: the other end of `ping`
    #[command(hide = true)]
    Echo {
        /// Address and port to listen at
        at: std::net::SocketAddr,
    },
    /// Measure round trips of UDP packets
    #[command(hide = true)]
    Ping {
        /// The address and port of the echo server
        to: std::net::SocketAddr,
        /// How often
        count: u32,
        /// Microseconds between two of them
        #[arg(long, default_value_t = 200)]
        pause_us: u32,
    },
    /// Answer HTTP requests as their paths say: the server behind `http --compare`
    #[command(hide = true)]
    Origin {
        /// Address and port to listen at
        at: std::net::SocketAddr,
    },
    /// Send the requests in a file: the client of `http --compare`
    #[command(hide = true)]
    Ask {
        /// Address and port to send to
        to: std::net::SocketAddr,
        /// The cases, as JSON
        cases: std::path::PathBuf,
    },
    /// Send datagrams that nobody wants
    #[command(hide = true)]
    Blast {
        /// Address and port to send to
        to: std::net::SocketAddr,
        /// How many
        count: u32,
    },
    /// Send frames with forged sources: the other side of `flood`
    #[command(hide = true)]
    Attack(Attacker),
    /// Hold idle connections, and use them at the end
    #[command(hide = true)]
    Hold(Holder),
    /// Open new connections at a steady pace
    #[command(hide = true)]
    Visit(Visitor),
    /// Send requests byte by byte: the slow clients of `http --slow`
    #[command(hide = true)]
    Dawdle(Dawdler),
    /// Check the queue encoding on net_tap's own rte_flow (needs tc flower; see make test-vm)
    VmCheck,
}

impl LabCommand {
    /// Runs the command with the `hnlb` program at `binary`; prints to stdout and
    /// stderr. Returns whether every check of the command passed.
    ///
    /// # Errors
    /// A step of the command failed.
    pub fn run(self, binary: &Path) -> Result<bool, LabError> {
        let stop = Stop::on_signals()?;
        match self {
            Self::Up { name, encoding, mode, profile, workers, xdp, without_hnlb } => {
                let emulated = LabRun::emulated(encoding);
                let run = match xdp {
                    true => Column::Xdp.run(mode, 1),
                    false => LabRun { mode, profile: Some(profile), workers, ..emulated },
                };
                up(name, (!without_hnlb).then_some(&run), binary, stop)
            }
            Self::Status { name } => {
                let lab = Lab::attach(&name, stop)?;
                print!("{}", overview(&lab));
                Ok(lab.status().processes.iter().all(|(_, pid)| pid.is_some()))
            }
            Self::Down { name } => {
                Lab::attach(&name, stop)?.down()?;
                println!("the lab `{name}` is down");
                Ok(true)
            }
            Self::Exec { name, host, argv } => {
                let lab = Lab::attach(&name, stop)?;
                let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
                let limit = std::time::Duration::from_secs(24 * 3600);
                let output = lab.exec_for(&host, &argv, limit)?;
                print!("{}", output.stdout);
                eprint!("{}", output.stderr);
                Ok(output.status.success())
            }
            Self::Crash { mode, connections } => crash::run(binary, &stop, mode, connections),
            Self::Xdp => xdp::run(binary, &stop),
            Self::Http { long, faulty, seed, compare, slow, flood, seconds, encoding, bytes } => {
                let slow = slow.map(|clients| http::Slow { clients, flood, seconds });
                let downloads = encoding.map(|encoding| http::Downloads { encoding, bytes, seed });
                let wanted = http::Wanted { long, faulty, seed, compare, slow, downloads };
                http::run(binary, &stop, &wanted)
            }
            Self::Https { long, faulty, seed, swaps, with } => {
                https::run(binary, &stop, &https::Wanted { long, faulty, seed, swaps, with })
            }
            Self::Origin { at } => http::parity::origin::serve(at, &stop),
            Self::Ask { to, cases } => http::parity::ask::ask(to, &cases, &stop),
            Self::Dns { xdp } => dns::run(binary, &stop, xdp),
            Self::Health { mode, encoding, hung } => {
                let hung = std::time::Duration::from_secs(hung);
                health::run(binary, &stop, (mode, hung), &encoding)
            }
            Self::Pair { by } => pair::run(binary, &stop, &by),
            Self::Kernel { encoding } => kernel::run(binary, &stop, &encoding),
            Self::Blast { to, count } => kernel::blast(to, count, &stop),
            Self::Echo { at } => latency::echo(at, &stop),
            Self::Ping { to, count, pause_us } => {
                let pause = std::time::Duration::from_micros(pause_us.into());
                latency::ping(to, count, pause, &stop)
            }
            Self::Idle { seconds, count, json } => {
                idle::run(binary, &stop, &idle::Options { seconds, count, json })
            }
            Self::Demo { mode, encoding } => demo::run(binary, &stop, mode, &encoding),
            Self::Reload { reloads, seed, mode: modes, encoding: encodings } => {
                let seed = seed.unwrap_or_else(|| rand::random::<u32>().into());
                reload::run(binary, &stop, &reload::Options { reloads, seed, modes, encodings })
            }
            Self::Flood { seconds, rate, attack, together, no_pin, mode, encoding, json } => {
                let (attacks, pin) = (attack, !no_pin);
                let options =
                    flood::Options { seconds, rate, attacks, together, pin, mode, encoding, json };
                flood::run(binary, &stop, &options)
            }
            Self::Answers => answers::run(binary, &stop),
            Self::Nf { seconds, function, attach, json } => {
                nf::run(binary, &stop, &nf::Options { seconds, function, attach, json })
            }
            Self::Attack(attacker) => attacker.run(&stop),
            Self::Hold(holder) => holder.run(&stop),
            Self::Visit(visitor) => visitor.run(&stop),
            Self::Dawdle(dawdler) => dawdler.run(&stop),
            Self::VmCheck => vm_check::run(binary, &stop),
        }
    }
}

fn up(name: String, run: Option<&LabRun>, binary: &Path, stop: Stop) -> Result<bool, LabError> {
    let veth = run.is_none_or(|run| run.device != Device::Tap);
    // Kept only when HNLB runs too: a failure before that takes it down.
    let mut lab = Lab::up(LabOptions { name: Some(name), veth, stop, ..LabOptions::default() })?;
    if let Some(run) = run {
        Balancer::start(&mut lab, binary, run)?;
    }
    lab.keep()?;
    print!("{}", overview(&lab));
    let name = lab.name();
    println!(
        "try:\n  hnlb lab exec --name {name} c1 curl http://{}/\n  \
         hnlb lab exec --name {name} c2 dig @{} who.lab TXT\n  \
         hnlb status --socket {}\n  hnlb lab down --name {name}",
        topology::VIP4,
        topology::VIP6,
        lab.dir().join("hnlb.sock").display()
    );
    Ok(true)
}

fn overview(lab: &Lab) -> String {
    let status = lab.status();
    let mut text = format!("lab `{}` in {}\n", status.name, status.dir.display());
    text += &format!("  namespaces: {}\n", status.namespaces.join(" "));
    for (name, pid) in &status.processes {
        match pid {
            Some(pid) => text += &format!("  {name}: pid {pid}\n"),
            None => text += &format!("  {name}: gone, see {}\n", lab.log(name).display()),
        }
    }
    text
}

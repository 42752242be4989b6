//! Instructions per packet, counted by Valgrind's callgrind: unlike time they
//! don't depend on the machine's load, so a change of the packet path that costs
//! something is seen wherever this runs. `make test-instructions` compares them
//! with `instructions.toml` beside this file and fails where one is more than
//! [`TOLERANCE`] above its bound; with `UPDATE=1` it writes the bounds anew.
//!
//! Only [`measured`] is counted, in two runs that differ in their number of
//! bursts, so that nothing of the start is in the difference. Packets are in
//! ordinary memory; what a driver does is no part of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "no part of the program")]

#[allow(dead_code, unreachable_pub, reason = "only a part is used")]
#[path = "../tests/pipeline/world.rs"]
mod world;

#[allow(dead_code, unreachable_pub, reason = "only a part is used")]
#[path = "../tests/pipeline/segments.rs"]
mod segments;

#[path = "support/talks.rs"]
mod talks;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use conntrack::{ConnId, Hit};
use flow::{AdmissionPolicy, Direction, HopId, InterfaceId, PortId};
use packet::{HeapPacket, PacketBuf as _};
use pipeline::{BURST, Outbox, Pipeline};
use segments::{Segment, segment};
use state::{Counter, Marked, Offload, QueueAction, Source};
use talks::{Side, Step, Talks};
use wire::Mac;
use world::{GATEWAY, INSIDE, LB_IN, LB_OUT, Link, OUTSIDE, Plan, World, tcp};

/// By how much of its bound a count may be above it.
const TOLERANCE: f64 = 0.02;
/// Packets of a burst.
const PACKETS: usize = 32;
/// Connections in the table, of each kind but that of new ones.
const CONNECTIONS: usize = 64;
/// Bursts of the two runs.
const BURSTS: [usize; 2] = [100, 300];
/// The queue that means a backend.
const QUEUE: u16 = 3;

/// How workers know the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The NIC's mark names the connection.
    Marked,
    /// The connection table finds it.
    LookedUp,
    /// Every other packet has a mark.
    Mixed,
    /// The receive queue means the backend.
    Queued,
    /// Each packet is the SYN of a connection.
    First,
    /// The L7 agent has joined the connection with a backend's, whose packets these are.
    Spliced,
    /// Not a packet, but all packets of a request on an open connection through the L7 agent:
    /// the request, its response, and the acknowledgement of that.
    Request,
    /// All packets of a connection with one request, from the first SYN to the last ACK.
    Whole,
}

/// A kind of packet.
struct Kind {
    name: &'static str,
    known: Known,
    vip: &'static str,
    vlan: Option<u16>,
    /// Whether backends' answers come through the load balancer.
    has_answers: bool,
}

const fn kind(name: &'static str, known: Known, vip: &'static str) -> Kind {
    Kind { name, known, vip, vlan: None, has_answers: true }
}

const fn one_way(name: &'static str, known: Known, vip: &'static str) -> Kind {
    Kind { has_answers: false, ..kind(name, known, vip) }
}

const V4: &str = "10.9.0.1:80";
const V6: &str = "[fd09::1]:80";

const KINDS: [Kind; 26] = [
    kind("marked-v4", Known::Marked, V4),
    kind("marked-v6", Known::Marked, V6),
    kind("looked-up-v4", Known::LookedUp, V4),
    kind("looked-up-v6", Known::LookedUp, V6),
    kind("queued-v4", Known::Queued, V4),
    kind("queued-v6", Known::Queued, V6),
    kind("first-v4", Known::First, V4),
    kind("first-v6", Known::First, V6),
    kind("mixed-v4", Known::Mixed, V4),
    Kind { vlan: Some(20), ..kind("marked-vlan-v4", Known::Marked, V4) },
    Kind { vlan: Some(20), ..kind("looked-up-vlan-v4", Known::LookedUp, V4) },
    Kind { vlan: Some(20), ..kind("looked-up-vlan-v6", Known::LookedUp, V6) },
    kind("fullnat-v4", Known::LookedUp, "10.9.0.3:80"),
    one_way("dsr-v4", Known::LookedUp, "10.9.0.6:80"),
    one_way("dsr-v6", Known::LookedUp, "[fd09::6]:80"),
    one_way("ipip-v4", Known::LookedUp, "10.9.0.7:80"),
    one_way("ipip-v6", Known::LookedUp, "[fd09::7]:80"),
    one_way("queued-ipip-v4", Known::Queued, "10.9.0.7:80"),
    one_way("first-dsr-v4", Known::First, "10.9.0.6:80"),
    one_way("first-ipip-v4", Known::First, "10.9.0.7:80"),
    kind("spliced-v4", Known::Spliced, "10.9.0.10:80"),
    kind("spliced-v6", Known::Spliced, "[fd09::10]:80"),
    kind("request-v4", Known::Request, "10.9.0.10:80"),
    kind("request-v6", Known::Request, "[fd09::10]:80"),
    kind("whole-connection-v4", Known::Whole, "10.9.0.10:80"),
    kind("whole-connection-v6", Known::Whole, "[fd09::10]:80"),
];

/// Takes what is sent; emptied and filled outside of what is counted.
#[derive(Default)]
struct Sink {
    sent: ArrayVec<HeapPacket, BURST>,
    /// What a worker makes its own packets of.
    spare: Vec<HeapPacket>,
}

impl Outbox<HeapPacket> for Sink {
    fn send(&mut self, _: PortId, packet: HeapPacket) {
        self.sent.push(packet);
    }

    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        let mut packet = self.spare.pop()?;
        packet.resize(len).then_some(packet)
    }

    fn offload(&mut self, _: ConnId, _: Offload) -> bool {
        true
    }

    fn resolve(&mut self, _: HopId) {}

    fn hand_over(&mut self, _: usize, _: Source, _: HeapPacket) -> bool {
        false
    }

    fn to_kernel(&mut self, _: InterfaceId, _: HeapPacket) -> bool {
        false
    }
}

/// What is counted: the worker takes one burst to where it goes.
#[inline(never)]
fn measured(
    pipeline: &mut Pipeline<HeapPacket>,
    source: Source,
    burst: &mut ArrayVec<HeapPacket, BURST>,
    now_ms: u64,
    out: &mut Sink,
) {
    pipeline.begin();
    pipeline.process(source, burst, now_ms, out);
}

/// Talks of many clients, and the network that they go through.
struct Talking {
    world: World,
    talks: Talks,
    out: Sink,
}

impl Talking {
    fn new(kind: &Kind) -> Self {
        let plan = Plan { connections: 1024, http: true, ..Plan::default() };
        Self { world: World::new(&plan), talks: Talks::new(kind.vip), out: Sink::default() }
    }

    /// The clients with `numbers` and their backends go through `steps`.
    fn go(&mut self, numbers: &[usize], steps: &[Step]) {
        let Self { world, talks, out } = self;
        for step in steps {
            let frames = numbers.iter().map(|number| talks.say(*number, step));
            let mut burst: ArrayVec<HeapPacket, BURST> = frames.collect();
            let short = BURST.saturating_sub(out.spare.len());
            out.spare.extend((0..short).map(|_| HeapPacket::new(&[0; 2048])));
            world.now_ms += 1;
            let port = if step.side == Side::Client { OUTSIDE } else { INSIDE };
            let source = Source { port, queue: 0 };
            measured(&mut world.workers[0], source, &mut burst, world.now_ms, out);
            out.sent.drain(..).for_each(|packet| talks.hear(&packet));
        }
    }

    /// `bursts` times as many requests or connections as a burst has packets.
    fn run(mut self, kind: &Kind, bursts: usize) {
        let clients = |count: usize, talks: &mut Talks| {
            (0..count).map(|n| talks.add(client(kind, n))).collect::<Vec<usize>>()
        };
        match kind.known {
            Known::Request => {
                let all = clients(CONNECTIONS, &mut self.talks);
                all.chunks(PACKETS).for_each(|some| self.go(some, &talks::FIRST));
                let some = all.chunks(PACKETS).cycle();
                some.take(bursts).for_each(|some| self.go(some, &talks::NEXT));
                assert_eq!(self.requests(), bursts * PACKETS + CONNECTIONS);
            }
            _ => {
                let all = clients(bursts * PACKETS, &mut self.talks);
                for some in all.chunks(PACKETS) {
                    self.go(some, &talks::FIRST);
                    self.go(some, &talks::LAST);
                }
                assert_eq!(self.requests(), bursts * PACKETS);
            }
        }
    }

    /// Requests that have got to a backend.
    fn requests(&self) -> usize {
        self.world.count(Counter::HttpRequests) as usize
    }
}

/// Packets of one kind, and the network that they go through.
struct Load {
    world: World,
    source: Source,
    packets: Vec<HeapPacket>,
    /// Where packets of the kind are counted.
    counters: &'static [Counter],
}

impl Load {
    fn new(kind: &Kind, bursts: usize) -> Self {
        let plan = Plan {
            vlans: [kind.vlan, None],
            connections: 32 * 1024,
            admit: AdmissionPolicy::All,
            pool_ports: 10_000,
            http: kind.known == Known::Spliced,
            ..Plan::default()
        };
        let mut world = World::new(&plan);
        if kind.known == Known::First {
            let frames = (0..bursts * PACKETS).map(|n| HeapPacket::new(&frame(kind, n, "S")));
            let (packets, source) = (frames.collect(), Source { port: OUTSIDE, queue: 0 });
            return Self { world, source, packets, counters: &[Counter::Installed] };
        }
        if kind.known == Known::Spliced {
            let packets = (0..CONNECTIONS).map(|n| HeapPacket::new(&spliced(&mut world, kind, n)));
            let (packets, source) = (packets.collect(), Source { port: INSIDE, queue: 0 });
            return Self { world, source, packets, counters: &[Counter::HttpSteady] };
        }
        let known = (0..CONNECTIONS).map(|n| {
            let (_, syn) = world.one(OUTSIDE, &frame(kind, n, "S")).unwrap();
            answer(&mut world, kind, &syn);
            world.one(OUTSIDE, &frame(kind, n, "A")).unwrap();
            let packet = frame(kind, n, "PA");
            let key = wire::Headers::parse(&packet).unwrap().flow(&packet).unwrap();
            (packet, world.shared.table().lookup(&key).unwrap())
        });
        let known: Vec<(Vec<u8>, Hit)> = known.collect();
        let (queue, counters): (_, &[Counter]) = match kind.known {
            Known::Marked => (0, &[Counter::MatchedByMark]),
            Known::Queued => (QUEUE, &[Counter::MatchedByQueue]),
            Known::Mixed => (0, &[Counter::MatchedByMark, Counter::LookedUp]),
            _ => (0, &[Counter::LookedUp]),
        };
        let packets = match kind.known {
            Known::Queued => of_one_backend(&world, known),
            how => marked(&world, how, known),
        };
        Self { world, source: Source { port: OUTSIDE, queue }, packets, counters }
    }

    fn count(&self) -> u64 {
        self.counters.iter().map(|counter| self.world.count(*counter)).sum()
    }

    /// Sends `bursts` bursts; all of their packets must be of the kind.
    fn run(mut self, bursts: usize) {
        let mut out = Sink::default();
        let before = self.count();
        let mut next = self.packets.iter().cycle();
        for _ in 0..bursts {
            let mut burst: ArrayVec<HeapPacket, BURST> =
                next.by_ref().take(PACKETS).cloned().collect();
            self.world.now_ms += 1;
            let (worker, now_ms) = (&mut self.world.workers[0], self.world.now_ms);
            measured(worker, self.source, &mut burst, now_ms, &mut out);
            assert_eq!(out.sent.len(), PACKETS);
            out.sent.clear();
        }
        assert_eq!(self.count() - before, (bursts * PACKETS) as u64, "packets of another kind");
    }
}

fn client(kind: &Kind, n: usize) -> String {
    let (host, port) = (n / 4096 + 1, 1024 + n % 4096);
    match kind.vip.starts_with('[') {
        true => format!("[2001:db8::{host}]:{port}"),
        false => format!("192.0.2.{host}:{port}"),
    }
}

/// A frame of connection `n`.
fn frame(kind: &Kind, n: usize, flags: &str) -> Vec<u8> {
    let client = client(kind, n);
    let link = Link { vlan: kind.vlan, ..Link::new(GATEWAY, LB_OUT, 60) };
    tcp(link, &client, kind.vip, flags, &[7; 10])
}

/// Connection `n` through the L7 agent, up to the middle of a response: the backend's next
/// segment, with timestamps as most hosts have them.
fn spliced(world: &mut World, kind: &Kind, n: usize) -> Vec<u8> {
    let (client, offer) = (client(kind, n), segments::offer(1400, true, true, Some(7)));
    let up = Link::new(GATEWAY, LB_OUT, 60);
    let syn = Segment { flags: 0x02, window: 60_000, options: offer.clone(), ..Segment::default() };
    let (_, syn_ack) = world.one(OUTSIDE, &syn.frame(up, &client, kind.vip)).unwrap();
    let ack = segment(&syn_ack).seq.wrapping_add(1);
    let data = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    let stamps = vec![1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0];
    let usual = Segment { seq: 1, ack, flags: 0x18, window: 900, options: stamps, data };
    let (_, syn) = world.one(OUTSIDE, &usual.frame(up, &client, kind.vip)).unwrap();
    let (down, backend) =
        (Link::new(Mac(syn[..6].try_into().unwrap()), LB_IN, 64), world::destination(&syn));
    let backend = backend.to_string();
    let answer =
        Segment { seq: 0, ack: 1, flags: 0x12, window: 900, options: offer, data: Vec::new() };
    let (_, request) = world.one(INSIDE, &answer.frame(down, &backend, &client)).unwrap();
    let ack = 1 + segment(&request).data.len() as u32;
    let header = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    let body = 1 + header.len() as u32;
    let next = |seq, data| Segment { seq, ack, data, ..usual.clone() };
    world.one(INSIDE, &next(1, header).frame(down, &backend, &client)).unwrap();
    world.one(INSIDE, &next(body, vec![7; 10]).frame(down, &backend, &client)).unwrap();
    next(body + 10, vec![7; 10]).frame(down, &backend, &client)
}

/// The backend's SYN-ACK to what it got, if it comes this way.
fn answer(world: &mut World, kind: &Kind, syn: &[u8]) {
    if !kind.has_answers {
        return;
    }
    let (from, to) = (world::destination(syn), world::source(syn));
    let link = Link::new(Mac(syn[..6].try_into().unwrap()), LB_IN, 64);
    world.one(INSIDE, &tcp(link, &from.to_string(), &to.to_string(), "SA", b"")).unwrap();
}

/// The packets with the marks that they have by `how`.
fn marked(world: &World, how: Known, known: Vec<(Vec<u8>, Hit)>) -> Vec<HeapPacket> {
    let marks = &world.shared.port(OUTSIDE).unwrap().marks;
    let marked = known.into_iter().enumerate().map(|(n, (packet, hit))| {
        let has = how == Known::Marked || (how == Known::Mixed && n % 2 == 0);
        let mark = has.then_some(n as u32);
        if let Some(mark) = mark {
            marks.set(mark, Marked { conn: hit.conn, direction: hit.direction });
        }
        HeapPacket::new(&packet).with_mark(mark)
    });
    marked.collect()
}

/// The packets of one backend, which the queue now means.
fn of_one_backend(world: &World, known: Vec<(Vec<u8>, Hit)>) -> Vec<HeapPacket> {
    let table = world.shared.table();
    let binding = table.binding(known[0].1.conn).unwrap();
    let action = QueueAction {
        service: binding.service,
        backend: binding.backend,
        direction: Direction::Forward,
        proto: binding.proto,
        endpoint: binding.vip,
        delivery: binding.delivery(Direction::Forward).unwrap(),
        hop: table.action(known[0].1).unwrap().hop,
    };
    assert!(world.shared.port(OUTSIDE).unwrap().queues.set(QUEUE, Some(action)));
    let same = |hit: &Hit| table.binding(hit.conn).unwrap().backend == binding.backend;
    let of_queue = known.iter().filter(|(_, hit)| same(hit));
    of_queue.map(|(packet, _)| HeapPacket::new(packet)).collect()
}

/// Instructions of `bursts` bursts of `kind`, by a run of this program in callgrind.
fn instructions(kind: &Kind, bursts: usize) -> u64 {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let counts = scratch.join(format!("callgrind.{}.{bursts}", kind.name));
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--toggle-collect=instructions::measured*"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().unwrap())
        .args([kind.name, &bursts.to_string()])
        .status();
    assert!(run.unwrap().success(), "{} in callgrind failed", kind.name);
    let text = std::fs::read_to_string(&counts).unwrap();
    std::fs::remove_file(&counts).unwrap();
    let sum = text.lines().find_map(|line| line.strip_prefix("totals: "));
    sum.unwrap_or_else(|| panic!("{}: no totals", counts.display())).trim().parse().unwrap()
}

/// Of one packet of `kind`.
fn per_packet(kind: &Kind) -> f64 {
    let [few, many] = BURSTS.map(|bursts| instructions(kind, bursts));
    let packets = (BURSTS[1] - BURSTS[0]) * PACKETS;
    (many - few) as f64 / packets as f64
}

fn bounds_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.toml")
}

fn bounds() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(bounds_file()).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, bound)| (name.to_owned(), bound.parse().unwrap())).collect()
}

/// The instructions of a packet of each kind, by as many runs at a time as there are
/// cores.
fn counts() -> Vec<f64> {
    let next = AtomicUsize::new(0);
    let counts = KINDS.each_ref().map(|_| OnceLock::new());
    let runner = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(kind) = KINDS.get(n) else { break };
            counts[n].set(per_packet(kind)).unwrap();
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(runner);
        }
    });
    counts.into_iter().map(|count| count.into_inner().unwrap()).collect()
}

/// The version of the compiler: another one makes other code.
fn rustc() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Compares every kind with its bound, or writes the bounds.
fn compare(update: bool) -> ExitCode {
    let bounds = bounds();
    let mut written = format!(
        "# Instructions per packet, made by `make test-instructions UPDATE=1`\n# with {}.\n",
        rustc()
    );
    let mut failed = false;
    for (kind, count) in KINDS.iter().zip(counts()) {
        writeln!(written, "{} = {count:.1}", kind.name).unwrap();
        let Some(bound) = bounds.get(kind.name) else {
            println!("{:<20} {count:>8.1}  no bound", kind.name);
            failed = true;
            continue;
        };
        let verdict = match count / bound - 1.0 {
            over if over > TOLERANCE => {
                failed = true;
                "FAILED: too many"
            }
            over if over < -TOLERANCE => "fewer: lower the bound with UPDATE=1",
            _ => "",
        };
        let change = (count / bound - 1.0) * 100.0;
        println!("{:<20} {count:>8.1}  bound {bound:>8.1}  {change:>+6.1} %  {verdict}", kind.name);
    }
    if update {
        std::fs::write(bounds_file(), written).unwrap();
        println!("{} written", bounds_file().display());
    } else if failed {
        println!(
            "packets cost more instructions than {} allows; if that is meant and worth it: \
             make test-instructions UPDATE=1\n(this is {}; the bounds' first lines name theirs)",
            bounds_file().display(),
            rustc()
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [name, bursts] = &args[..] {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let bursts = bursts.parse().unwrap();
        match kind.known {
            Known::Request | Known::Whole => Talking::new(kind).run(kind, bursts),
            _ => Load::new(kind, bursts).run(bursts),
        }
        return ExitCode::SUCCESS;
    }
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !valgrind.is_ok_and(|status| status.success()) {
        println!("skipped: valgrind is not installed");
        return ExitCode::SUCCESS;
    }
    compare(std::env::var_os("UPDATE").is_some_and(|value| value == "1"))
}

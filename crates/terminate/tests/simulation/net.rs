//! The network between client, terminator and servers.
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use flow::{Account, BackendId, Direction, ServiceId};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use splice::{Inquiry, Peer as Backend, Record, Refusal, Rejection, Request, Response};
use terminate::{
    Carries, Endpoint, Event, Route, Segment, Settings, Terminator, Terms, Usage, Wish, World,
};
use tls::{
    BackendSettings, BackendTls, Certificate, Finished, Refused, ServerSettings, Started,
    TicketKey, Tls, Version,
};

use crate::client::{Client, Peer};
use crate::link::{Faults, Link};
use crate::server::Server;

/// What happens.
pub(crate) struct Plan {
    pub(crate) faults: Faults,
    pub(crate) v6: bool,
    pub(crate) tls12: bool,
    pub(crate) seed: u64,
    pub(crate) requests: Vec<(usize, usize)>,
    /// Whether backends speak TLS, and are believed.
    pub(crate) sealed: Option<bool>,
    /// So many backends refuse before one takes the request.
    pub(crate) dead: usize,
    /// Connections to backends begin with a header of the PROXY protocol.
    pub(crate) proxied: bool,
    /// What is in the records. Backends of bytes send them back.
    pub(crate) carries: Carries,
}

struct Surroundings {
    terms: Arc<Terms>,
    backends: Vec<SocketAddr>,
    sent: Vec<Vec<u8>>,
    finished: Vec<Finished>,
    claims: HashSet<[SocketAddr; 2]>,
    events: Vec<Event>,
    distrusted: Vec<SocketAddr>,
    proxied: bool,
    wishes: Vec<(Option<String>, Option<String>)>,
    told: Told,
}

/// What the terminator has told of requests.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) records: Vec<Record>,
    pub(crate) responses: Vec<Response>,
    /// Status codes of answers that are no backend's.
    pub(crate) alone: Vec<u16>,
    /// Connections to each backend that are open.
    pub(crate) open: HashMap<BackendId, u32>,
    /// Packets to backends, and from them.
    pub(crate) packets: [usize; 2],
}

impl World for Surroundings {
    fn send(&mut self, packet: Vec<u8>, to: IpAddr) {
        assert_eq!(segment(&packet).to.ip(), to);
        self.sent.push(packet);
    }
    fn terms(&mut self, _: ServiceId) -> Option<Arc<Terms>> {
        Some(Arc::clone(&self.terms))
    }
    fn route(&mut self, inquiry: &Inquiry<'_>, _: &Request<'_>) -> Result<Route, Refusal> {
        let mut all = self.backends.iter().filter(|own| !inquiry.tried.contains(own));
        let first = all.next().ok_or(Refusal::NoBackend)?;
        let place = self.backends.iter().position(|own| own == first).unwrap();
        let backend = splice::Peer { at: *first, id: BackendId(place as u16) };
        Ok(Route::Backend { backend, sticks: false })
    }
    fn direct(&mut self, inquiry: &Inquiry<'_>, wish: &Wish<'_>) -> Result<Backend, Rejection> {
        self.wishes.push((wish.name.map(str::to_owned), wish.protocol.map(str::to_owned)));
        let mut all = self.backends.iter().filter(|own| !inquiry.tried.contains(own));
        let first = all.next().ok_or(Rejection::NoBackend)?;
        let place = self.backends.iter().position(|own| own == first).unwrap();
        Ok(Backend { at: *first, id: BackendId(place as u16) })
    }
    fn claim(&mut self, backend: SocketAddr, local: SocketAddr) -> bool {
        self.claims.insert([backend, local])
    }
    fn release(&mut self, backend: SocketAddr, local: SocketAddr) {
        assert!(self.claims.remove(&[backend, local]));
    }
    fn start(&mut self, started: Started) -> Result<(), Refused> {
        let Started { connection, handshake, bytes, .. } = started;
        let mut out = Vec::new();
        let progress = handshake.feed(&bytes, &mut out);
        self.finished.push(Finished { connection, out, progress });
        Ok(())
    }
    fn finished(&mut self) -> Option<Finished> {
        self.finished.pop()
    }
    fn joined(&mut self, backend: BackendId) {
        *self.told.open.entry(backend).or_default() += 1;
    }
    fn left(&mut self, backend: BackendId) {
        *self.told.open.get_mut(&backend).unwrap() -= 1;
    }
    fn carried(&mut self, account: Account, _: usize) {
        let [to, from] = &mut self.told.packets;
        *(if account.direction == Direction::Forward { to } else { from }) += 1;
    }
    fn responded(&mut self, response: &Response) {
        assert!(self.told.open[&response.backend] > 0, "a response of a stranger");
        self.told.responses.push(*response);
    }
    fn answered(&mut self, _: ServiceId, status: u16) {
        self.told.alone.push(status);
    }
    fn logs(&mut self, _: ServiceId) -> bool {
        true
    }
    fn route_of(&self, _: ServiceId, _: &Request<'_>) -> Option<u16> {
        Some(5)
    }
    fn log(&mut self, record: &Record) {
        self.told.records.push(*record);
    }
    fn has_proxy_header(&self, _: ServiceId) -> bool {
        self.proxied
    }
    fn distrust(&mut self, backend: SocketAddr, why: &str) {
        assert!(why.contains("not valid for name"), "{why}");
        self.distrusted.push(backend);
    }
    fn count(&mut self, event: Event) {
        self.events.push(event);
    }
}

pub(crate) struct Net {
    rng: SmallRng,
    faults: Faults,
    now: u64,
    client: Box<dyn Peer>,
    terminator: Terminator,
    world: Surroundings,
    /// How backends speak TLS, if they do.
    sealed: Option<Arc<ServerConfig>>,
    /// Whether backends send back what they get.
    echoes: bool,
    servers: HashMap<[SocketAddr; 2], Server>,
    ends: [SocketAddr; 2],
    dead: Vec<SocketAddr>,
    /// To the terminator, to the client, to servers.
    links: [Link; 3],
}

/// Ends and flags of a packet of smoltcp's.
fn segment(ip: &[u8]) -> Segment {
    let (from, to, tcp): (IpAddr, IpAddr, usize) = if ip[0] >> 4 == 4 {
        let at = |n: usize| <[u8; 4]>::try_from(&ip[n..n + 4]).unwrap();
        (at(12).into(), at(16).into(), 20)
    } else {
        let at = |n: usize| <[u8; 16]>::try_from(&ip[n..n + 16]).unwrap();
        (at(8).into(), at(24).into(), 40)
    };
    let port = |n: usize| u16::from_be_bytes([ip[tcp + n], ip[tcp + n + 1]]);
    let flags = ip[tcp + 13];
    Segment {
        ip: ip.to_vec(),
        from: (from, port(0)).into(),
        to: (to, port(2)).into(),
        opens: flags & 0x12 == 2,
        resets: flags & 4 != 0,
    }
}

/// The service's terms, the client's configuration, and the backends' if they speak TLS.
fn terms(tls12: bool, sealed: Option<bool>) -> (Terms, ClientConfig, Option<Arc<ServerConfig>>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["www.example.org".to_owned()]).unwrap();
    let signed = params.signed_by(&key, &issuer).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let certificate = Certificate {
        names: Vec::new(),
        chain: put("chain", signed.pem()),
        key: put("key", key.serialize_pem()),
        ocsp: None,
    };
    let settings = ServerSettings {
        certificates: vec![certificate],
        alpn: vec!["h2".to_owned(), "http/1.1".to_owned()],
        oldest: Version::Tls12,
        tickets: TicketKey::new([7; 32]),
        client_ca: None,
        client_crl: None,
        client_required: false,
    };
    let own = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![signed.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let name = if sealed == Some(true) { "www.example.org" } else { "other.example.org" };
    let ca = put("ca", issuer.pem());
    let backends = BackendSettings { ca: Some(ca), pins: Vec::new(), name: Some(name.to_owned()) };
    let terms = Terms {
        tls: Tls::new(settings).unwrap(),
        hsts: Some("max-age=9".to_owned()),
        backends: sealed.map(|_| BackendTls::new(&backends).unwrap()),
        carries: Carries::Requests,
        whole_certificate: false,
    };
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let versions: &[_] =
        if tls12 { &[&rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (terms, config, sealed.map(|_| Arc::new(own)))
}

impl Net {
    /// A client of HTTP/1.1 with the plan's requests.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::with(plan, |ends, config| {
            Box::new(Client::new(ends, config, plan.requests.clone(), plan.seed))
        })
    }

    /// A client of the test's own.
    pub(crate) fn with(
        plan: &Plan,
        client: impl FnOnce([SocketAddr; 2], Arc<ClientConfig>) -> Box<dyn Peer>,
    ) -> Self {
        let (mut terms, config, sealed) = terms(plan.tls12, plan.sealed);
        terms.carries = plan.carries;
        let text = if plan.v6 {
            ["[fd01::2]:40000", "[fd09::10]:443"]
        } else {
            ["10.1.0.2:40000", "10.9.0.10:443"]
        };
        let ends = text.map(|own| own.parse::<SocketAddr>().unwrap());
        let backend = |n: usize| -> SocketAddr {
            let text = if plan.v6 { format!("[fd02::{n}]:80") } else { format!("10.2.0.{n}:80") };
            text.parse().unwrap()
        };
        let backends: Vec<_> = (1..=plan.dead + 1).map(backend).collect();
        let dead = backends[..plan.dead].to_vec();
        let world = Surroundings {
            terms: Arc::new(terms),
            backends,
            sent: Vec::new(),
            finished: Vec::new(),
            claims: HashSet::new(),
            events: Vec::new(),
            distrusted: Vec::new(),
            proxied: plan.proxied,
            wishes: Vec::new(),
            told: Told::default(),
        };
        let mut settings = Settings { mtu: 1_400, secret: [plan.seed, 2], ..Settings::default() };
        if plan.carries == Carries::Bytes {
            // Two lost SYNs are no silent backend here: there is no other to go to.
            (settings.connect_ms, settings.handshake_ms) = (60_000, 60_000);
        }
        if plan.faults.lost > 0 {
            // A sender doubles its timeout at each loss (RFC 6298): nobody is silent or slow.
            let patient = [
                &mut settings.connect_ms,
                &mut settings.handshake_ms,
                &mut settings.header_ms,
                &mut settings.linger_ms,
            ];
            patient.into_iter().for_each(|limit| *limit = 300_000);
        }
        Self {
            rng: SmallRng::seed_from_u64(plan.seed),
            faults: plan.faults,
            now: 1,
            client: client(ends, Arc::new(config)),
            terminator: Terminator::new(settings),
            world,
            sealed,
            echoes: plan.carries == Carries::Bytes,
            servers: HashMap::new(),
            ends,
            dead,
            links: Default::default(),
        }
    }

    /// Runs until the client has all it wants and nothing is left.
    pub(crate) fn run(mut self) -> Self {
        while !self.client.is_done() || self.terminator.usage() != Usage::default() {
            self.millisecond();
            let Self { now, world, client, .. } = &mut self;
            assert!(*now < 900_000, "{:?} {:?}", world.events, client.tcp());
        }
        self
    }

    pub(crate) fn count(&self, event: Event) -> usize {
        self.world.events.iter().filter(|own| **own == event).count()
    }

    /// How many requests backends have answered.
    pub(crate) fn served(&self) -> usize {
        self.servers.values().map(Server::answers).sum()
    }

    /// What was told of requests.
    pub(crate) fn told(&self) -> &Told {
        assert!(self.world.told.open.values().all(|open| *open == 0), "connections of nobody");
        &self.world.told
    }

    /// Bytes that servers have answered with.
    pub(crate) fn answered_bytes(&self) -> u64 {
        self.servers.values().map(|own| own.answered_bytes() as u64).sum()
    }

    /// Backends that were not believed.
    pub(crate) fn distrusted(&self) -> &[SocketAddr] {
        &self.world.distrusted
    }

    /// What clients have asked for, as the world was told.
    pub(crate) fn wishes(&self) -> &[(Option<String>, Option<String>)] {
        &self.world.wishes
    }

    /// How many connections of backends' were reset.
    pub(crate) fn resets(&self) -> usize {
        self.servers.values().filter(|own| own.tcp.is_reset()).count()
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.world.events
    }

    pub(crate) fn usage(&self) -> Usage {
        self.terminator.usage()
    }

    pub(crate) fn claimed(&self) -> usize {
        self.world.claims.len()
    }

    fn millisecond(&mut self) {
        self.now += 1;
        let Self {
            rng,
            faults,
            now,
            client,
            terminator,
            world,
            servers,
            ends,
            dead,
            links,
            sealed,
            echoes,
        } = self;
        let [to_terminator, to_client, to_servers] = links;
        client.poll(*now);
        while let Some(packet) = client.tcp().outgoing() {
            to_terminator.send(packet, *now, faults, rng);
        }
        while let Some(packet) = to_servers.arrived(*now) {
            let got = segment(&packet);
            let key = [got.to, got.from];
            if dead.contains(&got.to) {
                let mut refusing = Server::new((got.to.ip(), 1).into(), 3, None, false);
                refusing.tcp.take(packet);
                refusing.poll(*now);
                if let Some(packet) = refusing.tcp.outgoing() {
                    to_terminator.send(packet, *now, faults, rng);
                }
                continue;
            }
            let told = world.proxied.then_some(ends[0]);
            let fresh = |now| Server::new(got.to, now, sealed.as_ref(), *echoes).told_of(told);
            let server = servers.entry(key).or_insert_with(|| fresh(*now));
            if got.opens && server.tcp.stage() == terminate::Stage::Closed {
                *server = fresh(*now);
            }
            server.tcp.take(packet);
        }
        for server in servers.values_mut() {
            server.poll(*now);
            while let Some(packet) = server.tcp.outgoing() {
                to_terminator.send(packet, *now, faults, rng);
            }
        }
        while let Some(packet) = to_terminator.arrived(*now) {
            let got = segment(&packet);
            if got.to == ends[1] {
                terminator.from_client(got, ServiceId(0), *now, world);
            } else {
                terminator.from_backend(got, world);
            }
        }
        terminator.turn(*now, world);
        for packet in std::mem::take(&mut world.sent) {
            let link = if segment(&packet).to == ends[0] && segment(&packet).from == ends[1] {
                &mut *to_client
            } else {
                &mut *to_servers
            };
            link.send(packet, *now, faults, rng);
        }
        while let Some(packet) = to_client.arrived(*now) {
            client.tcp().take(packet);
        }
    }
}

//! The systems, how each is set up in the balancer's namespace, and the time that it uses.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use flow::{Encoding, Mode};

use super::used::Used;
use crate::column::Column;
use crate::compare::{busy_share, process_times_ns, threads_ns, threads_times_ns};
use crate::config::LabRun;
use crate::lab::{self, log_tail};
use crate::status::Status;
use crate::topology::{BACKENDS, BALANCER, Host, VIP4, WEB_BACKEND_PORT, WEB_PORT};
use crate::{Balancer, Lab, LabError, netns};

/// How long a proxy may take to listen, and to go.
const PATIENCE: Duration = Duration::from_secs(20);
/// The name of HNLB's worker among its threads.
const WORKER: &str = "worker";
/// The fields that HNLB adds to requests unless it is told not to.
const FIELDS: &str = "\"X-Forwarded-For\", \"X-Forwarded-Proto\", \"X-Forwarded-Host\", \
    \"Forwarded\", \"X-Request-Id\"";
/// The client of all loads.
pub(super) const CLIENT: &str = "c1";

/// The kernel as the gateway of both subnets, with the VIP.
const HERE: &str = "\
ip addr add 10.71.0.1/24 dev hnlb0
ip addr add 10.72.0.1/24 dev hnlb0
ip addr add 10.71.0.100/32 dev hnlb0
";
/// The namespace as HNLB wants it.
const BARE: &str = "ip addr flush dev hnlb0\n";

/// A system that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// HNLB with one worker, with or without fields that it adds to every request.
    Hnlb(bool),
    /// HAProxy with one thread, with or without such fields.
    Haproxy(bool),
    /// nginx with one process, with or without such fields.
    Nginx(bool),
}

/// Where the client sends its requests.
pub(super) const fn target() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(VIP4), WEB_PORT)
}

impl System {
    /// All, in the order of a round.
    pub const ALL: [Self; 6] = [
        Self::Hnlb(true),
        Self::Haproxy(true),
        Self::Nginx(true),
        Self::Hnlb(false),
        Self::Haproxy(false),
        Self::Nginx(false),
    ];

    /// Those that add fields to requests.
    pub(crate) const WITH_FIELDS: [Self; 3] =
        [Self::Hnlb(true), Self::Haproxy(true), Self::Nginx(true)];

    /// Its name in tables and rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hnlb(_) => "hnlb",
            Self::Haproxy(_) => "haproxy",
            Self::Nginx(_) => "nginx",
        }
    }

    /// Whether it adds fields to requests.
    #[must_use]
    pub const fn inserts(self) -> bool {
        match self {
            Self::Hnlb(inserts) | Self::Haproxy(inserts) | Self::Nginx(inserts) => inserts,
        }
    }

    /// Starts it. HNLB gets its packets through AF_XDP sockets with `xdp`, otherwise through
    /// an emulated NIC.
    pub(super) fn start(
        self,
        lab: &mut Lab,
        binary: &Path,
        xdp: bool,
    ) -> Result<Running, LabError> {
        let (balancer, pid) = match self {
            Self::Hnlb(inserts) => {
                let run = match xdp {
                    true => Column::Xdp.run(Mode::Nat, 1),
                    false => LabRun::emulated(Encoding::Off),
                };
                let name = "hnlb-bench";
                let started = Balancer::start_with(lab, binary, name, run.device, |socket| {
                    run.base(socket) + &service(inserts)
                })?;
                let pid = started.pid();
                (Some(started), pid)
            }
            Self::Haproxy(inserts) => (None, proxy(lab, self, &haproxy(inserts), WEB_PORT)?),
            Self::Nginx(inserts) => (None, proxy(lab, self, &nginx(inserts, lab.dir()), WEB_PORT)?),
        };
        Ok(Running { system: self, balancer, pid })
    }
}

/// A system at work.
#[derive(Debug)]
pub(crate) struct Running {
    system: System,
    balancer: Option<Balancer>,
    pid: u32,
}

/// What a system has used up to now. Times are those of the user and of the system, in
/// nanoseconds.
pub(super) enum Reading {
    /// The worker's status, how long it has run, and its times.
    Hnlb(Box<Status>, u64, [u64; 2]),
    Process([u64; 2]),
}

impl Reading {
    /// What was used since `before`.
    pub(super) fn since(&self, before: &Self) -> Used {
        match (before, self) {
            (Self::Hnlb(before, from, old), Self::Hnlb(after, to, new)) => {
                Used::of_worker(busy_share(before, after), to.saturating_sub(*from), (*old, *new))
            }
            (Self::Process(old), Self::Process(new)) => Used::of_process((*old, *new)),
            _ => Used::default(),
        }
    }
}

impl Running {
    /// HNLB, which has been started.
    pub(crate) const fn hnlb(balancer: Balancer) -> Self {
        let pid = balancer.pid();
        Self { system: System::Hnlb(true), balancer: Some(balancer), pid }
    }

    /// Starts HAProxy or nginx in the place of HNLB, with the configuration `text`; it
    /// listens at `port` of the VIP.
    pub(crate) fn proxy(
        lab: &mut Lab,
        system: System,
        text: &str,
        port: u16,
    ) -> Result<Self, LabError> {
        let pid = proxy(lab, system, text, port)?;
        Ok(Self { system, balancer: None, pid })
    }

    pub(crate) const fn system(&self) -> System {
        self.system
    }

    pub(crate) const fn balancer(&self) -> Option<&Balancer> {
        self.balancer.as_ref()
    }

    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn read(&self, lab: &Lab) -> Result<Reading, LabError> {
        match &self.balancer {
            Some(balancer) => {
                let status = Box::new(balancer.status(lab)?);
                let run_ns = threads_ns(self.pid, &[WORKER])?;
                Ok(Reading::Hnlb(status, run_ns, threads_times_ns(self.pid, WORKER)?))
            }
            None => process_times_ns(self.pid).map(Reading::Process),
        }
    }

    pub(crate) fn check(&self, lab: &mut Lab) -> Result<(), LabError> {
        match &self.balancer {
            Some(balancer) => balancer.check(lab),
            None => Ok(()),
        }
    }

    /// Ends it and undoes what it set up.
    pub(crate) fn stop(self, lab: &mut Lab) -> Result<(), LabError> {
        match self.balancer {
            Some(balancer) => _ = balancer.end(lab),
            None => {
                lab.end(self.pid, PATIENCE);
                netns::script(&lab.netns(BALANCER), BARE, lab.stop())?;
            }
        }
        // The VIP belongs to another Ethernet address from now on.
        for host in [CLIENT].into_iter().chain(BACKENDS.iter().map(|host| host.name)) {
            netns::script(&lab.netns(host), "ip neigh flush all\n", lab.stop())?;
        }
        Ok(())
    }
}

fn service(inserts: bool) -> String {
    let mut text = format!(
        "\n[[service]]\nname = \"web\"\nvip = \"{VIP4}\"\nport = {WEB_PORT}\n\
         protocol = \"http\"\nscheduler = \"round-robin\"\n"
    );
    if !inserts {
        text += &format!("request_headers = {{ remove = [{FIELDS}] }}\n");
    }
    for Host { v4, .. } in &BACKENDS {
        text += &format!("[[service.backend]]\naddress = \"{v4}\"\nport = {WEB_BACKEND_PORT}\n");
    }
    text
}

/// Connections to backends are kept and shared, and bodies spliced by the kernel.
fn haproxy(inserts: bool) -> String {
    let mut text = format!(
        "global\n  nbthread 1\n  maxconn 2048\n\
         defaults\n  mode http\n  timeout connect 10s\n  timeout client 120s\n  \
         timeout server 120s\n  timeout http-keep-alive 120s\n  option http-keep-alive\n  \
         http-reuse always\n  option splice-auto\n\
         listen web\n  bind {VIP4}:{WEB_PORT} backlog 4096\n  balance roundrobin\n"
    );
    if inserts {
        text += "  option forwardfor\n  http-request set-header X-Forwarded-Proto http\n  \
                 http-request set-header X-Forwarded-Host %[req.hdr(host)]\n  \
                 unique-id-format %[uuid()]\n  unique-id-header X-Request-Id\n";
    }
    for Host { name, v4, .. } in &BACKENDS {
        text += &format!("  server {name} {v4}:{WEB_BACKEND_PORT}\n");
    }
    text
}

/// Connections to backends are kept; bodies are passed on through memory, not files.
fn nginx(inserts: bool, dir: &Path) -> String {
    let dir = dir.display();
    let servers: String = BACKENDS
        .iter()
        .map(|Host { v4, .. }| format!("    server {v4}:{WEB_BACKEND_PORT};\n"))
        .collect();
    let fields = match inserts {
        false => "",
        true => {
            "      proxy_set_header X-Forwarded-For $remote_addr;\n      \
             proxy_set_header X-Forwarded-Proto $scheme;\n      \
             proxy_set_header X-Forwarded-Host $host;\n      \
             proxy_set_header X-Request-Id $request_id;\n"
        }
    };
    format!(
        "daemon off;\nmaster_process off;\nuser root;\nworker_rlimit_nofile 16384;\n\
         pid {dir}/proxy.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 8192; multi_accept on; }}\n\
         http {{\n  access_log off;\n  keepalive_timeout 3600s;\n  \
         keepalive_requests 1000000000;\n  tcp_nodelay on;\n  \
         client_body_temp_path {dir}/body;\n  proxy_temp_path {dir}/proxy;\n  \
         fastcgi_temp_path {dir}/fastcgi;\n  uwsgi_temp_path {dir}/uwsgi;\n  \
         scgi_temp_path {dir}/scgi;\n  \
         upstream web {{\n{servers}    keepalive 64;\n    keepalive_requests 1000000000;\n  }}\n  \
         server {{\n    listen {VIP4}:{WEB_PORT} backlog=4096;\n    \
         location / {{\n      proxy_pass http://web;\n      proxy_http_version 1.1;\n      \
         proxy_set_header Connection \"\";\n      proxy_buffers 16 64k;\n      \
         proxy_buffer_size 64k;\n      proxy_busy_buffers_size 256k;\n      \
         proxy_max_temp_file_size 0;\n{fields}    }}\n  }}\n}}\n"
    )
}

/// Starts HAProxy in the place of HNLB, with this configuration; it listens at the VIP.
pub(crate) fn start_haproxy(lab: &mut Lab, text: &str) -> Result<Running, LabError> {
    let system = System::Haproxy(true);
    Running::proxy(lab, system, text, WEB_PORT)
}

/// Starts a proxy with the configuration `text` and waits until it listens at `port`.
fn proxy(lab: &mut Lab, system: System, text: &str, port: u16) -> Result<u32, LabError> {
    netns::script(&lab.netns(BALANCER), HERE, lab.stop())?;
    let name = format!("{}-proxy", system.name());
    let file = lab.dir().join(format!("{name}.cfg"));
    std::fs::write(&file, text).map_err(LabError::io(format!("write {}", file.display())))?;
    let file = file.display().to_string();
    let argv: &[&str] = match system {
        System::Nginx(_) => &["nginx", "-c", &file],
        _ => &["haproxy", "-db", "-f", &file],
    };
    let pid = lab.spawn(BALANCER, &name, argv)?;
    let deadline = Instant::now() + PATIENCE;
    while !lab::listening("tcp", port, &[""], pid) {
        let ended = lab.ended(pid);
        if ended.is_some() || Instant::now() >= deadline {
            let log = log_tail(&lab.log(&name));
            let status = ended.unwrap_or_else(|| "it does not listen".into());
            return Err(LabError::Command { command: name, status, stderr: log });
        }
        lab.stop().sleep(Duration::from_millis(20))?;
    }
    Ok(pid)
}

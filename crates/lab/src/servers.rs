//! The real servers in the backends: nginx for TCP, nsd for UDP.

use std::path::Path;

use crate::LabError;
use crate::topology::{
    DNS_BACKEND_PORT, DNS_PORT, Host, PAIR_VIP4, PAIR_VIP6, PROXY_BACKEND_PORT, VIP4, VIP6,
    WEB_BACKEND_PORT, WEB_PORT,
};

/// The file beside a web server's configuration that makes it fail its health check.
pub(crate) const SICK: &str = "sick";
/// The file that makes it answer its health check a byte a second.
pub(crate) const SLOW: &str = "slow";
/// Size of `/big`, in bytes.
pub(crate) const BIG: usize = 1 << 20;

/// A server's command line and the ports it must listen on.
pub(crate) struct Server {
    /// What it is, for instance `b1-nginx`.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// The port.
    pub port: u16,
}

/// Writes the configurations of a backend's servers under `dir` and tells
/// how to start them.
pub(crate) fn prepare(host: &Host, dir: &Path) -> Result<[Server; 2], LabError> {
    let dir = dir.join(host.name);
    let what = || LabError::io(format!("write server files under {}", dir.display()));
    std::fs::create_dir_all(dir.join("html")).map_err(what())?;
    let put = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).map_err(what());
    put("html/big", &big())?;
    put("nginx.conf", nginx(host, &dir).as_bytes())?;
    put("nsd.conf", nsd(host, &dir).as_bytes())?;
    put("lab.zone", zone(host).as_bytes())?;
    let path = |name: &str| dir.join(name).display().to_string();
    let words = |argv: &[&str]| argv.iter().map(ToString::to_string).collect();
    Ok([
        Server {
            name: format!("{}-nginx", host.name),
            argv: words(&["nginx", "-p", &path(""), "-c", &path("nginx.conf"), "-e", "stderr"]),
            protocol: "tcp",
            port: WEB_BACKEND_PORT,
        },
        Server {
            name: format!("{}-nsd", host.name),
            argv: words(&["nsd", "-d", "-c", &path("nsd.conf")]),
            protocol: "udp",
            port: DNS_BACKEND_PORT,
        },
    ])
}

/// The contents of `/big`: no four bytes of it are like others, so that bytes at
/// a wrong place are noticed.
pub(crate) fn big() -> Vec<u8> {
    (0..BIG as u32 / 4).flat_map(u32::to_be_bytes).collect()
}

fn nginx(host: &Host, dir: &Path) -> String {
    let (name, dir) = (host.name, dir.display());
    format!(
        "daemon off;
user root;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {dir}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; multi_accept on; }}
http {{
  access_log off;
  server_tokens off;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  server {{
    listen {WEB_BACKEND_PORT} backlog=4096;
    listen [::]:{WEB_BACKEND_PORT} ipv6only=on backlog=4096;
    listen {WEB_PORT} backlog=4096;
    listen [::]:{WEB_PORT} ipv6only=on backlog=4096;
    root {dir}/html;
    default_type text/plain;
    add_header X-Backend {name} always;
    location = / {{ return 200 \"{name}\\n\"; }}
    location = /big {{ }}
    location = /page.html {{ default_type text/html; }}
    location = /seen {{ return 200 \"$http_x_forwarded_for $http_x_forwarded_host\n\"; }}
    location = /client {{ return 200 \"$http_x_client_cert_subject $http_x_client_cert_serial $http_x_client_cert_fingerprint $http_client_cert\n\"; }}
    location /up/ {{ dav_methods PUT; create_full_put_path on; client_max_body_size 0; }}
    location = /health {{
      if (-f {dir}/{SICK}) {{ return 500; }}
      if (-f {dir}/{SLOW}) {{ set $limit_rate 1; }}
      return 200 \"well\n\";
    }}
  }}
  server {{
    listen {PROXY_BACKEND_PORT} proxy_protocol backlog=4096;
    listen [::]:{PROXY_BACKEND_PORT} proxy_protocol ipv6only=on backlog=4096;
    root {dir}/html;
    default_type text/plain;
    location = / {{
      add_header X-Peer-Port $remote_port;
      add_header X-Told-Port $proxy_protocol_port;
      return 200 \"$proxy_protocol_addr $proxy_protocol_server_addr $proxy_protocol_server_port\n\";
    }}
    location /up/ {{ dav_methods PUT; create_full_put_path on; client_max_body_size 0; }}
  }}
}}
"
    )
}

fn nsd(host: &Host, dir: &Path) -> String {
    let dir = dir.display();
    let (v4, v6) = (host.v4, host.v6);
    // Debian's nsd limits answers per client network (response rate
    // limiting); a load test from two addresses would look like loss.
    format!(
        "server:
  server-count: 1
  ip-address: {v4}@{DNS_BACKEND_PORT}
  ip-address: {v6}@{DNS_BACKEND_PORT}
  ip-address: {VIP4}@{DNS_PORT}
  ip-address: {VIP6}@{DNS_PORT}
  ip-address: {PAIR_VIP4}@{DNS_PORT}
  ip-address: {PAIR_VIP6}@{DNS_PORT}
  ip-freebind: yes
  username: \"\"
  zonesdir: \"{dir}\"
  pidfile: \"{dir}/nsd.pid\"
  database: \"\"
  zonelistfile: \"{dir}/zone.list\"
  xfrdfile: \"{dir}/xfrd.state\"
  xfrdir: \"{dir}\"
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: \"lab\"
  zonefile: \"lab.zone\"
"
    )
}

fn zone(host: &Host) -> String {
    let Host { name, v4, v6, .. } = host;
    format!(
        "$ORIGIN lab.
$TTL 0
@ SOA ns.lab. root.lab. 1 3600 600 86400 0
@ NS ns.lab.
ns A {v4}
ns AAAA {v6}
who TXT \"{name}\"
who A {v4}
who AAAA {v6}
"
    )
}

/// Whether a socket table of `/proc/PID/net` (`tcp`, `tcp6`, `udp`, `udp6`)
/// has a socket that waits for peers on a port: state 0A (LISTEN) for TCP,
/// 07 (unconnected) for UDP.
pub(crate) fn listens(table: &str, protocol: &str, port: u16) -> bool {
    let state = if protocol == "tcp" { "0A" } else { "07" };
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        let found = fields.nth(1).unwrap_or_default();
        local.ends_with(&suffix) && found == state
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr\n\
            0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n\
            1: 0B00480A:1F91 0B00470A:D431 01 00000000:00000000 00:00000000\n\
            2: 0B00480A:14E9 00000000:0000 07 00000000:00000000 00:00000000\n";
        assert!(listens(table, "tcp", 8080));
        assert!(!listens(table, "tcp", 8081), "established is not listening");
        assert!(listens(table, "udp", 5353));
        assert!(!listens(table, "tcp", 5353));
        assert!(!listens("", "tcp", 8080));
    }
}

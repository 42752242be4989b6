//! `[[pool]]`, `[[service]]`, `[[service.backend]]`: what is balanced.
use std::net::IpAddr;
use std::ops::RangeInclusive;

use flow::{
    Affinity, Mode, OnRemove, Protocol, ProxyProtocol, Rebalance, Refuse, Scheduler, StatelessKey,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::{Key128, ServerId};

use crate::backend_tls::BackendTls;
use crate::headers::{Headers, Sticky};
use crate::health::Health;
use crate::http::HttpRoute;
use crate::service_tls::ServiceTls;
use crate::tables::Timeouts;
use crate::text;

/// Source addresses for services in mode `fullnat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name, by which services refer to it; at most 32 letters, digits, `_`, `-` and `.`.
    #[schemars(extend("format" = "name"))]
    pub name: String,
    /// The addresses that backends see as clients. Backends must send answers to these addresses to HNLB.
    #[schemars(with = "Vec<text::Address>", length(min = 1))]
    pub addresses: Vec<IpAddr>,
    /// The ports used at each address, such as `"1024-65535"`.
    #[serde(default = "ports", with = "text::port_range")]
    #[schemars(with = "String", extend("format" = "port-range"))]
    pub ports: RangeInclusive<u16>,
}

const fn ports() -> RangeInclusive<u16> {
    1024..=65535
}

/// A virtual address and the backends behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name; at most 32 letters, digits, `_`, `-` and `.`.
    #[schemars(extend("format" = "name"))]
    pub name: String,
    /// The address that clients send to. HNLB answers for it (ARP, NDP, ICMP echo) at the interface where it is on-link.
    #[schemars(with = "String", extend("format" = "ip"))]
    pub vip: IpAddr,
    /// The port that clients send to, or `"any"` for all ports that no other service of the VIP uses.
    #[serde(with = "text::service_port")]
    #[schemars(with = "text::ServicePort")]
    pub port: Option<u16>,
    /// What is balanced: connections of a transport protocol, or requests.
    pub protocol: Protocol,
    /// How packets reach the backends.
    #[serde(default)]
    pub mode: Mode,
    /// Whether the service is balanced without connections: `by` alone chooses the backend, in proportion to the weights, and the scheduler is ignored. Only with the mode `dsr`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stateless: bool,
    /// What chooses the backend of a stateless service.
    #[serde(default, skip_serializing_if = "StatelessKey::is_source")]
    pub by: StatelessKey,
    /// The name of the pool of source addresses; needed with the mode `fullnat`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub pool: Option<String>,
    /// The source address of outer packets, of the backends' family; by default that of the interface towards the backend. Only with a tunnel mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "ip"), with = "Option<String>")]
    pub tunnel_source: Option<IpAddr>,
    /// Time to live or hop limit of outer packets, by default 64. Only with a tunnel mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub tunnel_ttl: Option<u8>,
    /// The UDP port at which backends receive tunnelled packets, by default the mode's own. Only with a mode that tunnels over UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub tunnel_port: Option<u16>,
    /// How the backend of a new connection is chosen. Hashing chooses the backend for packets of connections that are not in the table (after a restart, after their timeout, or because the table is full): with `maglev` and `source-hash` the same backend as before, with all other schedulers mostly another one, which resets a TCP connection.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Slots of the service's Maglev table: a prime, at least 100 times the number of backends.
    #[serde(default = "maglev_size")]
    #[schemars(range(min = 101, max = 16_777_213))]
    pub maglev_size: u32,
    /// The percentage of the connection table that the service's connections may take, in any state. Maglev serves further connections without state; in mode `fullnat` they are dropped.
    #[serde(default = "share", skip_serializing_if = "is_whole")]
    #[schemars(range(min = 1, max = 100))]
    pub share: u8,
    /// What happens to the connections of a backend that a reload removes, or of the service if a reload removes it.
    #[serde(default, skip_serializing_if = "OnRemove::is_keep")]
    pub on_remove: OnRemove,
    /// The answer to packets that no backend takes: all are drained, the pool is exhausted, or another connection has the 5-tuple.
    #[serde(default, skip_serializing_if = "Refuse::is_reset")]
    pub refuse: Refuse,
    /// The property by which a client stays at its backend.
    #[serde(default, skip_serializing_if = "Affinity::is_five_tuple")]
    pub affinity: Affinity,
    /// How the backends of a service with the affinity `quic-cid` make connection ids; one for each value of `rotation` in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quic: Vec<Quic>,
    /// How long the service's idle connections are kept.
    #[serde(default, skip_serializing_if = "Timeouts::is_default")]
    pub timeouts: Timeouts,
    /// Health checks of its backends; without them all backends count as up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// When the requests of one connection get different backends of a group. Only with the protocols `http` and `https`.
    #[serde(default, skip_serializing_if = "Rebalance::is_never")]
    pub rebalance: Rebalance,
    /// The header with the client's address that each connection to a backend begins with; by default there is none. Backends must expect it. Only with the protocols `http`, `https`, `tls` and `tcp`, and the mode `nat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Whether HNLB terminates TLS, with the certificates in `tls`, and sends backends the decrypted bytes unchanged. Only with the protocol `tls`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
    /// How HNLB terminates TLS. Required, and allowed only, with the protocol `https` or with `terminate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServiceTls>,
    /// How HNLB uses TLS towards backends; without this table it sends to them in the clear. Only with the protocol `https`, or with `terminate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_tls: Option<BackendTls>,
    /// How HNLB changes the header fields of requests. Only with the protocols `http` and `https`.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub request_headers: Headers,
    /// How HNLB changes the header fields of responses. Only with the protocols `http` and `https`.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub response_headers: Headers,
    /// A cookie that sends a client's requests to the same backend again. Only with the protocols `http` and `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    /// Which requests, or TLS connections, go to which backends. Only with the protocols `http`, `https` and `tls`.
    #[serde(rename = "route", default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<HttpRoute>,
    /// A server behind the service. At least one is needed, except in a service whose route without a condition answers every request by itself.
    #[serde(rename = "backend", default)]
    pub backends: Vec<Backend>,
}

const fn maglev_size() -> u32 {
    service::MAGLEV_DEFAULT
}

const fn share() -> u8 {
    100
}

const fn is_whole(share: &u8) -> bool {
    *share == 100
}

impl Service {
    /// Whether its connections take the L7 agent or the terminator, and are not in the connection table.
    #[must_use]
    pub const fn is_routed(&self) -> bool {
        self.protocol.is_routed() || self.proxy_protocol.is_some()
    }

    /// What is between the outer and the inner IP header; `None` without tunnels.
    #[must_use]
    pub fn tunnel(&self) -> Option<wire::Tunnel> {
        wire::Tunnel::of(self.mode, self.tunnel_port)
    }

    /// Whether TLS of its clients ends here.
    #[must_use]
    pub const fn terminates(&self) -> bool {
        match self.protocol {
            Protocol::Https => true,
            Protocol::Tls => self.terminate,
            Protocol::Tcp | Protocol::Udp | Protocol::Http => false,
        }
    }

    /// The protocols that its clients may agree upon by ALPN, by preference.
    #[must_use]
    pub fn alpn(&self) -> Vec<String> {
        let Some(tls) = &self.tls else { return Vec::new() };
        if self.protocol == Protocol::Https {
            let all = if tls.http2 { ["h2", "http/1.1"].as_slice() } else { &["http/1.1"] };
            return all.iter().map(|own| (*own).to_owned()).collect();
        }
        let mut all = tls.alpn.clone();
        for protocol in self.routes.iter().filter_map(|route| route.alpn.as_ref()) {
            if !all.contains(protocol) {
                all.push(protocol.clone());
            }
        }
        all
    }
}

/// A server behind a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Its address, of the VIP's family, or of either family with a tunnel mode.
    #[schemars(with = "String", extend("format" = "ip"))]
    pub address: IpAddr,
    /// Its port; by default the port that the client asked for. Not allowed in a service of any port, and only with the modes `nat` and `fullnat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// Its share of new connections compared with the others'; 0: drained, it keeps its connections and gets no new ones.
    #[serde(default = "weight")]
    #[schemars(range(min = 0, max = 65535))]
    pub weight: u16,
    /// Whether it gets new connections only while no other backend can (all are down or drained): a server with a maintenance page, or one that costs more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backup: bool,
    /// The server ids that it writes into QUIC connection ids, in hexadecimal; one for each length in the service's `quic`. Only with the affinity `quic-cid`.
    #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<text::ServerIdText>")]
    pub server_ids: Vec<ServerId>,
    /// The group of backends that it belongs to; routes name groups. Backends without a group get what no route matches. Only with the protocols `http`, `https` and `tls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub group: Option<String>,
}

/// How backends make QUIC connection ids (draft-ietf-quic-load-balancers): a first byte, a server id and a nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quic {
    /// The first three bits of connection ids made this way.
    #[schemars(range(min = 0, max = 6))]
    pub rotation: u8,
    /// The length of server ids in bytes.
    #[schemars(range(min = 1, max = 15))]
    pub server_id_length: u8,
    /// The length in bytes of the nonce behind the server id; the two lengths together are at most 19.
    #[schemars(range(min = 4, max = 18))]
    pub nonce_length: u8,
    /// The AES-128 key that encrypts server id and nonce: 32 hexadecimal digits. Without a key they are in the clear, and anybody can choose a client's backend and see which clients share one.
    #[serde(default, with = "text::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "key"), with = "Option<String>")]
    pub key: Option<Key128>,
}

const fn weight() -> u16 {
    1
}

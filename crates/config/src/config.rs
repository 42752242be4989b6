//! The whole file.
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::{self, Findings};
use crate::http::Maintenance;
use crate::shape;
use crate::tree::{Tree, Way};
use crate::{
    AccessLog, Announce, Answers, Api, ConfigError, ConfigErrors, Conntrack, Eal, Fleet, Fragments,
    Interface, Neighbour, Neighbours, Offload, Pool, Port, Route, Service, Status, Workers,
};

/// The configuration of HNLB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// DPDK's environment abstraction layer: memory and arguments.
    pub eal: Eal,
    /// A device that receives and sends packets. At least one is needed.
    #[serde(rename = "port")]
    pub ports: Vec<Port>,
    /// A layer-3 interface on a port: its addresses and VLAN. At least one is needed.
    #[serde(rename = "interface")]
    pub interfaces: Vec<Interface>,
    /// A route to addresses that are not on-link; the longest prefix wins.
    #[serde(rename = "route")]
    pub routes: Vec<Route>,
    /// A neighbour with a fixed Ethernet address, which HNLB does not resolve.
    #[serde(rename = "neighbour")]
    pub static_neighbours: Vec<Neighbour>,
    /// The worker cores and how they poll.
    pub workers: Workers,
    /// The connection table.
    pub conntrack: Conntrack,
    /// Reassembly of fragmented datagrams.
    pub fragments: Fragments,
    /// Offload of connections into the match table of the NIC.
    pub offload: Offload,
    /// What HNLB answers to packets that it does not forward.
    pub answers: Answers,
    /// The neighbour table (ARP and NDP).
    pub neighbours: Neighbours,
    /// Source addresses for services in mode `fullnat`.
    #[serde(rename = "pool")]
    pub pools: Vec<Pool>,
    /// A virtual address and the backends behind it.
    #[serde(rename = "service")]
    pub services: Vec<Service>,
    /// The socket through which a running load balancer is queried and changed.
    pub status: Status,
    /// The control API over TCP with TLS, and the host names that it accepts.
    pub api: Api,
    /// Settings that load balancers serving the same VIPs share.
    pub fleet: Fleet,
    /// A log line per request; without this table HNLB logs no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLog>,
    /// How routers learn of the VIPs; without it their routes are configured by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announce: Option<Announce>,
}

impl Config {
    /// The configuration in the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or what [`Config::parse`] says.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let path = path.as_ref();
        Self::parse(&read(path)?, path)
    }

    /// The configuration in `text`, which comes from the file `name`.
    ///
    /// # Errors
    /// The first TOML syntax error; if there is none, every key and value that
    /// violates the schema; if there is none, everything else that is wrong.
    pub fn parse(text: &str, name: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let tree = Tree::parse(name.as_ref(), text).map_err(ConfigErrors::one)?;
        let misshapen = shape::check(&tree, &Self::json_schema());
        if let Some(errors) = ConfigErrors::of(misshapen) {
            return Err(errors);
        }
        let mut config: Self = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            ConfigErrors::one(tree.error_at(start, String::new(), error.message()))
        })?;
        let mut errors = config.load_pages(&tree);
        let mut findings = Findings::new(&config, &tree);
        checks::all(&mut findings);
        errors.extend(findings.into_errors());
        match ConfigErrors::of(errors) {
            Some(errors) => Err(errors),
            None => Ok(config),
        }
    }

    /// Reads the files with pages that routes answer with; what is wrong with them.
    fn load_pages(&mut self, tree: &Tree<'_>) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for (place, service) in self.services.iter_mut().enumerate() {
            let way = Way::to("service").item(place).key("route");
            for (at, route) in service.routes.iter_mut().enumerate() {
                if let Some(Err(text)) = route.maintenance.as_mut().map(Maintenance::load) {
                    let way = way.item(at).key("maintenance").key("file");
                    errors.push(tree.error(&way, text));
                }
            }
        }
        errors
    }

    /// As [`Self::load`], with the [warnings](Self::warnings) and where they belong.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with_warnings(
        path: impl AsRef<Path>,
    ) -> Result<(Self, Vec<ConfigError>), ConfigErrors> {
        let path = path.as_ref();
        Self::parse_with_warnings(&read(path)?, path)
    }

    /// As [`Self::parse`], with the [warnings](Self::warnings) and where they belong.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with_warnings(
        text: &str,
        name: impl AsRef<Path>,
    ) -> Result<(Self, Vec<ConfigError>), ConfigErrors> {
        let name = name.as_ref();
        let config = Self::parse(text, name)?;
        let tree = Tree::parse(name, text).map_err(ConfigErrors::one)?;
        let mut all: Vec<ConfigError> = config
            .warnings()
            .into_iter()
            .map(|warning| tree.error_about(&warning.key, warning.text))
            .collect();
        all.sort_by_key(|own| (own.line, own.column));
        Ok((config, all))
    }

    /// The JSON Schema (2020-12) of the file, published as
    /// docs/user/config.schema.json.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

/// The text of the file at `path`.
///
/// # Errors
/// It can't be read.
pub fn read(path: &Path) -> Result<String, ConfigErrors> {
    std::fs::read_to_string(path).map_err(|error| ConfigErrors::unreadable(path, &error))
}

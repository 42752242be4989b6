//! `[offload]`: which connections go into the match table of the NIC, and how.
use flow::{AdmissionPolicy, EncodingChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Offload of connections into the match table of the NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Offload {
    /// How the NIC tells the worker what it matched.
    pub encoding: EncodingChoice,
    /// Which connections get an entry in the NIC's match table.
    pub admission: AdmissionPolicy,
    /// The most rules that HNLB creates on each port per second. It creates fewer while the NIC is slow or refuses them.
    #[schemars(range(min = 10, max = 10_000_000))]
    pub insertions: u32,
    /// With the admission `heavy`: the percentage of entries that are kept free, so that a new connection need not wait until the evicted connection's rules are gone.
    #[schemars(range(min = 0, max = 50))]
    pub reserve: u32,
    /// With the admission `heavy`: a connection displaces another when its rate is at least this percentage of the other's.
    #[schemars(range(min = 100, max = 1000))]
    pub factor: u32,
    /// With the admission `heavy`: the number of connections without an entry whose rates are tracked, about 300 bytes each. Eight per entry of the NIC are enough.
    #[schemars(range(min = 64, max = 4_194_304))]
    pub tracked: u32,
    /// With the encoding `queue`: one in this many matched packets is looked up in the connection table, so that its connection does not age.
    #[schemars(range(min = 1, max = 65535))]
    pub sample: u32,
    /// With the encoding `rewrite`: the NIC forwards a response of a service with `protocol = "http"` if at least this many bytes of it are still to come, and the backend's bytes of a connection with `protocol = "tls"` once this many have come. A rule costs the NIC time, which short responses are not worth.
    #[schemars(range(min = 65536))]
    pub reply_bytes: u64,
    /// The number of rules that may wait to be created or destroyed; beyond it, connections stay in software.
    #[schemars(range(min = 64, max = 1_048_576))]
    pub queue_depth: u32,
    /// Milliseconds from the destruction of a rule until its mark or queue may stand for another connection. A device may match a destroyed rule for a while, and takes a moment to put a matched packet into a receive queue; packets that it delivers later than that could reach another backend. Raise the value for a slower device.
    #[schemars(range(min = 1, max = 10_000))]
    pub settle_ms: u32,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            encoding: EncodingChoice::default(),
            admission: AdmissionPolicy::default(),
            insertions: 20_000,
            reserve: 2,
            factor: 125,
            tracked: 65_536,
            sample: 64,
            reply_bytes: 4_194_304,
            queue_depth: 4096,
            settle_ms: 10,
        }
    }
}

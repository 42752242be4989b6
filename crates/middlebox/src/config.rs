//! The configuration file of the middlebox server.
use std::path::{Path, PathBuf};

use balance::{Alpha, Kind, Marks, Order, Settings as Balance};
use config::{HugePages, Port};
use nf::{AllDown, Hash, Settings, Silence, Stamp, Streams, Tagging, Traffic};
use serde::Deserialize;

use crate::attachment::Attachment;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The status socket.
    #[serde(default = "socket")]
    pub socket: PathBuf,
    /// The polling thread's core; by default any.
    #[serde(default)]
    pub core: Option<u16>,
    /// Whether the polling thread always polls, or gives its core away when it finds
    /// nothing.
    #[serde(default)]
    pub idle: Idle,
    /// Memory for buffers in MiB.
    #[serde(default = "memory_mb")]
    pub memory_mb: u32,
    /// Whether that is in huge pages.
    #[serde(default)]
    pub huge_pages: HugePages,
    /// The pairs of ports by name: what comes in by one leaves by the other.
    pub pairs: Vec<(String, String)>,
    /// Buckets.
    #[serde(default = "buckets")]
    pub buckets: u16,
    /// The function of each bucket at the start, by position; by default in equal blocks.
    #[serde(default)]
    pub map: Option<Vec<u16>>,
    /// From flow to bucket.
    #[serde(default)]
    pub hash: Hash,
    /// Where latencies come from.
    #[serde(default)]
    pub stamp: Stamp,
    /// What moves buckets.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// How buckets move.
    #[serde(default)]
    pub order: OrderName,
    /// Least time between two decisions in microseconds.
    #[serde(default = "trigger_us")]
    pub trigger_us: u32,
    /// The weight of a new latency in 256ths.
    #[serde(default = "alpha")]
    pub alpha: u16,
    /// A function that has frames and returns none for so many milliseconds is dead; 0:
    /// it may keep them all.
    #[serde(default = "silent_ms")]
    pub silent_ms: u32,
    /// What becomes of frames without a function.
    #[serde(default)]
    pub all_down: AllDown,
    /// What is done with what has no flow.
    #[serde(default)]
    pub traffic: Traffic,
    /// The physical ports.
    #[serde(rename = "port")]
    pub ports: Vec<Port>,
    /// The network functions.
    #[serde(rename = "function")]
    pub functions: Vec<FunctionConfig>,
}

/// A network function.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionConfig {
    /// Its name.
    pub name: String,
    /// How it is attached.
    pub attach: Attachment,
    /// The core of its thread, for a function that is attached by `ring`; by default any.
    #[serde(default)]
    pub core: Option<u16>,
    /// How its frames are tagged.
    #[serde(default)]
    pub tagging: Tagging,
}

/// What the polling thread does without frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// It polls on.
    #[default]
    Spin,
    /// It sleeps for 50 microseconds at a time.
    Yield,
}

/// The algorithms by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// HNLB's own.
    #[default]
    Even,
    /// LASLB with all CPUs below the safe mark as targets.
    Max,
    /// LASLB with two targets and two moves.
    Low2,
    /// RSS++.
    Rsspp,
    /// DPDK's event_dsw.
    Dsw,
    /// Nothing moves: plain receive-side scaling.
    Rss,
}

impl Algorithm {
    fn kind(self) -> Kind {
        match self {
            Self::Even => Kind::Even,
            Self::Max => Kind::Max(Marks::default()),
            Self::Low2 => Kind::Low2(Marks::default()),
            Self::Rsspp => Kind::Rsspp,
            Self::Dsw => Kind::Dsw,
            Self::Rss => Kind::Still,
        }
    }
}

/// The orders by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderName {
    /// A bucket moves when none of its frames is away; after 1 ms its frames wait.
    #[default]
    Idle,
    /// New frames of the bucket wait until all before them are back.
    Drain,
    /// At once, as in the thesis: frames may overtake others.
    Instant,
}

impl OrderName {
    fn order(self) -> Order {
        match self {
            Self::Idle => Order::default(),
            Self::Drain => Order::Drain { hold_ns: 5_000_000, held: 256 },
            Self::Instant => Order::Instant,
        }
    }
}

fn socket() -> PathBuf {
    PathBuf::from("/run/hnlb/nf.status")
}

const fn memory_mb() -> u32 {
    128
}

const fn buckets() -> u16 {
    32
}

const fn trigger_us() -> u32 {
    2000
}

const fn alpha() -> u16 {
    64
}

const fn silent_ms() -> u32 {
    500
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It can't be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or has keys and values that there aren't; with line and column.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// Two things have one name.
    #[error("two {what}s are called '{name}'")]
    Twice {
        /// Ports or functions.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A pair names what isn't there.
    #[error("pairs: there is no port '{0}'")]
    NoPort(String),
    /// A port can't have an emulated NIC here.
    #[error("port '{0}': [port.nic] is of the load balancer; a middlebox's ports have none")]
    EmulatedNic(String),
    /// The pairs are no streams.
    #[error("pairs: {0}")]
    Streams(#[from] nf::StreamError),
    /// The weight isn't one.
    #[error("alpha = {0}; it is a number of 256ths, 1 to 256")]
    Alpha(u16),
    /// The balancer's numbers.
    #[error("buckets, map and functions: {0}")]
    Settings(#[from] nf::SettingsError),
    /// The process of the function has its own core.
    #[error(
        "function '{0}': core is for functions that are attached by 'ring'; start its process on the core"
    )]
    Core(String),
    /// Two functions have one socket.
    #[error("functions '{one}' and '{other}' are attached to the same {attach}")]
    SameAttachment {
        /// The first.
        one: String,
        /// The second.
        other: String,
        /// The attachment.
        attach: String,
    },
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong and where.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let config: Self = toml::from_str(&text).map_err(|source| ConfigError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        unique("port", self.ports.iter().map(|port| &port.name))?;
        unique("function", self.functions.iter().map(|function| &function.name))?;
        if let Some(port) = self.ports.iter().find(|port| port.nic.is_some()) {
            return Err(ConfigError::EmulatedNic(port.name.clone()));
        }
        for (at, function) in self.functions.iter().enumerate() {
            let inside = function.attach == Attachment::Ring;
            if function.core.is_some() && !inside {
                return Err(ConfigError::Core(function.name.clone()));
            }
            let before = self.functions.iter().take(if inside { 0 } else { at });
            if let Some(one) = before.into_iter().find(|one| one.attach == function.attach) {
                return Err(ConfigError::SameAttachment {
                    one: one.name.clone(),
                    other: function.name.clone(),
                    attach: function.attach.to_string(),
                });
            }
        }
        // The middlebox itself checks the numbers.
        nf::Middlebox::<packet::HeapPacket>::new(self.settings()?)?;
        Ok(())
    }

    /// The settings of the middlebox.
    ///
    /// # Errors
    /// Pairs and numbers that can't be.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let number = |name: &String| {
            let at = self.ports.iter().position(|port| port.name == *name);
            at.map(|at| at as u8).ok_or_else(|| ConfigError::NoPort(name.clone()))
        };
        let pairs = self.pairs.iter().map(|(one, other)| Ok((number(one)?, number(other)?)));
        let pairs = pairs.collect::<Result<Vec<_>, ConfigError>>()?;
        Ok(Settings {
            streams: Streams::new(self.ports.len(), &pairs)?,
            functions: self.functions.iter().map(|function| function.tagging).collect(),
            balance: Balance {
                cpus: self.functions.len() as u16,
                buckets: self.buckets,
                algorithm: self.algorithm.kind(),
                order: self.order.order(),
                trigger_ns: u64::from(self.trigger_us) * 1000,
                alpha: Alpha::new(self.alpha).ok_or(ConfigError::Alpha(self.alpha))?,
            },
            map: self.map.clone(),
            hash: self.hash,
            stamp: self.stamp,
            traffic: self.traffic,
            silence: Silence {
                silent_ns: (self.silent_ms > 0).then_some(u64::from(self.silent_ms) * 1_000_000),
                ..Silence::default()
            },
            all_down: self.all_down,
        })
    }
}

fn unique<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), ConfigError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(ConfigError::Twice { what, name: name.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
pairs = [["a", "b"]]
[[port]]
name = "a"
device = "net_null0"
[[port]]
name = "b"
device = "net_null1"
[[function]]
name = "f"
attach = "vhost:/run/f.sock"
"#;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::load(file.path())
    }

    fn refusal(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        load(&GOOD.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn a_good_file_has_the_documented_defaults() {
        let config = load(GOOD).unwrap();
        let settings = config.settings().unwrap();
        assert_eq!((settings.balance.buckets, settings.balance.trigger_ns), (32, 2_000_000));
        assert_eq!(settings.silence.silent_ns, Some(500_000_000));
        assert_eq!(settings.all_down, AllDown::Drop);
    }

    #[test]
    fn a_bad_file_is_refused_with_the_place_and_what_would_be_right() {
        let table = [
            ("\"b\"]]", "\"c\"]]", "there is no port 'c'"),
            ("[[\"a\", \"b\"]]", "[]", "port 0 is in no pair"),
            ("name = \"b\"", "name = \"a\"", "two ports are called 'a'"),
            ("pairs =", "buckets = 0\npairs =", "0 buckets"),
            ("pairs =", "alpha = 300\npairs =", "1 to 256"),
            ("pairs =", "map = [1]\npairs =", "a map of 1 buckets"),
            ("pairs =", "algoritm = \"max\"\npairs =", "unknown field `algoritm`"),
            ("pairs =", "order = \"none\"\npairs =", "`idle`, `drain`, `instant`"),
            ("vhost:/run/f.sock", "vhost:f.sock", "a socket's path is absolute"),
        ];
        for (from, to, expected) in table {
            let error = refusal(from, to);
            assert!(error.contains(expected), "{to}: {error}");
        }
        let twice = format!("{GOOD}[[function]]\nname = \"g\"\nattach = \"vhost:/run/f.sock\"\n");
        assert!(load(&twice).unwrap_err().to_string().contains("'f' and 'g'"));
    }
}

//! Why a change is not made.
use std::fmt;
use std::net::IpAddr;

use crate::fixed::Difference;
use config::{ConfigError, ConfigErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 if it concerns the file as a whole.
    pub line: usize,
    /// The column, from 1; 0 if it concerns the file as a whole.
    pub column: usize,
    /// The key, as `service.web.vip`; empty if there is none.
    pub key: String,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Problem {
    /// A difference of which no file is known.
    pub(crate) fn at(difference: &Difference) -> Self {
        let names: Vec<String> = difference.way.iter().map(ToString::to_string).collect();
        let (file, key) = (String::new(), names.join("."));
        Self { file, line: 0, column: 0, key, text: difference.to_string() }
    }
}

impl From<&ConfigError> for Problem {
    fn from(error: &ConfigError) -> Self {
        Self {
            file: error.file.display().to_string(),
            line: error.line,
            column: error.column,
            key: error.key.clone(),
            text: error.text.clone(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.text)
    }
}

/// Why a request was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The request isn't one.
    #[error("the request is not understood: {0}")]
    Malformed(String),
    /// The client's user may only ask.
    #[error(
        "only root and the owner of the status socket ([status] owner), or a token of the role operator ([api] tokens), may change anything; all others may only ask"
    )]
    Forbidden,
    /// The client has shown no token, or none that is known.
    #[error(
        "a client over TCP needs a token of [api] tokens, in the header Authorization: Bearer TOKEN"
    )]
    NoToken,
    /// A page of another site asks, or asks under another name.
    #[error("{0}")]
    Foreign(String),
    /// The configuration is wrong.
    #[error("the configuration is refused, nothing has changed:\n{}", lines(.0))]
    Configuration(Vec<Problem>),
    /// The configuration wants what only a restart can bring.
    #[error("the configuration needs a restart, nothing has changed:\n{}", lines(.0))]
    NeedsRestart(Vec<Problem>),
    /// The configuration is right by itself, and can't be brought about.
    #[error("nothing has changed: {0}")]
    Impossible(String),
    /// What is asked can't be said now.
    #[error("{0}; ask again")]
    Busy(String),
    /// Connections can't be put in order by their rates.
    #[error(
        "the rates of connections are not measured: that is done to choose those for the NIC, with [offload] admission = \"heavy\" and a port whose encoding is not off"
    )]
    NotMeasured,
    /// One capture goes on at a time.
    #[error("{0}; ask again")]
    Capturing(String),
    /// The configuration is another one than the client takes it for.
    #[error(
        "nothing has changed: the configuration has the version {0} by now; read it, and ask again with that version"
    )]
    Outdated(u64),
    /// The service has no such backend.
    #[error("service '{service}' has no backend {backend}")]
    NoSuchBackend {
        /// The service's name.
        service: String,
        /// The address.
        backend: IpAddr,
    },
    /// There is no `[announce]`.
    #[error("the configuration has no [announce]: HNLB tells no router of its VIPs")]
    NoAnnounce,
    /// No capture has the number.
    #[error("there is no capture {0}; it has ended, and another one may have begun since")]
    NoCapture(u64),
    /// No service has the name.
    #[error("there is no service '{0}'")]
    NoService(String),
    /// The service has no such backend.
    #[error("service '{service}' has no backend {backend} with a weight")]
    NoBackend {
        /// The service's name.
        service: String,
        /// The address.
        backend: IpAddr,
    },
    /// The backend is as it should become.
    #[error(
        "backend {backend} of service '{service}' is {} already",
        if *.drained { "drained" } else { "serving" }
    )]
    Already {
        /// The service's name.
        service: String,
        /// The address.
        backend: IpAddr,
        /// Whether it is drained.
        drained: bool,
    },
}

impl From<ConfigErrors> for Refusal {
    fn from(errors: ConfigErrors) -> Self {
        Self::Configuration(errors.iter().map(Problem::from).collect())
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

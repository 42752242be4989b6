//! What became of requests, of services that read them.
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::FirstAnswers;

/// Responses by the class of their status code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResponseClasses {
    /// 101; other interim responses are not counted.
    #[serde(rename = "1xx")]
    pub informational: u64,
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub successful: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    pub server_error: u64,
}

impl From<[u64; 5]> for ResponseClasses {
    fn from(counts: [u64; 5]) -> Self {
        let [informational, successful, redirection, client_error, server_error] = counts;
        Self { informational, successful, redirection, client_error, server_error }
    }
}

impl ResponseClasses {
    /// Each class with its name and its count.
    #[must_use]
    pub const fn all(&self) -> [(&'static str, u64); 5] {
        [
            ("1xx", self.informational),
            ("2xx", self.successful),
            ("3xx", self.redirection),
            ("4xx", self.client_error),
            ("5xx", self.server_error),
        ]
    }

    /// All of them together.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        let Self { informational, successful, redirection, client_error, server_error } = self;
        *informational + *successful + *redirection + *client_error + *server_error
    }
}

/// The responses to requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestsStatus {
    /// Final responses of backends, as far as HNLB has read their headers.
    pub responses: ResponseClasses,
    /// The same by status code, as `200` and `404`; `4xx` stands for all of that class which
    /// have no count of their own. Codes without a response are left out.
    pub codes: BTreeMap<String, u64>,
    /// What HNLB has answered itself: errors, redirects, pages. Of a backend there is none.
    pub own: ResponseClasses,
    /// The same by status code.
    pub own_codes: BTreeMap<String, u64>,
    /// How soon responses came: from the departure of a request to the end of the
    /// response's header.
    pub first_bytes: FirstAnswers,
}

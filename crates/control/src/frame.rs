//! How requests and answers travel between the control thread and the process that
//! serves the control API: each is one line of JSON, and a number joins them.
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Refusal, Request};

/// Bytes of the longest request, its line end included.
pub const LONGEST_REQUEST: usize = 1 << 20;

/// A request with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The number, which its answer has, too.
    pub id: u64,
    /// The only version of the configuration that the request is meant for.
    pub version: Option<u64>,
    /// What is asked.
    pub request: Request,
}

/// An answer with the number of its request.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answered {
    /// The request's number.
    pub id: u64,
    /// The version of the configuration, which every change raises, and every start.
    pub version: u64,
    /// The outcome of the request; its kind says which JSON that is.
    pub answer: Result<Box<RawValue>, Refusal>,
}

impl Asked {
    /// The line.
    ///
    /// # Errors
    /// A path in it is no Unicode.
    pub fn line(&self) -> serde_json::Result<Vec<u8>> {
        line(self)
    }
}

impl Answered {
    /// The line of an answer to `id` while the configuration has `version`.
    ///
    /// # Errors
    /// A path in it is no Unicode.
    pub fn line(
        (id, version): (u64, u64),
        answer: &Result<Box<RawValue>, Refusal>,
    ) -> serde_json::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Lent<'a> {
            id: u64,
            version: u64,
            answer: &'a Result<Box<RawValue>, Refusal>,
        }
        line(&Lent { id, version, answer })
    }
}

fn line(frame: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(frame)?;
    line.push(b'\n');
    Ok(line)
}

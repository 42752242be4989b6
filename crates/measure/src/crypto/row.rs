//! One measured figure.
use serde::{Deserialize, Serialize};

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The server's side of handshakes.
    Handshake,
    /// Records sealed, nothing else.
    Symmetric,
    /// Records of established connections beside handshakes.
    Split,
    /// Requests over an end point of TCP, records included.
    Endpoint,
}

/// One measured figure, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub what: What,
    /// What did the work: `rustls`, `aws-lc-rs` (in place, in the worker's own
    /// code), a crypto device of DPDK, for [`What::Split`] the handshakes'
    /// place, `same-core` or `other-core`, or for [`What::Endpoint`] who does TCP.
    pub engine: String,
    /// The algorithms.
    pub algorithm: String,
    /// Bytes of a record's text, or of a response; 0 for handshakes.
    pub bytes: usize,
    /// Handshakes, records or requests in a second of one core; for [`What::Split`]
    /// the records sealed in a second.
    pub per_s: f64,
    /// Text sealed, in Gbit/s; null for handshakes.
    pub gbps: Option<f64>,
    /// The 50th percentile, in microseconds, of what `p99_us` is of.
    pub p50_us: f64,
    /// The 99th percentile in microseconds: of the server's time for a
    /// handshake, of the time for a burst of 32 records, of the time from when a
    /// record is due to when it is sealed, or of the time for 16 requests.
    pub p99_us: f64,
    /// The 99.9th percentile in microseconds.
    pub p999_us: f64,
    /// Handshakes that arrived in a second while records were sealed; null
    /// elsewhere.
    pub handshakes_per_s: Option<f64>,
    /// Repetitions behind the medians.
    pub repetitions: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_published_form() {
        let row = Row {
            what: What::Symmetric,
            engine: "rustls".to_owned(),
            algorithm: "AES-128-GCM".to_owned(),
            bytes: 1500,
            per_s: 2.0,
            gbps: None,
            p50_us: 1.0,
            p99_us: 3.0,
            p999_us: 4.0,
            handshakes_per_s: None,
            repetitions: 1,
        };
        let text = serde_json::to_string(&row).unwrap();
        assert!(text.starts_with(
            r#"{"what":"symmetric","engine":"rustls","algorithm":"AES-128-GCM","bytes":1500,"per_s":2.0,"gbps":null,"p50_us":1.0,"p99_us":3.0,"#
        ));
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}

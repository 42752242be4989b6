//! One measured point.
use serde::Serialize;

/// One point of one figure, from one repetition. The first nine fields are
/// those of the published format.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The paper's figure, 4 to 8.
    pub figure: u8,
    /// The name of a [`System`](crate::System).
    pub system: &'static str,
    /// Concurrent connections.
    pub connections: u64,
    /// Bytes of a frame on the wire, check sequence included.
    pub packet_size: u16,
    /// Million packets that the load balancer took in a second.
    pub mpps: f64,
    /// Nanoseconds of the measured core per packet, in iterations that found packets.
    pub ns_per_packet: f64,
    /// The paper's util, 0 to 1.
    pub util: f64,
    /// The paper's util+, 0 to 1.
    pub util_plus: f64,
    /// Share of the offered packets that found their receive ring full.
    pub loss: f64,
    /// Million packets offered in a second; `None` in a saturation run, whose
    /// source waits for room.
    pub offered_mpps: Option<f64>,
    /// Share of polls that found nothing.
    pub empty_polls: f64,
    /// Counted from 0.
    pub repetition: u32,
    /// How connections are drawn: `uniform`, `zipf-1.0`, `zipf-1.2`.
    pub traffic: &'static str,
    /// Share of the packets that the NIC has matched.
    pub matched: f64,
    /// Packets that entered the load balancer and did not leave it.
    pub dropped: u64,
    /// Share of the time that other processes had on the measured core; not
    /// part of any other field.
    pub stolen: f64,
}

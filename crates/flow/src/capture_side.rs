//! Which side of the load balancer a capture shows.
use crate::word::words;

words! {
    /// Which side of the load balancer a capture shows.
    #[derive(Default)]
    CaptureSide: "side" {
        /// Packets as they come in.
        Before => "before",
        /// Packets as they leave.
        After => "after",
        /// Both: each packet as it comes in, and behind it what leaves because of it.
        #[default]
        Both => "both",
    }
}

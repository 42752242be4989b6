//! Which connections get an entry in the NIC.
use crate::word::words;

words! {
    /// Which connections get an entry in the NIC's match table.
    #[derive(Default)]
    AdmissionPolicy: "admission policy" {
        /// Established connections with the highest measured packet rates; heavier connections displace lighter ones.
        #[default]
        Heavy => "heavy",
        /// Every connection once both sides have sent packets, first come first served, so that scans and floods do not fill the table.
        All => "all",
        /// Every connection from its first packet on, first come first served.
        FirstPacket => "first-packet",
        /// No connection.
        Off => "off",
    }
}

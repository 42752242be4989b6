//! Packets in and out, by direction: what went in must come out.

/// Where packets of one measurement have been seen. Those of a direction enter
/// at one port, clients' at the first and backends' at the second, and leave
/// by the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketCounts {
    /// By the port where they should enter: put into rings, or lost.
    pub(crate) offered: [u64; 2],
    /// By the port where they should enter: their ring was full.
    pub(crate) lost: [u64; 2],
    /// By the port that they left by: came back to the source.
    pub(crate) returned: [u64; 2],
}

impl PacketCounts {
    /// `packets` of those offered at `port` found their ring full; `excused`:
    /// they are taken back as if they had never been offered.
    pub(crate) fn lose(&mut self, port: usize, packets: u64, excused: bool) {
        let side = usize::from(port != 0);
        if excused {
            self.offered[side] = self.offered[side].saturating_sub(packets);
        } else {
            self.lost[side] += packets;
        }
    }

    /// By direction, packets that entered and never left. `before` were still
    /// in front of the load balancer at the end, by the port where they would
    /// have entered; `behind` it, by the port that they had left by.
    pub(crate) fn dropped(&self, before: [u64; 2], behind: [u64; 2]) -> [u64; 2] {
        let [there, back] = [0, 1].map(|enters: usize| {
            let leaves = 1 - enters;
            let seen = self.lost[enters] + before[enters] + self.returned[leaves] + behind[leaves];
            self.offered[enters].saturating_sub(seen)
        });
        [there, back]
    }

    /// Share of the offered packets that were lost.
    pub(crate) fn loss(&self) -> f64 {
        let [offered, lost] = [self.offered, self.lost].map(|ports| ports.iter().sum::<u64>());
        if offered == 0 { 0.0 } else { lost as f64 / offered as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_do_not_hide_each_others_packets() {
        let packet_counts = PacketCounts { offered: [100, 50], lost: [3, 0], returned: [40, 90] };
        assert_eq!(packet_counts.dropped([4, 5], [5, 3]), [0, 0]);
        assert_eq!(packet_counts.dropped([4, 5], [5, 1]), [2, 0]);
        // Seven replies are missing; as many requests too many are no remedy.
        let packet_counts = PacketCounts { returned: [33, 97], ..packet_counts };
        assert_eq!(packet_counts.dropped([4, 5], [5, 3]), [0, 7]);
        assert_eq!(packet_counts.loss(), 3.0 / 150.0);
        assert_eq!(PacketCounts::default().loss(), 0.0);
    }

    #[test]
    fn excused_packets_were_never_offered() {
        let mut packet_counts =
            PacketCounts { offered: [100, 50], lost: [0, 0], returned: [48, 90] };
        packet_counts.lose(0, 7, false);
        packet_counts.lose(0, 3, true);
        packet_counts.lose(1, 2, true);
        assert_eq!((packet_counts.offered, packet_counts.lost), ([97, 48], [7, 0]));
        assert_eq!(packet_counts.dropped([0; 2], [0; 2]), [0, 0]);
    }
}

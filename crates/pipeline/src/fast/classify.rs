//! First pass: what the NIC reported for each packet.
//!
//! Next: `look_up` for packets of which the NIC reported nothing, `serve` for
//! all others.
use conntrack::Hit;
use packet::PacketBuf;
use state::PortShared;

use crate::context::Context;
use crate::fast::queue_rewrite::Meaning;
use crate::verdict::{Family, Verdict, Verdicts};

/// Reads mark and queue of each packet. This pass touches no frame, but fetches the
/// frames and the connections that marks name, which the third pass reads a burst's
/// time later. Returns how many packets have no verdict.
#[inline(always)]
pub(crate) fn classify<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    port: &PortShared,
    queue: Meaning,
    burst: &[B],
    verdicts: &mut Verdicts,
) -> usize {
    let by_queue = matches!(queue, Meaning::Fast(_));
    let is_v6 = queue == Meaning::Fast(Family::V6);
    let unmarked = if by_queue { Verdict::Queued } else { Verdict::Unknown };
    let mut unknown = 0;
    for (buf, verdict) in burst.iter().zip(verdicts.iter_mut()) {
        buf.prefetch();
        if is_v6 {
            buf.prefetch_further();
        }
        let mark = buf.mark();
        *verdict = match mark.and_then(|mark| port.marks.get(mark)) {
            Some(marked) => {
                cx.shared.table().prefetch(marked.conn);
                if marked.conn.is_v6() {
                    buf.prefetch_further();
                }
                Verdict::Marked(Hit { conn: marked.conn, direction: marked.direction })
            }
            None => match mark.and_then(|mark| port.queues.tag(mark)) {
                Some(tag) => Verdict::Shared(tag),
                None => {
                    unknown += usize::from(!by_queue);
                    unmarked
                }
            },
        };
    }
    unknown
}

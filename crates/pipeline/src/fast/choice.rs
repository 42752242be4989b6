//! New connections whose backend is chosen: each is put into the table, or refused
//! there and served without state, and its first packet is forwarded.
//!
//! Next: out, or the slow path.
use arrayvec::ArrayVec;
use conntrack::{FastKey, Key, PreparedInsert};
use flow::{Account, AdmissionPolicy, Direction};
use packet::PacketBuf;
use service::FirstAnswer;
use state::Counter;
use wire::FastHeader;

use crate::Outbox;
use crate::context::Context;
use crate::fast::{Link, Outcome};
use crate::next_hop_cache::NextHop;
use crate::offload_requests::{measure, want};
use crate::pipeline::BURST;
use crate::refusals::Refused;

/// How many insertions ahead the first cache lines of one are there, most likely.
const NEAR: usize = 8;

/// The connection that is inserted, and where its packet goes.
#[derive(Debug)]
pub(super) struct Choice<const K: usize> {
    conn: PreparedInsert<K>,
    hop: NextHop,
}

impl<const K: usize> Choice<K> {
    /// Inserts `conn`, and sends its first packet to `hop`.
    #[inline(always)]
    pub(super) const fn new(conn: PreparedInsert<K>, hop: NextHop) -> Self {
        Self { conn, hop }
    }
}

/// The choices of a burst, of one family.
pub(super) type Choices<const K: usize> = ArrayVec<Choice<K>, BURST>;

/// Opens the connection of choice `number`, if `enter` lets it, and forwards its
/// first packet.
#[inline(always)]
pub(super) fn open_as<const K: usize, const TAGGED: bool, B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    link: Link<'_, TAGGED>,
    choices: &Choices<K>,
    number: u8,
    enter: impl FnOnce(&mut Context<'_, O>, &PreparedInsert<K>) -> bool,
    buf: &mut B,
) -> Outcome
where
    Key<K>: FastKey<K>,
{
    let Some(Choice { conn, hop }) = choices.get(usize::from(number)) else {
        return Outcome::Left(None);
    };
    // The first cache lines of a choice this near have arrived, and may point to more
    // of the table.
    if let Some(near) = choices.get(usize::from(number) + NEAR) {
        cx.shared.table().prefetch_further(&near.conn);
    }
    if !enter(cx, conn) {
        return Outcome::Left(Some(conn.backend()));
    }
    let account = Account { backend: conn.backend(), direction: Direction::Forward };
    let rewritten = |_: &FastHeader<K>, _| Some((conn.rewrite(), hop, account));
    let outcome = match conn.tunnel() {
        None => link.forward(buf, Link::again, rewritten),
        Some(_) => {
            let read = link.again::<K>(buf.bytes());
            read.map_or(Outcome::Left(None), |read| link.enter_tunnel(buf, read, account, hop))
        }
    };
    match outcome {
        Outcome::Forwarded(_) => {
            cx.count(Counter::Missed);
            cx.count(Counter::ForwardedPackets);
            outcome
        }
        Outcome::Left(_) => Outcome::Left(Some(conn.backend())),
    }
}

/// Puts the connection into the table; `false`: another entry was in the way.
#[inline]
pub(super) fn insert<const K: usize, B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    conn: &PreparedInsert<K>,
    first_answer: FirstAnswer,
) -> bool
where
    Key<K>: FastKey<K>,
{
    let Ok(id) = cx.shared.table().insert_prepared(conn, cx.now_ms) else {
        cx.shared.loads().closed(conn.backend());
        return false;
    };
    cx.count(Counter::Installed);
    cx.counts.opened(conn.backend());
    if first_answer != FirstAnswer::Unseen {
        measure(cx, id, conn.backend(), first_answer);
    }
    if cx.snapshot.admit == AdmissionPolicy::FirstPacket {
        want(cx, id);
    }
    true
}

/// Counts a packet that is sent on without state; `false`: its answers would be
/// taken for those of another connection.
#[inline]
pub(super) fn pass<const K: usize, O>(
    cx: &mut Context<'_, O>,
    conn: &PreparedInsert<K>,
    why: Refused,
) -> bool
where
    Key<K>: FastKey<K>,
{
    let fits = !cx.shared.table().conflicts(conn);
    if fits {
        cx.count(why.counter());
        cx.count(Counter::Stateless);
    }
    fits
}

//! The word of a record that changes: generation, state, offload state.
use flow::Direction;

use crate::offload::OffloadState;
use crate::state::TcpState;

/// One word, changed only by compare-and-swap, so that a change meant for one
/// connection never lands on the record's next one.
///
/// From the top: 32 bits generation; then from bit 0: live, 4 bits state,
/// 4 bits state before a reset, 2 bits offload state, and a bit for each
/// direction that says what the state says, of a life that isn't ended: whether
/// it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life(u64);

const LIVE: u64 = 1;
const STATE: u32 = 1;
const FORMER: u32 = 5;
const OFFLOAD: u32 = 9;
const SETTLED: u32 = 11;

impl Life {
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// The life of the next connection in a record whose last one had `self`.
    #[inline]
    pub(crate) const fn next(self, state: TcpState, one_way: bool) -> Self {
        // 0 stays the mark of records that were never used.
        let generation = match self.generation() {
            u32::MAX => 1,
            before => before + 1,
        };
        Self((generation as u64) << 32 | LIVE).with_state(state, one_way)
    }

    /// The same generation before its birth.
    pub(crate) const fn unborn(self) -> Self {
        Self(self.0 >> 32 << 32)
    }

    /// The same life, ended: nothing is settled any more.
    pub(crate) const fn ended(self) -> Self {
        Self(self.0 & !(LIVE | 3 << SETTLED))
    }

    pub(crate) const fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// How many connections the record has had, modulo 2^32.
    pub(crate) const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) const fn state(self) -> TcpState {
        TcpState::from_parts((self.0 >> STATE) as u8 & 15, (self.0 >> FORMER) as u8 & 15)
    }

    /// Whether both ends have spoken and none has ended it: then only SYN, FIN
    /// and RST can change anything.
    pub(crate) const fn is_open(self) -> bool {
        TcpState::is_open((self.0 >> STATE) as u8 & 15)
    }

    /// Whether the life isn't ended and a packet of `direction` without SYN, FIN
    /// and RST changes nothing.
    #[inline(always)]
    pub(crate) const fn is_settled(self, direction: Direction) -> bool {
        self.0 & (1 << SETTLED << (direction as u32 & 1)) != 0
    }

    /// The same life in `state`, of a connection whose answers go past the load
    /// balancer if it is `one_way`.
    #[inline]
    pub(crate) const fn with_state(self, state: TcpState, one_way: bool) -> Self {
        let (now, former) = state.parts();
        let rest = self.0 & !(15 << STATE | 15 << FORMER | 3 << SETTLED);
        let forward = (TcpState::settled(Direction::Forward, one_way) >> now & 1) as u64;
        let reply = (TcpState::settled(Direction::Reply, one_way) >> now & 1) as u64;
        let settled = (forward | reply << 1) << SETTLED;
        Self(rest | (now as u64) << STATE | (former as u64) << FORMER | settled)
    }

    pub(crate) const fn offload(self) -> OffloadState {
        OffloadState::from_bits((self.0 >> OFFLOAD) as u8)
    }

    pub(crate) const fn with_offload(self, state: OffloadState) -> Self {
        Self(self.0 & !(3 << OFFLOAD) | (state as u64) << OFFLOAD)
    }
}

//! The steady state: what a fast path needs to translate a connection's segments without
//! the machine, as long as no header can begin and nothing is replaced (message M8).
//!
//! A segment is translated in place. It is taken as hosts send nearly all of them: no
//! options, or timestamps, selective acknowledgements or both in their usual places; every
//! other segment is the machine's, which gives the same bytes.
use crate::clocks::Clocks;
use crate::connection::{Conn, Reading, State};
use crate::edits::before;
use crate::options::Stamps;
use crate::segment::{ACK, ECN, FIN, RST, SYN};

/// Bytes of a TCP header without options.
const HEADER: usize = wire::tcp::LEN;
/// Bytes of the options of a segment, at most.
const OPTIONS: u16 = 40;

/// Numbers of a spliced connection. Addresses and ports are beside them, in
/// [`Passage`](crate::Passage).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    /// What is added to the client's sequence numbers.
    up: u32,
    /// What is added to the backend's sequence numbers.
    down: u32,
    clocks: Clocks,
    /// The first of the client's bytes that may not pass, in the client's numbers, and the
    /// first of the backend's, in the backend's.
    limit: u32,
    response_limit: u32,
    /// What the client has acknowledged, and the backend of the client's bytes.
    acked: u32,
    received: u32,
    /// The client's last window field, and the last that it was told.
    window: u16,
    told: u16,
    /// Options and data of a segment that the backend takes, in bytes.
    longest: u16,
    /// The shift of the client's windows, and the backend's and the granted shift.
    shifts: [u8; 3],
    congestion: u8,
    may: Abilities,
}

/// What the two sides have agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Abilities {
    /// The client's bytes, and the backend's, are of another protocol, or are not read: no
    /// header ever begins.
    all: [bool; 2],
    /// SACK, by the backend and by the client.
    sack: [bool; 2],
    timestamps: bool,
    ecn: bool,
}

const _: () = assert!(size_of::<Steady>() <= 64, "the entry of a plain splice");

/// Why a segment is the machine's. It was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// A SYN, FIN or RST, no ACK, or a sign of congestion that was not agreed to.
    Control,
    /// The next header of a request or a response may begin in it.
    Header,
    /// It is longer than the backend takes.
    TooLong,
    /// Its options are in unusual places, or were not agreed to.
    Options,
    /// It is no whole TCP segment.
    Malformed,
}

impl Steady {
    /// The entry of a connection, if nothing of it needs the machine.
    pub(crate) fn of(conn: &Conn) -> Option<Self> {
        let told = conn.server_window?;
        let quiet = conn.state == State::Open
            && conn.edits.open().is_empty()
            && conn.block.is_none()
            && conn.owned.is_none()
            && conn.body == 0
            && conn.reading != Reading::Upgrade
            && conn.down.edits.open().is_empty()
            && conn.down.block.is_none()
            && conn.down.owned.is_none()
            && conn.ended == [false; 2];
        // What only one side knows takes more than adding numbers.
        let alike = conn.granted.timestamps == conn.server.timestamps
            && conn.granted.ecn == conn.server.ecn;
        if !quiet || !alike {
            return None;
        }
        let client_shift = match (conn.granted.scale, conn.server.scale, conn.offer.scale) {
            (Some(_), None, Some(shift)) => shift,
            _ => 0,
        };
        let [server, granted] = [conn.server.scale, conn.granted.scale];
        let all = [conn.reading == Reading::All, conn.blind || conn.responses.is_all()];
        // The machine sees the last byte of a response that is logged.
        let (limit, last) = (conn.response_limit(), conn.log_end.map(|end| end.wrapping_sub(1)));
        let response_limit = last.filter(|last| before(*last, limit)).unwrap_or(limit);
        let steady = Self {
            up: conn.edits.forward(0),
            down: conn.to_agent(0),
            clocks: conn.clocks,
            limit: conn.limit(),
            // It says nothing about bytes that are not read.
            response_limit: if all[1] { 0 } else { response_limit },
            acked: conn.acked,
            received: conn.received,
            window: conn.window,
            told,
            longest: conn.server.longest(),
            shifts: [client_shift, server.unwrap_or(0), granted.unwrap_or(0)],
            congestion: conn.congestion,
            may: Abilities {
                all,
                sack: [conn.server.sack, conn.granted.sack],
                timestamps: conn.server.timestamps,
                ecn: conn.server.ecn,
            },
        };
        Some(if conn.loan.is_some() { steady.lent() } else { steady })
    }

    /// Whether the backend's selective acknowledgements have other numbers than the client's.
    pub(crate) const fn is_fragile(&self) -> bool {
        let [sack, _] = self.may.sack;
        sack && self.up != 0
    }

    /// What is added to the sequence and acknowledgement numbers of the backend's segments,
    /// if nothing else of them changes but selective acknowledgements.
    pub(crate) const fn added(&self) -> Option<[u32; 2]> {
        let Self { up, down, clocks, shifts: [_, server, granted], may, .. } = *self;
        let same_clock = !may.timestamps || clocks.to_client().value == 0;
        if same_clock && server == granted { Some([down, up.wrapping_neg()]) } else { None }
    }

    /// The same for a connection of which a card sends on the backend's segments. It would not
    /// translate the selective acknowledgements with which the backend answers bytes that it
    /// has already, so that the machine has to see the client's.
    const fn lent(self) -> Self {
        if self.is_fragile() { Self { longest: OPTIONS, ..self } } else { self }
    }

    /// Tells the connection what the fast path has seen.
    pub(crate) const fn give_back(&self, conn: &mut Conn) {
        (conn.acked, conn.received) = (self.acked, self.received);
        (conn.window, conn.server_window) = (self.window, Some(self.told));
        (conn.congestion, conn.clocks) = (self.congestion, self.clocks);
    }

    /// Translates a client's segment, which begins with its TCP header, for the backend.
    /// Returns what must be added to the complement of the TCP checksum, in the order of
    /// bytes in memory.
    ///
    /// # Errors
    /// The segment leaves the steady state.
    #[inline]
    pub(crate) fn translate_up(&mut self, segment: &mut [u8]) -> Result<u16, Leave> {
        let length = segment.len();
        let (header, options, data) = self.parts(segment)?;
        let end = get(header, 4).wrapping_add(data as u32);
        let [all, _] = self.may.all;
        if !all && before(self.limit, end) {
            return Err(Leave::Header);
        }
        if length - HEADER > self.longest.into() {
            return Err(Leave::TooLong);
        }
        let [sack, _] = self.may.sack;
        let found = Found::in_options(options, sack, self.may.timestamps)?;
        let stamps = found.stamps(options).unwrap_or_default();
        if found.stamps.is_some() {
            self.clocks.see_client(stamps);
        }
        self.congestion = header[13] & ECN;
        let (acknowledgement, window) = (get(header, 8), window(header));
        if !before(acknowledgement, self.acked) {
            (self.acked, self.window) = (acknowledgement, window);
        }
        let [shift, ..] = self.shifts;
        let mut sum = Sum::default();
        sum.add(header, 4, self.up);
        sum.add(header, 8, self.down.wrapping_neg());
        if shift > 0 {
            let wide = u32::from(window) << shift;
            sum.set_window(header, u16::try_from(wide).unwrap_or(u16::MAX));
        }
        found.change(options, self.clocks.to_server(stamps.echo), self.down, &mut sum);
        Ok(sum.folded())
    }

    /// Translates a backend's segment for the client, as [`Self::translate_up`] does for the
    /// other direction.
    ///
    /// # Errors
    /// The segment leaves the steady state.
    #[inline]
    pub(crate) fn translate_down(&mut self, segment: &mut [u8]) -> Result<u16, Leave> {
        let (header, options, data) = self.parts(segment)?;
        let end = get(header, 4).wrapping_add(data as u32);
        let [_, all] = self.may.all;
        if !all && before(self.response_limit, end) {
            return Err(Leave::Header);
        }
        let [_, sack] = self.may.sack;
        let found = Found::in_options(options, sack, self.may.timestamps)?;
        if let Some(stamps) = found.stamps(options) {
            self.clocks.see_server(stamps);
        }
        let received = get(header, 8).wrapping_sub(self.up);
        if before(self.received, received) && !before(self.limit, received) {
            self.received = received;
        }
        let [_, server, granted] = self.shifts;
        let announced = u32::from(window(header)) << server;
        // A window that is open stays open, however little of it is left by the scale.
        let scaled = (announced >> granted).max(u32::from(announced > 0));
        self.told = u16::try_from(scaled).unwrap_or(u16::MAX);
        let mut sum = Sum::default();
        sum.add(header, 4, self.down);
        sum.add(header, 8, self.up.wrapping_neg());
        sum.set_window(header, self.told);
        found.change(options, self.clocks.to_client(), self.up, &mut sum);
        Ok(sum.folded())
    }

    /// Header, options and length of the data of a segment that the machine does not want
    /// for its flags.
    #[inline(always)]
    fn parts<'a>(
        &self,
        segment: &'a mut [u8],
    ) -> Result<(&'a mut [u8; HEADER], &'a mut [u8], usize), Leave> {
        let (header, rest) = segment.split_first_chunk_mut().ok_or(Leave::Malformed)?;
        let flags = header[13];
        if flags & (SYN | FIN | RST | ACK) != ACK || (!self.may.ecn && flags & ECN != 0) {
            return Err(Leave::Control);
        }
        let length = usize::from(header[12] >> 4) * 4;
        let options = length.checked_sub(HEADER).ok_or(Leave::Malformed)?;
        let (options, data) = rest.split_at_mut_checked(options).ok_or(Leave::Malformed)?;
        Ok((header, options, data.len()))
    }
}

#[inline(always)]
fn get(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_be_bytes(word.copied().unwrap_or_default())
}

#[inline(always)]
const fn window(header: &[u8; HEADER]) -> u16 {
    u16::from_be_bytes([header[14], header[15]])
}

/// The change of a checksum, taken over words in the order of memory (RFC 1071 section 2).
/// It begins with the ones' complement zero that is not all zeros, so that it never is.
struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xffff)
    }
}

impl Sum {
    /// Adds to the number at the even place `at`.
    #[inline(always)]
    fn add(&mut self, bytes: &mut [u8], at: usize, by: u32) {
        let Some(word) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) else {
            return;
        };
        let old = u32::from_ne_bytes(*word);
        let new = u32::from_be(old).wrapping_add(by).to_be();
        self.0 += u64::from(!old) + u64::from(new);
        *word = new.to_ne_bytes();
    }

    #[inline(always)]
    fn set_window(&mut self, header: &mut [u8; HEADER], window: u16) {
        let old = u16::from_ne_bytes([header[14], header[15]]);
        let new = window.to_be();
        self.0 += u64::from(!old) + u64::from(new);
        [header[14], header[15]] = new.to_ne_bytes();
    }

    #[inline(always)]
    const fn folded(&self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 32) + (sum & 0xffff_ffff);
        wire::checksum::fold(sum as u32)
    }
}

/// Where the options of a segment are that must be changed.
#[derive(Clone, Copy, Default)]
struct Found {
    /// The two numbers of the timestamps.
    stamps: Option<usize>,
    /// The first selective acknowledgement; the last ends with the options.
    blocks: Option<usize>,
}

impl Found {
    /// In the forms of RFC 7323 appendix A and RFC 2018, and with the padding behind the
    /// timestamps.
    #[inline(always)]
    fn in_options(options: &[u8], sack: bool, timestamps: bool) -> Result<Self, Leave> {
        let found = match *options {
            [] => return Ok(Self::default()),
            [1, 1, 8, 10, _, _, _, _, _, _, _, _, ref rest @ ..] => {
                Self { stamps: Some(4), blocks: blocks(rest, 12)? }
            }
            [8, 10, _, _, _, _, _, _, _, _, 0 | 1, 0 | 1] => Self { stamps: Some(2), blocks: None },
            _ => Self { stamps: None, blocks: blocks(options, 0)? },
        };
        let agreed = (timestamps || found.stamps.is_none()) && (sack || found.blocks.is_none());
        if agreed { Ok(found) } else { Err(Leave::Options) }
    }

    #[inline(always)]
    fn stamps(self, options: &[u8]) -> Option<Stamps> {
        let at = self.stamps?;
        Some(Stamps { value: get(options, at), echo: get(options, at + 4) })
    }

    #[inline(always)]
    fn change(self, options: &mut [u8], added: Stamps, less: u32, sum: &mut Sum) {
        if let Some(at) = self.stamps {
            sum.add(options, at, added.value);
            sum.add(options, at + 4, added.echo);
        }
        if let Some(first) = self.blocks {
            for at in (first..options.len()).step_by(4) {
                sum.add(options, at, less.wrapping_neg());
            }
        }
    }
}

/// Where the selective acknowledgements are in the options `rest`, which stand at `at` of
/// all; `None`: there are no options any more.
#[inline(always)]
fn blocks(rest: &[u8], at: usize) -> Result<Option<usize>, Leave> {
    match *rest {
        [] => Ok(None),
        [1, 1, 5, length, ref edges @ ..]
            if usize::from(length) == edges.len() + 2
                && edges.len() % 8 == 0
                && edges.chunks_exact(8).all(|edges| !before(get(edges, 4), get(edges, 0))) =>
        {
            Ok(Some(at + 4))
        }
        _ => Err(Leave::Options),
    }
}

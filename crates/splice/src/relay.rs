//! An open connection: packets are changed and go on (messages M6 to M9).
use arrayvec::ArrayVec;
use packet::PacketBuf;
use wire::Headers;

use crate::agent::Common;
use crate::connection::{Conn, Reading, State};
use crate::edits::{Edit, before};
use crate::framing::{BadChunk, Chunked};
use crate::options::{Change, MAX_OPTIONS};
use crate::request::{Body, Request};
use crate::segment::{ACK, CWR, FIN, Outline, PSH, RST, Received, SYN, clear_ecn};
use crate::world::{Event, Fate, World};

/// Of a body's bytes so many may pass unread at once, so that numbers can be compared.
pub(crate) const STRETCH: u32 = 1 << 30;

/// How often the agent repeats what it has acknowledged itself.
const REPEAT_MS: u64 = 400;

impl Conn {
    /// A segment of the client's to its backend, at the client's number `sequence`.
    pub(crate) fn to_backend(&self, sequence: u32, flags: u8) -> Option<Outline> {
        Some(Outline {
            src: self.client(),
            dst: self.backend?,
            sequence: self.edits.forward(sequence),
            acknowledgement: self.acked.wrapping_sub(self.delta()),
            flags: self.flags(flags | self.congestion),
            window: self.window_to_backend(self.window),
        })
    }

    /// Goes behind a header: how many of the bytes `rest` behind it belong to the
    /// request, and how those that are still to come are read.
    pub(crate) fn enter(&mut self, request: &Request<'_>, rest: &[u8]) -> Result<usize, BadChunk> {
        let taken = match request.body {
            Body::Length(length) => {
                let taken = length.min(rest.len() as u64);
                self.body = length - taken;
                self.reading = Reading::Header;
                taken as usize
            }
            Body::Chunked => {
                let mut chunked = Chunked::default();
                let taken = chunked.read(rest)?;
                self.reading = match chunked.is_done() {
                    true => Reading::Header,
                    false => Reading::Chunked(chunked),
                };
                taken
            }
        };
        if request.upgrades {
            self.reading = Reading::Upgrade;
        }
        Ok(taken)
    }

    /// What the client is told to have arrived: never less than the agent has told it.
    fn known(&self, received: u32) -> u32 {
        match self.owned {
            Some(owned) if before(received, owned) => owned,
            _ => received,
        }
    }

    /// Lets the next stretch of a body pass.
    fn stretch(&mut self, sequence: u32) {
        if self.body > 0 {
            let ahead = self.next.wrapping_sub(sequence).min(STRETCH);
            let more = self.body.min(u64::from(STRETCH - ahead));
            self.next = self.next.wrapping_add(more as u32);
            self.body -= more;
        }
    }
}

impl Common {
    /// Makes of the headers in the block what the backend gets, and sends that. `false`:
    /// nothing was sent.
    pub(crate) fn read_block<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> bool {
        let mut sent = false;
        while conn.reading == Reading::Header && !conn.edits.is_full() && !conn.responses.is_full()
        {
            if !self.stays(conn, world) {
                break;
            }
            let start = conn.limit();
            let Some(mut out) = self.blocks.get() else { break };
            let Some(mut raw) = conn.block.take() else {
                self.blocks.put(out);
                break;
            };
            match self.translate(conn, raw.bytes(), &mut out) {
                Ok(taken) => {
                    world.count(Event::Request);
                    let removed = taken as u32;
                    conn.edits.push(Edit { at: start, removed, block: out });
                    conn.next = start.wrapping_add(removed);
                    conn.stretch(conn.next);
                    raw.cut_front(taken);
                    if conn.reading == Reading::Header && raw.len() > 0 && conn.body == 0 {
                        // The next request has come along.
                        conn.next = conn.next.wrapping_add(raw.len() as u32);
                        conn.block = Some(raw);
                    } else {
                        self.blocks.put(raw);
                    }
                    self.send_edit(conn, conn.edits.open().len() - 1, world);
                    sent = true;
                }
                Err(None) if raw.len() < self.settings.header_limit => {
                    self.blocks.put(out);
                    conn.block = Some(raw);
                    break;
                }
                Err(_) => {
                    self.blocks.put(out);
                    self.blocks.put(raw);
                    self.reset_both(conn, now_ms, world);
                    break;
                }
            }
        }
        sent
    }

    /// Sends what stands for a piece, in segments that the backend takes.
    fn send_edit<B: PacketBuf>(&self, conn: &Conn, at: usize, world: &mut impl World<B>) {
        let Some(edit) = conn.edits.open().get(at) else { return };
        let Some(outline) = conn.to_backend(edit.at, ACK) else { return };
        Self::make_all(conn, outline, edit.block.bytes(), world);
    }

    /// Makes segments no longer than the backend takes.
    fn make_all<B: PacketBuf>(
        conn: &Conn,
        mut outline: Outline,
        data: &[u8],
        world: &mut impl World<B>,
    ) {
        let options = conn.options_to_backend();
        let room = usize::from(conn.server.longest()) - options.len();
        let mut pieces = data.chunks(room).peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                outline.flags |= PSH;
            }
            Self::make(&outline, &options, piece, world);
            // The sender says once that it has slowed down.
            outline.flags &= !CWR;
            outline.sequence = outline.sequence.wrapping_add(piece.len() as u32);
        }
    }

    /// Ends both connections, since the agent can't say what a request would be to the
    /// backend, and a response may be on its way.
    pub(crate) fn reset_both<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Reset);
        if let Some(outline) = conn.to_backend(conn.limit(), RST | ACK) {
            Self::make(&outline, &conn.options_to_backend(), &[], world);
        }
        let outline = Outline {
            src: conn.vip(),
            dst: conn.client(),
            sequence: conn.acked,
            acknowledgement: conn.next,
            flags: RST | ACK,
            window: 0,
        };
        Self::make(&outline, &conn.options_to_client(), &[], world);
        conn.release(&mut self.blocks);
        conn.become_(State::Reset, now_ms);
        conn.reading = Reading::Nothing;
    }

    /// A client's segment.
    pub(crate) fn client_data<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        mut packet: B,
        headers: &Headers,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Fate {
        conn.seen_ms = now_ms;
        conn.see_client(got, packet.bytes());
        let Outline { sequence, acknowledgement, window, flags, .. } = got.outline;
        if got.has(ACK) && !before(acknowledgement, conn.acked) {
            (conn.acked, conn.window) = (acknowledgement, window);
        }
        let length = (got.end - got.data) as u32;
        let end = sequence.wrapping_add(length);
        conn.stretch(sequence);
        let all = conn.reading == Reading::All;
        let passes =
            (all || !before(conn.limit(), end))
                && got.end - got.options <= conn.server.longest().into()
                && conn.edits.open().iter().all(|edit| {
                    !before(sequence, edit.end()) || !before(edit.at, end) || length == 0
                });
        if !passes {
            self.in_pieces(conn, &packet, got, now_ms, world);
            return Fate::Taken;
        }
        let Some(backend) = conn.backend else { return Fate::Taken };
        let new = Outline {
            src: conn.client(),
            dst: backend,
            sequence: conn.edits.forward(sequence),
            acknowledgement: acknowledgement.wrapping_sub(conn.delta()),
            flags: conn.flags(flags),
            window: conn.window_to_backend(window),
        };
        let delta = conn.delta();
        let map = |edge: u32, _: bool| edge.wrapping_sub(delta);
        let change = conn.change_to_backend(got.stamps(packet.bytes()), &map);
        if got.rewrite(packet.bytes_mut(), &new, &change).is_none() {
            return Fate::Malformed;
        }
        let blind = conn.granted.ecn && !conn.server.ecn;
        if blind && !clear_ecn(packet.bytes_mut(), got.l3, new.src.is_ipv4()) {
            world.count(Event::Congested);
            return Fate::Taken;
        }
        conn.note_end(got, 0, now_ms);
        world.relay(packet, headers, backend.ip());
        Fate::Relayed
    }

    /// A client's segment of which not all may pass, or not in one piece.
    fn in_pieces<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        packet: &B,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let data = got.data(packet.bytes());
        let first = got.outline.sequence;
        let end = first.wrapping_add(data.len() as u32);
        let place = |at: u32| at.wrapping_sub(first) as usize;
        let (mut at, mut sent) = (first, false);
        for number in 0..conn.edits.open().len() {
            let Some((from, to)) = conn.edits.open().get(number).map(|edit| (edit.at, edit.end()))
            else {
                break;
            };
            if !before(at, to) {
                continue;
            }
            if !before(from, end) {
                break;
            }
            if before(at, from) {
                Self::pass(conn, at, data.get(place(at)..place(from)), world);
            }
            self.send_edit(conn, number, world);
            at = to;
            sent = true;
        }
        let limit = conn.limit();
        if before(at, end) && before(at, limit) {
            let to = if before(limit, end) { limit } else { end };
            sent |= Self::pass(conn, at, data.get(place(at)..place(to)), world);
        }
        if !before(conn.next, first) && before(conn.next, end) {
            let rest = data.get(place(conn.next)..).unwrap_or_default();
            sent |= self.read(conn, rest, now_ms, world);
        }
        if got.has(FIN) && conn.state == State::Open {
            sent |= self.finish(conn, end, got, now_ms, world);
        }
        if !sent && conn.state == State::Open {
            let repeated = !data.is_empty() && !before(conn.next, end);
            // An acknowledgement covers all that is before the header as well.
            if conn.block.is_some() && repeated && !before(conn.received, conn.limit()) {
                self.own(conn, now_ms, world);
            }
            self.acknowledge(conn, world);
        }
    }

    /// Repeats what stands for bytes that the agent has acknowledged itself.
    pub(crate) fn repeat_owned<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let first = conn.edits.open().first().map(|edit| edit.at);
        let owned = conn.owned.is_some_and(|owned| first.is_some_and(|at| before(at, owned)));
        if owned && now_ms >= conn.repeated_ms + REPEAT_MS {
            conn.repeated_ms = now_ms;
            self.send_edit(conn, 0, world);
        }
    }

    fn pass<B: PacketBuf>(
        conn: &Conn,
        at: u32,
        data: Option<&[u8]>,
        world: &mut impl World<B>,
    ) -> bool {
        let (Some(outline), Some(data)) = (conn.to_backend(at, ACK), data) else { return false };
        Self::make_all(conn, outline, data, world);
        !data.is_empty()
    }

    /// Reads a client's bytes from `next` on. Whether something was sent.
    fn read<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        mut rest: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> bool {
        let mut sent = false;
        while !rest.is_empty() && conn.state == State::Open {
            let before_next = conn.next;
            match conn.reading {
                Reading::Header if conn.edits.is_full() => break,
                Reading::Header => {
                    if !self.gather(conn, rest, self.settings.header_limit) {
                        world.count(Event::NoRoom);
                        break;
                    }
                    sent |= self.read_block(conn, now_ms, world);
                }
                Reading::Chunked(mut chunked) => {
                    let Ok(taken) = chunked.read(rest) else {
                        self.reset_both(conn, now_ms, world);
                        return true;
                    };
                    sent |= Self::pass(conn, conn.next, rest.get(..taken), world);
                    conn.next = conn.next.wrapping_add(taken as u32);
                    conn.reading = match chunked.is_done() {
                        false => Reading::Chunked(chunked),
                        true => Reading::Header,
                    };
                }
                Reading::All => return Self::pass(conn, conn.next, Some(rest), world) || sent,
                Reading::Upgrade | Reading::Nothing => break,
            }
            let read = conn.next.wrapping_sub(before_next) as usize;
            // A body's stretch may reach behind the segment: its part here passes too.
            let here = read.min(rest.len());
            if here == 0 {
                break;
            }
            rest = rest.get(here..).unwrap_or_default();
        }
        sent
    }

    /// Passes a FIN on that stands at `end`.
    fn finish<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        end: u32,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> bool {
        if conn.reading != Reading::All && before(conn.next, end) {
            return false;
        }
        if conn.held {
            return false;
        }
        if conn.block.is_some() {
            // A request was begun, and never will be whole.
            self.reset_both(conn, now_ms, world);
            return true;
        }
        if let Some(outline) = conn.to_backend(end, ACK | FIN) {
            Self::make(&outline, &conn.options_to_backend(), &[], world);
            conn.note_end(got, 0, now_ms);
        }
        true
    }

    /// A backend's segment.
    pub(crate) fn backend_data<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        mut packet: B,
        headers: &Headers,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Fate {
        conn.seen_ms = now_ms;
        if got.has(SYN) {
            self.acknowledge(conn, world);
            return Fate::Taken;
        }
        let Outline { sequence, acknowledgement, window, flags, .. } = got.outline;
        match conn.follow_responses(got, packet.bytes()) {
            Ok(true) => {}
            // The backend sends it again, behind what is missing.
            Ok(false) => return Fate::Taken,
            Err(_) => {
                self.reset_both(conn, now_ms, world);
                return Fate::Taken;
            }
        }
        if let Some(stamps) = got.stamps(packet.bytes()).filter(|_| conn.server.timestamps) {
            conn.clocks.see_server(stamps);
        }
        let received = conn.edits.back(acknowledgement, false);
        if got.has(ACK) && before(conn.received, received) && !before(conn.next, received) {
            conn.received = received;
        }
        // What the backend has is nobody's to repeat.
        conn.owned = conn.owned.filter(|owned| before(conn.received, *owned));
        while got.has(ACK)
            && let Some(block) = conn.edits.settle(received)
        {
            self.blocks.put(block);
        }
        if conn.block.is_some() {
            // A header that found no room among the pieces may have it now.
            self.read_block(conn, now_ms, world);
        }
        let told = conn.known(received);
        if got.has(ACK) {
            conn.server_window = Some(conn.window_to_client(window, acknowledgement, told));
        }
        let edits = &conn.edits;
        let map = |edge: u32, up: bool| edits.back(edge, up);
        let change = conn.change_to_client(&map);
        let new = Outline {
            src: conn.vip(),
            dst: conn.client(),
            sequence: sequence.wrapping_add(conn.delta()),
            acknowledgement: if got.has(ACK) { told } else { 0 },
            flags: conn.flags(flags),
            window: conn.own_window(false),
        };
        let client = conn.client().ip();
        if conn.granted.timestamps && !conn.server.timestamps && !got.has(RST) {
            Self::with_stamps(conn, &packet, got, new, &change, world);
            conn.note_end(got, 1, now_ms);
            return Fate::Taken;
        }
        if got.rewrite(packet.bytes_mut(), &new, &change).is_none() {
            return Fate::Malformed;
        }
        conn.note_end(got, 1, now_ms);
        world.relay(packet, headers, client);
        Fate::Relayed
    }
}

impl Common {
    /// Sends a segment anew with timestamps: the client was promised them, its backend
    /// has none, and a segment without them would be dropped (RFC 7323 section 3.2).
    fn with_stamps<B: PacketBuf>(
        conn: &Conn,
        packet: &B,
        got: &Received,
        mut new: Outline,
        change: &Change<'_>,
        world: &mut impl World<B>,
    ) {
        let mut options: ArrayVec<u8, MAX_OPTIONS> = conn.options_to_client().into_iter().collect();
        let behind = options.len();
        // Four SACK blocks leave no room: the client does without them once.
        if options.try_extend_from_slice(got.options(packet.bytes())).is_ok() {
            change.apply(options.get_mut(behind..).unwrap_or_default());
        }
        let data = got.data(packet.bytes());
        let room = usize::from(conn.offer.longest()).saturating_sub(options.len()).max(1);
        let last = new.flags;
        let mut rest = data;
        loop {
            let (piece, behind) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            new.flags = if behind.is_empty() { last } else { last & !(FIN | PSH) };
            Self::make(&new, &options, piece, world);
            if behind.is_empty() {
                return;
            }
            new.sequence = new.sequence.wrapping_add(piece.len() as u32);
            rest = behind;
        }
    }
}

impl Conn {
    /// Notes that side `side` ends the connection. A RST alone removes nothing: whether it
    /// is good only its receiver knows (RFC 5961), and any packet after it goes on.
    fn note_end(&mut self, got: &Received, side: usize, now_ms: u64) {
        if got.has(FIN)
            && let Some(ended) = self.ended.get_mut(side)
        {
            *ended = true;
        }
        let fin = got.outline.sequence.wrapping_add((got.end - got.data) as u32);
        if side == 0 && got.has(FIN) && fin == self.next && self.block.is_none() {
            // A FIN has a number of its own, and nothing comes behind it.
            self.next = self.next.wrapping_add(1);
            self.reading = Reading::Nothing;
        }
        let over = self.ended == [true; 2];
        if got.has(RST) || (over && self.state == State::Open) {
            self.become_(State::Closing, now_ms);
        } else if self.state == State::Closing && !over && !got.has(RST) {
            self.become_(State::Open, now_ms);
        }
    }
}

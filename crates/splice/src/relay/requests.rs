//! The client's bytes are read: headers, and bodies that end where they say so.
use packet::PacketBuf;

use crate::agent::Common;
use crate::blocks::Block;
use crate::connection::{Conn, Reading, State};
use crate::edits::Edit;
use crate::forwarding::{self, Additions};
use crate::framing::{BadChunk, Chunked};
use crate::proxy_v2::{ProxyHeader, without_port};
use crate::refusal::Refusal;
use crate::request::{Body, Request};
use crate::response::Asked;
use crate::world::{Event, Speaks, World};

impl Conn {
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
}

impl Common {
    /// Reads a client's bytes from `next` on. Whether something was sent.
    pub(super) fn read<B: PacketBuf>(
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
                    self.grow_record(conn, taken);
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

    /// Makes of the headers in the block what the backend gets, and sends that. `false`:
    /// nothing was sent.
    pub(crate) fn read_block<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> bool {
        if conn.speaks != Speaks::Http {
            return self.pass_first(conn, now_ms, world);
        }
        if !Self::release(conn, world) {
            // What it becomes would change the numbers that the card adds to.
            return false;
        }
        let mut sent = false;
        while conn.reading == Reading::Header && !conn.edits.is_full() && !conn.responses.is_full()
        {
            let start = conn.limit();
            let Some(mut raw) = conn.block.take_if(|_| !conn.held) else { break };
            let request = Request::parse(raw.bytes());
            let stays = self.stays(conn, request.as_ref().ok().and_then(Option::as_ref), world);
            let out = if stays { self.blocks.get() } else { None };
            let Some(mut out) = out else {
                drop(request);
                conn.block = Some(raw);
                break;
            };
            match self.translate(conn, raw.bytes(), request, &mut out, now_ms, world) {
                Ok(taken) => {
                    world.count(Event::Request);
                    let removed = taken as u32;
                    let block = self.blocks.shrink(out);
                    conn.edits.push(Edit { at: start, removed, block });
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
                Err(_) if !conn.blind && !conn.guesses && !conn.fresh => {
                    // The requests before it get their responses, and this one the agent's.
                    self.blocks.put(out);
                    (conn.block, conn.instead, conn.held) = (Some(raw), None, true);
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

    /// The header of the first request in the block, as the backend gets it, with those
    /// bytes of its body that are there. Returns how many of the client's bytes that is.
    ///
    /// # Errors
    /// The header is not whole (`None`), or can't be passed on.
    fn translate<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        raw: &[u8],
        request: Result<Option<Request<'_>>, Refusal>,
        out: &mut Block,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Result<usize, Option<Refusal>> {
        let mut request = request.map_err(Some)?.ok_or(None)?;
        // The answer must be found, and nothing be read until it comes: otherwise the backend
        // is not asked to change the protocol (RFC 9110 section 7.8).
        let is_alone = matches!(request.body, Body::Length(0)) && raw.len() == request.length;
        conn.find_again();
        request.upgrades &= !conn.guesses && is_alone;
        conn.keeps &= !request.upgrades;
        self.requests += 1;
        let id = self.cookies.number(conn.ends, self.requests);
        let added = Additions { client: conn.client(), scheme: "http", id };
        if conn.fresh && world.has_proxy_header(conn.service) {
            let header = ProxyHeader {
                authority: without_port(request.host).as_bytes(),
                ..ProxyHeader::new(conn.ends, id)
            };
            out.push(&header.bytes()).ok_or(Some(Refusal::TooLong))?;
            world.count(Event::ProxyHeader);
        }
        let changes = world.request_changes(conn.service);
        forwarding::write(out, &request, &added, &changes).ok_or(Some(Refusal::TooLong))?;
        let rest = raw.get(request.length..).unwrap_or_default();
        let taken = conn.enter(&request, rest).map_err(|_| Some(Refusal::Coding))?;
        let body = rest.get(..taken).unwrap_or_default();
        out.push(body).ok_or(Some(Refusal::TooLong))?;
        if !conn.blind {
            conn.responses.ask(Asked {
                head: request.method == "HEAD",
                upgrades: request.upgrades,
                sticks: conn.sticks,
                at_ms: now_ms as u32,
            });
        }
        conn.fresh = false;
        let body = match request.body {
            Body::Length(length) => length,
            Body::Chunked => taken as u64,
        };
        let bytes = (request.length as u64).saturating_add(body);
        self.begin_record(conn, &request, (id, bytes), now_ms, world);
        Ok(request.length + taken)
    }
}

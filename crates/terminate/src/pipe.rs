//! A connection whose records are not read: the client's bytes go to one backend as they
//! are, and the backend's to the client.
use std::net::SocketAddr;

use splice::{Inquiry, ProxyHeader, Rejection};
use tls::Alert;

use crate::connection::Turn;
use crate::endpoint::{Endpoint, Stage};
use crate::errand::{Scene, TRIES};
use crate::event::Event;
use crate::secured::Secured;
use crate::settings::Settings;
use crate::upstream::{Upstream, Upstreams};
use crate::world::{Wish, World};

/// What a backend that is not there is to the client: internal_error.
const INTERNAL: Alert = Alert(80);

/// Both ways of one connection.
pub(crate) struct Pipe {
    upstream: Option<Upstream>,
    /// Backends that did not take it.
    tried: Vec<SocketAddr>,
    /// Why the last of them did not.
    failure: Rejection,
    /// Whether the client's end was handed on, and the backend's.
    ended: [bool; 2],
    /// When something last moved.
    moved_ms: u64,
}

impl Pipe {
    pub(crate) fn new(now_ms: u64) -> Self {
        let (tried, failure) = (Vec::new(), Rejection::NoBackend);
        Self { upstream: None, tried, failure, ended: [false; 2], moved_ms: now_ms }
    }

    /// The connection to the backend.
    pub(crate) const fn upstream(&mut self) -> Option<&mut Upstream> {
        self.upstream.as_mut()
    }

    /// One step of everything.
    pub(crate) fn turn<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let turn = match &mut self.upstream {
            None => self.connect(client, upstreams, scene),
            Some(own) if own.link.stage() == Stage::Opening => Turn::Wait,
            Some(own) if !own.link.has_opened() => {
                if let Some(why) = own.link.take_failure() {
                    scene.world.distrust(own.backend, &why);
                }
                self.pass_over(Rejection::BackendRefused, client, scene)
            }
            Some(_) => self.carry(client, scene),
        };
        if turn != Turn::Wait {
            self.moved_ms = scene.now_ms;
        }
        turn
    }

    /// Finds a backend.
    fn connect<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let who = scene.who;
        let inquiry =
            Inquiry { service: who.service, ends: who.ends, tried: &self.tried, kept: None };
        let wish = Wish { name: client.name.as_deref(), protocol: client.alpn.as_deref() };
        let backend = match scene.world.direct(&inquiry, &wish) {
            Ok(backend) => backend,
            // With none left, what the last one did is the reason.
            Err(Rejection::NoBackend) => return reject(self.failure, client, scene),
            Err(why) => return reject(why, client, scene),
        };
        let header = ProxyHeader {
            authority: wish.name.unwrap_or_default().as_bytes(),
            alpn: wish.protocol.unwrap_or_default().as_bytes(),
            tls: who.tls,
            ..ProxyHeader::new(who.ends, scene.common.number())
        };
        let told = scene.world.has_proxy_header(who.service).then_some(&header);
        self.upstream = upstreams.connect(backend, wish.protocol, told, scene);
        if self.upstream.is_none() {
            scene.world.count(Event::NoRoom);
            return reject(Rejection::NoBackend, client, scene);
        }
        scene.world.count(Event::Directed);
        Turn::Moved
    }

    /// Goes on to another backend: this one has taken no byte.
    fn pass_over<E: Endpoint, W: World>(
        &mut self,
        why: Rejection,
        client: &mut Secured<E>,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        scene.world.count(Event::BackendFailed);
        self.failure = why;
        self.tried.extend(self.upstream.as_ref().map(|own| own.backend));
        self.retire(scene);
        if self.tried.len() < TRIES { Turn::Moved } else { reject(why, client, scene) }
    }

    /// Moves what can be moved both ways.
    fn carry<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let Some(Upstream { link, .. }) = &mut self.upstream else { return Turn::Wait };
        let [up_ended, down_ended] = &mut self.ended;
        let mut moved = false;
        let plain = client.plain();
        let taken = link.write(plain.get(..link.room().min(plain.len())).unwrap_or_default());
        if taken > 0 {
            client.consume(taken);
            moved = true;
        }
        let (room, bytes) = (client.room(), link.readable());
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let length = bytes.len();
        if length > 0 {
            if client.write(bytes).is_none() {
                return Turn::Abort;
            }
            link.consume(length);
            moved = true;
        }
        if client.has_ended() && client.plain().is_empty() && !*up_ended {
            if client.is_cut() {
                scene.world.count(Event::Cut);
                return Turn::Abort;
            }
            link.close();
            (*up_ended, moved) = (true, true);
        }
        if link.has_ended() && link.readable().is_empty() && !*down_ended {
            if link.is_reset() {
                return Turn::Abort;
            }
            client.close();
            (*down_ended, moved) = (true, true);
        }
        match (self.is_done(), moved) {
            (true, _) => Turn::Close,
            (false, true) => Turn::Moved,
            (false, false) => Turn::Wait,
        }
    }

    /// Whether both ends have been handed on, and the backend has all.
    fn is_done(&self) -> bool {
        let flushed = |own: &Upstream| own.link.is_flushed();
        self.ended == [true; 2] && self.upstream.as_ref().is_none_or(flushed)
    }

    /// Whether the backend still lacks bytes of a client that has ended in order.
    pub(crate) fn lacks(&self) -> bool {
        self.upstream.is_some() && !self.is_done()
    }

    /// When the time brings something.
    pub(crate) fn due_ms(&mut self, settings: &Settings, now_ms: u64) -> u64 {
        let Some(own) = &mut self.upstream else { return self.moved_ms + settings.idle_ms };
        let due = match own.link.stage() {
            Stage::Opening => own.opened_ms + settings.connect_ms,
            _ => self.moved_ms + settings.idle_ms,
        };
        own.link.due_ms(now_ms).map_or(due, |tcp| tcp.min(due))
    }

    /// What the time brings.
    pub(crate) fn time<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let settings = scene.common.settings;
        let over = |since: u64, ms| scene.now_ms.saturating_sub(since) >= ms;
        match &self.upstream {
            Some(own) if own.link.stage() == Stage::Opening => {
                if !over(own.opened_ms, settings.connect_ms) {
                    return Turn::Wait;
                }
                self.moved_ms = scene.now_ms;
                self.pass_over(Rejection::BackendSilent, client, scene)
            }
            _ if over(self.moved_ms, settings.idle_ms) => {
                scene.world.count(Event::Idle);
                Turn::Abort
            }
            _ => Turn::Wait,
        }
    }

    /// Gives up the connection to the backend.
    pub(crate) fn retire<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        if let Some(upstream) = self.upstream.take() {
            scene.common.disconnect(upstream, scene.now_ms, scene.world);
        }
    }
}

/// Ends a connection that goes nowhere, with the alert that says why.
fn reject<E: Endpoint, W: World>(
    why: Rejection,
    client: &mut Secured<E>,
    scene: &mut Scene<'_, W>,
) -> Turn {
    scene.world.count(Event::Rejected(why));
    client.refuse(why.alert().map_or(INTERNAL, Alert));
    Turn::Close
}

//! Connections to backends.
use std::net::SocketAddr;

use flow::BackendId;
use splice::{Peer, ProxyHeader};

use crate::endpoint::{Endpoint, Stage};
use crate::errand::Scene;
use crate::link::Link;
use crate::world::World;

/// A connection to a backend, which a client's requests use one after the other.
pub(crate) struct Upstream {
    pub(crate) link: Link,
    pub(crate) backend: SocketAddr,
    pub(crate) id: BackendId,
    pub(crate) local: SocketAddr,
    pub(crate) opened_ms: u64,
    /// Whether a response has come by it.
    pub(crate) is_used: bool,
}

impl Upstream {
    /// Whether another request may be sent.
    pub(crate) fn is_usable(&self) -> bool {
        self.link.stage() == Stage::Open && !self.link.has_ended()
    }
}

/// The connections to backends of one client that no request uses now.
pub(crate) struct Upstreams {
    idle: Vec<Upstream>,
    /// So many at most, with those in use.
    most: usize,
    /// How many are in use.
    busy: usize,
    /// Whether there has been one: the next does not take its port, whose last packets may
    /// still be under way.
    has_connected: bool,
}

impl Upstreams {
    pub(crate) const fn new(most: usize) -> Self {
        Self { idle: Vec::new(), most, busy: 0, has_connected: false }
    }

    /// The backend of the last request.
    pub(crate) fn latest(&self) -> Option<SocketAddr> {
        self.idle.iter().rev().find(|own| own.is_usable()).map(|own| own.backend)
    }

    /// A connection to `backend`, if one is kept.
    pub(crate) fn take(&mut self, backend: SocketAddr) -> Option<Upstream> {
        let is = |own: &Upstream| own.backend == backend && own.is_usable();
        self.idle.iter().position(is).map(|at| self.idle.swap_remove(at))
    }

    /// How many are in use from now on.
    pub(crate) const fn set_busy(&mut self, busy: usize) {
        self.busy = busy;
    }

    /// Keeps a connection for the next request.
    pub(crate) fn keep(&mut self, mut upstream: Upstream) {
        upstream.is_used = true;
        self.idle.push(upstream);
    }

    /// A new connection to `backend`, which begins with `header`, in front of TLS, too. A
    /// backend that speaks TLS is offered `protocol`. `None`:
    /// there is no port, or no room.
    pub(crate) fn connect<W: World>(
        &mut self,
        backend: Peer,
        protocol: Option<&str>,
        header: Option<&ProxyHeader<'_>>,
        scene: &mut Scene<'_, W>,
    ) -> Option<Upstream> {
        self.make_room(scene);
        let is_first = !std::mem::replace(&mut self.has_connected, true);
        let [client, _] = scene.who.ends;
        let tls = scene.terms.backends.as_ref();
        let ends = (client, backend);
        let session = tls.map(|tls| tls.connect(backend.at.ip(), protocol)).transpose().ok()?;
        let mut new = scene.common.connect(ends, is_first, session, scene.now_ms, scene.world)?;
        if let Some(header) = header {
            new.link.begin_with(&header.bytes());
        }
        Some(new)
    }

    /// Sees to it that there is room for one more, as far as those that are idle can make it.
    fn make_room<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        while !self.idle.is_empty() && self.idle.len() + self.busy >= self.most {
            scene.common.disconnect(self.idle.remove(0), scene.now_ms, scene.world);
        }
    }

    /// Gives up those that have ended.
    pub(crate) fn sweep<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        while let Some(at) = self.idle.iter().position(|own| !own.is_usable()) {
            scene.common.disconnect(self.idle.remove(at), scene.now_ms, scene.world);
        }
    }

    /// Gives up all of them.
    pub(crate) fn retire<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        for upstream in self.idle.drain(..) {
            scene.common.disconnect(upstream, scene.now_ms, scene.world);
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Upstream> {
        self.idle.iter_mut()
    }
}

//! HTTP/1.1 on the client's side: requests one after the other (RFC 9112).
use splice::{Refusal, Request};

use crate::connection::Turn;
use crate::endpoint::Endpoint;
use crate::errand::{Errand, Outcome, Scene};
use crate::secured::Secured;
use crate::settings::Settings;
use crate::upstream::{Upstream, Upstreams};
use crate::world::World;

/// The requests of one connection.
pub(crate) struct Http1 {
    /// The present one; `None`: the header of the next is to come.
    errand: Option<Box<Errand>>,
    /// Since when the next header has been coming.
    since_ms: u64,
    /// When the last request was done.
    done_ms: u64,
}

impl Http1 {
    pub(crate) const fn new(now_ms: u64) -> Self {
        Self { errand: None, since_ms: now_ms, done_ms: now_ms }
    }

    /// The connection to a backend that the present request has.
    pub(crate) fn upstream(&mut self) -> Option<&mut Upstream> {
        self.errand.as_mut()?.upstream()
    }

    /// One step of everything.
    pub(crate) fn turn<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let Some(errand) = &mut self.errand else { return self.header(client, upstreams, scene) };
        match errand.step(client, upstreams, scene) {
            Outcome::Wait => Turn::Wait,
            Outcome::Moved => Turn::Moved,
            Outcome::Done { keeps: true } => {
                self.errand = None;
                (self.since_ms, self.done_ms) = (scene.now_ms, scene.now_ms);
                Turn::Moved
            }
            Outcome::Done { keeps: false } | Outcome::Answered => Turn::Close,
            Outcome::Broken => Turn::Abort,
        }
    }

    /// Reads the header of the next request.
    fn header<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let plain = client.plain();
        if plain.is_empty() {
            if client.has_ended() {
                return Turn::Close;
            }
            self.since_ms = scene.now_ms;
            return Turn::Wait;
        }
        let limit = scene.common.settings.header_limit;
        let read = Request::parse(plain).map(|found| found.map(|request| request.length));
        let length = match read {
            Ok(Some(length)) if length <= limit => length,
            Ok(None) if plain.len() <= limit => {
                return if client.has_ended() { Turn::Abort } else { Turn::Wait };
            }
            Ok(_) => return self.refuse(Refusal::TooLong, scene),
            Err(refusal) => return self.refuse(refusal, scene),
        };
        let raw = plain.get(..length).unwrap_or_default().to_vec();
        client.consume(raw.len());
        self.errand = Some(Box::new(Errand::new(raw, upstreams, scene)));
        Turn::Moved
    }

    fn refuse<W: World>(&mut self, refusal: Refusal, scene: &mut Scene<'_, W>) -> Turn {
        self.errand = Some(Box::new(Errand::refusal(refusal, scene)));
        Turn::Moved
    }

    /// When the time brings something.
    pub(crate) fn due_ms<E: Endpoint>(
        &mut self,
        client: &Secured<E>,
        settings: &Settings,
        now_ms: u64,
    ) -> u64 {
        match &mut self.errand {
            Some(errand) => errand.due_ms(settings, now_ms),
            None if client.plain().is_empty() => self.done_ms + settings.keep_alive_ms,
            None => self.since_ms + settings.header_ms,
        }
    }

    /// What the time brings.
    pub(crate) fn time<E: Endpoint, W: World>(
        &mut self,
        client: &Secured<E>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let settings = scene.common.settings;
        let over = |since: u64, ms| scene.now_ms.saturating_sub(since) >= ms;
        match &mut self.errand {
            Some(errand) => match errand.time(upstreams, scene) {
                Outcome::Wait => Turn::Wait,
                Outcome::Broken => Turn::Abort,
                _ => Turn::Moved,
            },
            None if client.plain().is_empty() => {
                if over(self.done_ms, settings.keep_alive_ms) {
                    Turn::Close
                } else {
                    Turn::Wait
                }
            }
            None if over(self.since_ms, settings.header_ms) => self.refuse(Refusal::Slow, scene),
            None => Turn::Wait,
        }
    }

    /// Gives up the connection to the backend.
    pub(crate) fn retire<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        if let Some(errand) = &mut self.errand {
            errand.retire(scene);
        }
    }
}

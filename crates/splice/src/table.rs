//! Where connections are found: by the client's packets and by the backend's.
use std::collections::HashMap;
use std::net::SocketAddr;

use crate::connection::Conn;

/// A client and a VIP, or a backend and a client.
type Ends = [SocketAddr; 2];

/// A bounded number of connections. Its memory is reserved once.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Conn>>,
    free: Vec<usize>,
    by_client: HashMap<Ends, usize>,
    by_backend: HashMap<Ends, usize>,
    max: usize,
}

impl Table {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            slots: Vec::with_capacity(max),
            free: Vec::with_capacity(max),
            // A map that is emptied and filled without end must never want to grow.
            by_client: HashMap::with_capacity(2 * max),
            by_backend: HashMap::with_capacity(2 * max),
            max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_client.len()
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn of_client(&self, ends: &Ends) -> Option<usize> {
        self.by_client.get(ends).copied()
    }

    pub(crate) fn of_backend(&self, ends: &Ends) -> Option<usize> {
        self.by_backend.get(ends).copied()
    }

    pub(crate) fn get(&mut self, at: usize) -> Option<&mut Conn> {
        self.slots.get_mut(at)?.as_mut()
    }

    pub(crate) fn peek(&self, at: usize) -> Option<&Conn> {
        self.slots.get(at)?.as_ref()
    }

    /// Adds a connection; `None` if there is no room, and the connection is given up.
    pub(crate) fn insert(&mut self, conn: Conn) -> Option<usize> {
        if self.len() >= self.max {
            return None;
        }
        let ends = conn.ends;
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        *self.slots.get_mut(at)? = Some(conn);
        self.by_client.insert(ends, at);
        Some(at)
    }

    /// Whether another connection than `at` has these ends towards its backend.
    pub(crate) fn is_taken(&self, ends: &Ends, at: usize) -> bool {
        self.by_backend.get(ends).is_some_and(|other| *other != at)
    }

    /// The connection `at` is found by the packets of `new`, and no longer of `old`.
    pub(crate) fn follow(&mut self, at: usize, old: Option<Ends>, new: Option<Ends>) {
        if old == new {
            return;
        }
        if let Some(old) = old.filter(|old| self.by_backend.get(old) == Some(&at)) {
            self.by_backend.remove(&old);
        }
        if let Some(new) = new {
            self.by_backend.insert(new, at);
        }
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<Conn> {
        let conn = self.slots.get_mut(at)?.take()?;
        self.by_client.remove(&conn.ends);
        let ends = conn.backend.map(|backend| [backend, conn.client()]);
        self.follow(at, ends, None);
        self.free.push(at);
        Some(conn)
    }
}

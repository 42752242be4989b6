//! smoltcp's sockets, which are used again: their buffers are long, and a connection that
//! gets them from another need not clear them.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smoltcp::socket::tcp::{Socket, SocketBuffer};

use crate::stack::Buffers;

/// Sockets that are kept, of all sizes.
const KEPT: usize = 256;
/// A connection gets this part of the memory that is left at most, so that there is some for
/// the next.
const SHARE: usize = 256;

/// Where connections have their sockets from.
#[derive(Clone, Default)]
pub(crate) struct Sockets(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    kept: Vec<(Buffers, Socket<'static>)>,
    /// Bytes of the buffers that are in use.
    used: usize,
}

impl Sockets {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the buffers of the next connection are, while all of them are to have no more
    /// than `memory` bytes as far as they have more than the `least` that each needs.
    pub(crate) fn share(&self, [least, most]: [Buffers; 2], memory: usize) -> Buffers {
        let share = memory.saturating_sub(self.lock().used) / SHARE;
        // A power of two, so that few lengths are kept.
        let power = share.checked_ilog2().map_or(0, |bits| 1 << bits);
        let one = |least: usize, most: usize| most.min(power).max(least);
        Buffers { receive: one(least.receive, most.receive), send: one(least.send, most.send) }
    }

    /// A socket with such buffers.
    pub(crate) fn take(&self, buffers: Buffers) -> Socket<'static> {
        let mut own = self.lock();
        own.used = own.used.saturating_add(buffers.bytes());
        let found = own.kept.iter().rposition(|kept| kept.0 == buffers);
        if let Some(at) = found {
            return own.kept.swap_remove(at).1;
        }
        drop(own);
        let memory = |len| SocketBuffer::new(vec![0; len]);
        Socket::new(memory(buffers.receive), memory(buffers.send))
    }

    /// Takes a socket back.
    pub(crate) fn give(&self, buffers: Buffers, socket: Socket<'static>) {
        let mut own = self.lock();
        own.used = own.used.saturating_sub(buffers.bytes());
        if own.kept.len() < KEPT && buffers.bytes() > 0 {
            own.kept.push((buffers, socket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_become_shorter_as_memory_is_used_and_long_again() {
        let least = Buffers { receive: 1 << 10, send: 2 << 10 };
        let most = Buffers { receive: 1 << 16, send: 1 << 15 };
        let sockets = Sockets::default();
        let memory = 16 << 20;
        let next = || sockets.share([least, most], memory);
        assert_eq!(next(), most);
        let mut taken = Vec::new();
        while next() != least {
            let own = next();
            assert!(own.receive <= most.receive && own.receive >= least.receive);
            taken.push((own, sockets.take(own)));
        }
        assert!(sockets.lock().used <= memory && taken.len() > SHARE / 4, "{}", taken.len());
        for (own, socket) in taken {
            sockets.give(own, socket);
        }
        assert_eq!((next(), sockets.lock().used), (most, 0));
        let kept = sockets.lock().kept.len();
        assert!(kept > 0 && kept <= KEPT, "{kept}");
        sockets.take(most);
        assert_eq!(sockets.lock().kept.len(), kept - 1, "one of those");
    }
}

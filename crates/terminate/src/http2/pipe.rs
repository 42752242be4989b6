//! The bytes between records and the library that reads frames, in memory.
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that wait in one direction, at most.
const MOST: usize = 32 * 1024;

/// Both directions.
#[derive(Debug, Default)]
struct Bytes {
    incoming: Vec<u8>,
    /// Whether the client sends no more.
    ended: bool,
    outgoing: Vec<u8>,
}

/// One of two handles: the connection's, and the library's, which reads what the connection
/// gives. Both are in the same thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pipe(Arc<Mutex<Bytes>>);

impl Pipe {
    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes of the client's there is room for.
    pub(crate) fn room(&self) -> usize {
        MOST.saturating_sub(self.bytes().incoming.len())
    }

    /// Takes bytes of the client's.
    pub(crate) fn give(&self, bytes: &[u8]) {
        self.bytes().incoming.extend_from_slice(bytes);
    }

    /// The client sends no more.
    pub(crate) fn end(&self) {
        self.bytes().ended = true;
    }

    /// Hands the first bytes for the client to `take`, `most` at most; how many there were.
    pub(crate) fn drain(&self, most: usize, take: impl FnOnce(&[u8])) -> usize {
        let mut bytes = self.bytes();
        let length = bytes.outgoing.len().min(most);
        if length > 0 {
            take(bytes.outgoing.get(..length).unwrap_or_default());
            bytes.outgoing.drain(..length);
        }
        length
    }

    /// Whether the client has been handed everything.
    pub(crate) fn is_drained(&self) -> bool {
        self.bytes().outgoing.is_empty()
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.bytes();
        let length = bytes.incoming.len().min(into.remaining());
        if length == 0 && !bytes.ended {
            return Poll::Pending;
        }
        into.put_slice(bytes.incoming.get(..length).unwrap_or_default());
        bytes.incoming.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut bytes = self.bytes();
        let length = MOST.saturating_sub(bytes.outgoing.len()).min(from.len());
        if length == 0 && !from.is_empty() {
            return Poll::Pending;
        }
        bytes.outgoing.extend_from_slice(from.get(..length).unwrap_or_default());
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

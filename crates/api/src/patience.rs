//! Connections that end when nothing could be written to them for long: their clients
//! send no whole request, or do not read. So clients that are silent, or send a byte now
//! and then, do not keep the places of others.
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection, and how long it may still go on without a write.
#[derive(Debug)]
pub(crate) struct Patience<S> {
    inner: S,
    limit: Duration,
    end: Pin<Box<Sleep>>,
}

impl<S> Patience<S> {
    /// `inner`, which may be without a write for `limit`.
    pub(crate) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit, end: Box::pin(sleep(limit)) }
    }

    /// An error once the time is over.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        ready!(self.end.as_mut().poll(context));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client is silent"))
    }

    /// The outcome of a write: with one that has succeeded the time begins anew.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match done {
            Poll::Ready(Ok(done)) => {
                self.end.as_mut().reset(Instant::now() + self.limit);
                Poll::Ready(Ok(done))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => self.poll_end(context).map(Err),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        // Asked first, so that bytes that come slowly prolong nothing.
        if let Poll::Ready(error) = own.poll_end(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut own.inner).poll_read(context, bytes)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let done = Pin::new(&mut own.inner).poll_write(context, bytes);
        own.written(context, done)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        // A flush of nothing prolongs nothing either.
        match Pin::new(&mut own.inner).poll_flush(context) {
            Poll::Pending => own.poll_end(context).map(Err),
            done => done,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        match Pin::new(&mut own.inner).poll_shutdown(context) {
            Poll::Pending => own.poll_end(context).map(Err),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// The clock stands still but for what is waited for.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_a_byte_now_and_then_is_left() {
        let (mut client, server) = duplex(64);
        let mut server = Patience::new(server, LIMIT);
        let drips = tokio::spawn(async move {
            // As long as two limits, should nobody leave it.
            for sent in 0..12 {
                if client.write_all(b"G").await.is_err() {
                    return sent;
                }
                sleep(Duration::from_secs(10)).await;
            }
            0
        });
        let began = Instant::now();
        let mut all = Vec::new();
        let error = server.read_to_end(&mut all).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
        assert!(all.len() >= 6, "its bytes came: {all:?}");
        drop(server);
        assert!(drips.await.unwrap() >= 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_left() {
        let (_client, server) = duplex(64);
        let mut server = Patience::new(server, LIMIT);
        let began = Instant::now();
        let error = server.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_prolong_a_connection() {
        let (mut client, server) = duplex(64);
        let mut server = Patience::new(server, LIMIT);
        for _ in 0..10 {
            sleep(Duration::from_secs(50)).await;
            server.write_all(b"event").await.unwrap();
            let mut bytes = [0; 5];
            client.read_exact(&mut bytes).await.unwrap();
            client.write_all(b"more").await.unwrap();
            let mut bytes = [0; 4];
            server.read_exact(&mut bytes).await.unwrap();
        }
    }
}

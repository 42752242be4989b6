//! The API over TCP: TLS in front of every connection, and files that are read again
//! when they change.
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::credentials::{Credentials, Paths};
use crate::patience::Patience;

/// Connections at a time; others wait.
const CONNECTIONS: usize = 256;
/// How long a client may take for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client may take for a request, or to read an answer. A stream of events
/// says something every 15 s.
const SILENCE: Duration = Duration::from_secs(60);
/// How often the files are read again, and the address is tried again if it is taken.
const EVERY: Duration = Duration::from_secs(10);
/// How long nothing is accepted when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections whose handshake is done.
#[derive(Debug)]
pub(crate) struct TlsListener {
    address: SocketAddr,
    streams: mpsc::Receiver<(Stream, SocketAddr)>,
}

/// A connection, and its place among all.
#[derive(Debug)]
pub(crate) struct Stream {
    tls: Patience<TlsStream<TcpStream>>,
    _place: OwnedSemaphorePermit,
}

impl TlsListener {
    /// Listens at `address`, and tries again while it is taken.
    pub(crate) async fn bind(
        address: SocketAddr,
        credentials: watch::Receiver<Credentials>,
    ) -> Self {
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(error) => {
                    tracing::error!(%address, %error, "[api] listen: the control API is served at the Unix socket only");
                    tokio::time::sleep(EVERY).await;
                }
            }
        };
        let address = listener.local_addr().unwrap_or(address);
        let (done, streams) = mpsc::channel(CONNECTIONS);
        tokio::spawn(accept(listener, credentials, done));
        Self { address, streams }
    }
}

async fn accept(
    listener: TcpListener,
    credentials: watch::Receiver<Credentials>,
    done: mpsc::Sender<(Stream, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&credentials.borrow().tls));
        let done = done.clone();
        tokio::spawn(async move {
            if let Ok(Ok(tls)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                // An error: the process ends.
                let tls = Patience::new(tls, SILENCE);
                let _ = done.send((Stream { tls, _place: place }, peer)).await;
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        match self.streams.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tls).poll_read(context, bytes)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tls).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tls).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tls).poll_shutdown(context)
    }
}

/// What the files at `paths` mean, now and whenever they change. Files that are wrong
/// are told of, and those before stay in force.
pub(crate) fn follow(paths: Paths) -> io::Result<watch::Receiver<Credentials>> {
    let mut files = paths.read().map_err(io::Error::other)?;
    let first = paths.understand(&files).map_err(io::Error::other)?;
    let (sender, receiver) = watch::channel(first);
    tokio::spawn(async move {
        let mut told = String::new();
        loop {
            tokio::time::sleep(EVERY).await;
            let read = paths.read();
            let news = match read {
                Ok(now) if now == files => continue,
                Ok(now) => paths.understand(&now).map(|credentials| (now, credentials)),
                Err(error) => Err(error),
            };
            match news {
                Ok((now, credentials)) => {
                    tracing::info!(
                        "the certificate and the tokens of the control API are read again"
                    );
                    files = now;
                    told.clear();
                    if sender.send(credentials).is_err() {
                        return;
                    }
                }
                Err(error) if error.to_string() != told => {
                    tracing::error!("{error}; what was read before stays in force");
                    told = error.to_string();
                }
                Err(_) => {}
            }
        }
    });
    Ok(receiver)
}

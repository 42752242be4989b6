//! A TCP handshake.
use std::net::SocketAddr;

use tokio::net::TcpStream;

/// The connection; closed by a FIN when it is dropped.
pub(super) async fn connect(at: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(at).await.map_err(|error| format!("cannot connect: {error}"))
}

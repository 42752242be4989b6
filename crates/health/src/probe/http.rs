//! A request over HTTP/1.1, in the clear or over TLS.
use std::net::SocketAddr;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{tcp, tls};
use crate::HttpCheck;

/// Bytes of a body that are read at most.
const MOST: usize = 65_536;

pub(super) async fn plain(at: SocketAddr, check: &HttpCheck) -> Result<(), String> {
    ask(tcp::connect(at).await?, at, check).await
}

pub(super) async fn over_tls(at: SocketAddr, check: &HttpCheck) -> Result<(), String> {
    let tcp = tcp::connect(at).await?;
    ask(tls::handshake(tcp, check.host.as_deref(), at.ip()).await?, at, check).await
}

async fn ask<S>(stream: S, at: SocketAddr, check: &HttpCheck) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let wrong = |error: hyper::Error| format!("HTTP: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(wrong)?;
    let request = request(at, check)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(wrong)?;
        judge(response, check).await
    };
    tokio::pin!(exchange);
    tokio::select! {
        verdict = &mut exchange => verdict,
        // The connection has ended: what there is of an answer is in the exchange.
        _ = connection => exchange.await,
    }
}

fn request(at: SocketAddr, check: &HttpCheck) -> Result<Request<Empty<Bytes>>, String> {
    let host = check.host.clone().unwrap_or_else(|| at.to_string());
    let mut request = Request::get(check.path.as_str())
        .header("host", host)
        .header("user-agent", "hnlb-health-check")
        .header("connection", "close");
    for (name, value) in &check.headers {
        request = request.header(name, value);
    }
    request.body(Empty::new()).map_err(|error| format!("the request: {error}"))
}

async fn judge(response: Response<Incoming>, check: &HttpCheck) -> Result<(), String> {
    let status = response.status().as_u16();
    if !check.status.contains(&status) {
        let (first, last) = (check.status.start(), check.status.end());
        return Err(format!("status {status}, and {first} to {last} pass"));
    }
    if check.body.is_empty() {
        return Ok(());
    }
    let mut body = response.into_body();
    let mut bytes: Vec<u8> = Vec::new();
    while bytes.len() < MOST {
        let Some(frame) = body.frame().await else { break };
        let frame = frame.map_err(|error| format!("the body: {error}"))?;
        let Some(data) = frame.data_ref() else { continue };
        bytes.extend(data.iter().take(MOST - bytes.len()));
    }
    let wanted = check.body.as_bytes();
    if bytes.windows(wanted.len()).any(|window| window == wanted) {
        return Ok(());
    }
    Err(format!("status {status}, and the body does not have '{}'", check.body))
}

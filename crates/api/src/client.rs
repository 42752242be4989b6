//! Asks a running load balancer by its Unix socket.
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Bytes;
use control::{Filter, Top};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use status::ConnectionList;
use tokio::net::UnixStream;

use crate::AskError;
use crate::refused::Refused;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// A client of the instance that serves a socket.
#[derive(Clone, Debug)]
pub struct Client(PathBuf);

impl Client {
    /// The client of the instance at `socket`.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self(socket.to_owned())
    }

    /// The text at the path made of `parts`.
    ///
    /// # Errors
    /// No instance answers, or it refuses.
    pub fn text(&self, parts: &[&str]) -> Result<String, AskError> {
        self.ask(Method::GET, path(parts), None)
    }

    /// What is at the path made of `parts`.
    ///
    /// # Errors
    /// No instance answers, or it refuses.
    pub fn get<T: DeserializeOwned>(&self, parts: &[&str]) -> Result<T, AskError> {
        read(&self.text(parts)?)
    }

    /// The outcome of the command at the path made of `parts`.
    ///
    /// # Errors
    /// No instance answers, or it refuses.
    pub fn post<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        body: &impl Serialize,
    ) -> Result<T, AskError> {
        let body = serde_json::to_string(body).map_err(|e| AskError::Answer(e.to_string()))?;
        read(&self.ask(Method::POST, path(parts), Some(body))?)
    }

    /// The outcome of making what is at the path made of `parts` as `body` says.
    ///
    /// # Errors
    /// No instance answers, or it refuses.
    pub fn put<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        body: &impl Serialize,
    ) -> Result<T, AskError> {
        let body = serde_json::to_string(body).map_err(|e| AskError::Answer(e.to_string()))?;
        read(&self.ask(Method::PUT, path(parts), Some(body))?)
    }

    /// The outcome of removing what is at the path made of `parts`.
    ///
    /// # Errors
    /// No instance answers, or it refuses.
    pub fn delete<T: DeserializeOwned>(&self, parts: &[&str]) -> Result<T, AskError> {
        read(&self.ask(Method::DELETE, path(parts), None)?)
    }

    /// The connections that `filter` lets through.
    ///
    /// # Errors
    /// No instance answers, or it refuses.
    pub fn connections(&self, filter: &Filter) -> Result<ConnectionList, AskError> {
        let client = filter.client.map(|address| format!("&client={address}"));
        let backend = filter.backend.map(|address| format!("&backend={address}"));
        let service = filter.service.as_ref().map(|name| format!("&service={}", encoded(name)));
        let top = filter.top.map(|Top::Rate| "&top=rate".to_owned());
        let more: String = [client, backend, service, top].into_iter().flatten().collect();
        let Filter { skip, limit, .. } = filter;
        let path = format!("/v1/connections?skip={skip}&limit={limit}{more}");
        read(&self.ask(Method::GET, path, None)?)
    }

    fn ask(&self, method: Method, path: String, body: Option<String>) -> Result<String, AskError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let asked = runtime.map_err(|source| self.failed(source))?.block_on(async {
            let request = self.request(method, path, body);
            tokio::time::timeout(PATIENCE, request)
                .await
                .unwrap_or_else(|_| Err(self.failed(io::Error::from(ErrorKind::TimedOut))))
        });
        let (is_good, text) = asked?;
        if is_good {
            return Ok(text);
        }
        let refused: Refused = read(&text)?;
        Err(refused.refusal.into())
    }

    /// Whether the request succeeded, and the body of the answer.
    async fn request(
        &self,
        method: Method,
        path: String,
        body: Option<String>,
    ) -> Result<(bool, String), AskError> {
        let other = |error: hyper::Error| self.failed(io::Error::other(error));
        let stream = UnixStream::connect(&self.0).await.map_err(|source| self.failed(source))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(other)?;
        // It ends with the answer, and its error is that of the request.
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header(HOST, "hnlb");
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.map_err(|error| self.failed(io::Error::other(error)))?;
        let answer = sender.send_request(request).await.map_err(other)?;
        let is_good = answer.status().is_success();
        let bytes = answer.into_body().collect().await.map_err(other)?.to_bytes();
        let text = String::from_utf8(bytes.into()).map_err(|e| AskError::Answer(e.to_string()))?;
        Ok((is_good, text))
    }

    fn failed(&self, source: io::Error) -> AskError {
        match source.kind() {
            ErrorKind::PermissionDenied => AskError::Forbidden { path: self.0.clone() },
            _ => AskError::Connect { path: self.0.clone(), source },
        }
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, AskError> {
    serde_json::from_str(text).map_err(|error| AskError::Answer(error.to_string()))
}

/// `/a/b` of the parts `a` and `b`, whatever letters are in them.
fn path(parts: &[&str]) -> String {
    parts.iter().map(|part| format!("/{}", encoded(part))).collect()
}

/// `text` as a part of a path or a value behind the question mark (RFC 3986, section
/// 2.3).
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string can't fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_part_of_a_path() {
        assert_eq!(path(&["v1", "a.b-c_1"]), "/v1/a.b-c_1");
        assert_eq!(path(&["[fd00::1]:80", "a/b c"]), "/%5Bfd00%3A%3A1%5D%3A80/a%2Fb%20c");
    }
}

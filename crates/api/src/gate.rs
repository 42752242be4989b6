//! Who gets in, and what they may do there.
use std::sync::Arc;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use control::Refusal;
use tokio::net::UnixListener;
use tokio::sync::watch;

use crate::credentials::Credentials;
use crate::refused::Refused;
use crate::remote::TlsListener;
use crate::role::Role;
use crate::{origin, page};

/// What decides.
#[derive(Clone)]
pub(crate) struct Gate {
    /// The number of the user who may change things by the Unix socket, as root may.
    pub(crate) owner: u32,
    /// Host names that are ours beside `localhost` and all addresses.
    pub(crate) names: Vec<String>,
    /// The tokens of clients that come by TCP.
    pub(crate) credentials: Option<watch::Receiver<Credentials>>,
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// From the Unix socket, as the user with this number.
    Local(Option<u32>),
    /// By TCP: only a token says who it is.
    Remote,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self::Local(stream.io().peer_cred().ok().map(|peer| peer.uid()))
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(_: IncomingStream<'_, TlsListener>) -> Self {
        Self::Remote
    }
}

impl Gate {
    /// What the client may do; `None`: nothing.
    fn role(&self, peer: Peer, headers: &HeaderMap) -> Option<Role> {
        match peer {
            Peer::Local(Some(user)) if user == 0 || user == self.owner => Some(Role::Operator),
            Peer::Local(_) => Some(Role::Viewer),
            Peer::Remote => {
                let shown = headers.get(AUTHORIZATION)?.to_str().ok()?;
                let (scheme, token) = shown.split_once(' ')?;
                let tokens = Arc::clone(&self.credentials.as_ref()?.borrow().tokens);
                scheme.eq_ignore_ascii_case("bearer").then(|| tokens.role(token.trim()))?
            }
        }
    }
}

/// Notes what the client may do, or refuses it.
pub(crate) async fn admit(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(why) = origin::check(request.headers(), &gate.names) {
        return Refused::from(Refusal::Foreign(why)).into_response();
    }
    match gate.role(peer, request.headers()) {
        Some(role) => {
            request.extensions_mut().insert(role);
        }
        // The page asks its user for the token.
        None if page::has(request.uri().path()) => {}
        None => {
            let mut refused = Refused::from(Refusal::NoToken).into_response();
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        }
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_owner_operate_and_others_of_the_socket_view() {
        let gate = Gate { owner: 7, names: Vec::new(), credentials: None };
        for (user, role) in [
            (Some(0), Role::Operator),
            (Some(7), Role::Operator),
            (Some(8), Role::Viewer),
            (None, Role::Viewer),
        ] {
            assert_eq!(gate.role(Peer::Local(user), &HeaderMap::new()), Some(role), "{user:?}");
        }
        assert_eq!(gate.role(Peer::Remote, &HeaderMap::new()), None);
    }
}

//! What a client may do.
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::UnixListener;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Ask.
    Viewer,
    /// Ask and change.
    Operator,
}

/// The user at the other end of a Unix socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(Option<u32>);

impl Peer {
    /// What the user may do if `owner` is the owner of the socket.
    pub(crate) fn role(self, owner: u32) -> Role {
        match self.0 {
            Some(user) if user == 0 || user == owner => Role::Operator,
            _ => Role::Viewer,
        }
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().peer_cred().ok().map(|peer| peer.uid()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_owner_operate_and_others_view() {
        for (user, role) in [
            (Some(0), Role::Operator),
            (Some(7), Role::Operator),
            (Some(8), Role::Viewer),
            (None, Role::Viewer),
        ] {
            assert_eq!(Peer(user).role(7), role, "{user:?}");
        }
    }
}

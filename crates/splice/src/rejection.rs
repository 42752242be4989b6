//! Why the agent ends a connection that begins with TLS itself.
use arrayvec::ArrayVec;

use crate::hello::HelloError;
use crate::refusal::Refusal;

macro_rules! rejections {
    ($($name:ident $alert:expr, $text:literal;)*) => {
        /// Why a connection whose first bytes should be a ClientHello goes to no backend.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rejection {
            $(#[doc = $text] $name,)*
        }

        impl Rejection {
            /// Every rejection.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The description of the fatal alert that the client gets (RFC 8446 section 6).
            /// `None`: the client is reset, since it would not understand one.
            #[must_use]
            pub const fn alert(self) -> Option<u8> {
                match self { $(Self::$name => $alert,)* }
            }
        }
    };
}

rejections! {
    NotTls None, "The first bytes are no handshake record of TLS.";
    NotHello Some(10), "The handshake does not begin with a ClientHello: unexpected_message.";
    TooLong Some(50), "The hello is longer than the limit: decode_error.";
    Malformed Some(50), "A length within the hello is wrong: decode_error.";
    Twice Some(47), "An extension is there twice: illegal_parameter.";
    Name Some(112), "The server name is no host name: unrecognized_name.";
    Slow None, "The hello was not complete in time.";
    NoRoute Some(112), "No route has the server name, and every backend is in a group: unrecognized_name.";
    NoProtocol Some(120), "A route has the server name, and the client offers no protocol of its: no_application_protocol.";
    NoBackend Some(80), "No backend of the route takes connections: internal_error.";
    BackendRefused Some(80), "Every backend tried refused the connection: internal_error.";
    BackendSilent Some(80), "No backend tried answered: internal_error.";
}

/// A record of TLS with a fatal alert.
const FATAL: [u8; 6] = [21, 3, 3, 0, 2, 2];

impl Rejection {
    /// The bytes that the client gets; none if it is reset.
    #[must_use]
    pub fn answer(self) -> ArrayVec<u8, 7> {
        let alert = self.alert();
        alert.into_iter().flat_map(|alert| FATAL.into_iter().chain([alert])).collect()
    }
}

impl From<HelloError> for Rejection {
    fn from(error: HelloError) -> Self {
        match error {
            HelloError::Record => Self::NotTls,
            HelloError::NotHello => Self::NotHello,
            HelloError::TooLong => Self::TooLong,
            HelloError::Length | HelloError::Protocols => Self::Malformed,
            HelloError::Twice => Self::Twice,
            HelloError::Name => Self::Name,
        }
    }
}

/// What befalls connections of either protocol.
impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Slow => Self::Slow,
            Refusal::NoBackend => Self::NoBackend,
            Refusal::BackendRefused => Self::BackendRefused,
            Refusal::BackendSilent => Self::BackendSilent,
            Refusal::TooLong | Refusal::TooManyFields => Self::TooLong,
            Refusal::NoRoute => Self::NoRoute,
            _ => Self::Malformed,
        }
    }
}

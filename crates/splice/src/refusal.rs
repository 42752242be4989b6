//! Why the agent answers a request itself.

macro_rules! refusals {
    ($($name:ident $status:literal $reason:literal $text:literal,)*) => {
        /// Why a request goes to no backend. What the agent and a backend could read
        /// differently is refused (RFC 9112 section 11).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Refusal {
            $(#[doc = $text] $name,)*
        }

        impl Refusal {
            /// Every refusal.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The status code of the answer and its reason phrase.
            #[must_use]
            pub const fn status(self) -> (u16, &'static str) {
                match self { $(Self::$name => ($status, $reason),)* }
            }

            /// Its name in logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What is wrong, in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

refusals! {
    RequestLine 400 "Bad Request" "The request line is not a method, a target and a version.",
    Version 505 "HTTP Version Not Supported" "The version is neither HTTP/1.0 nor HTTP/1.1.",
    Target 400 "Bad Request" "The target is no path and no http URL.",
    Connect 405 "Method Not Allowed" "CONNECT asks for a proxy.",
    BareLine 400 "Bad Request" "A line ends without CR LF, or has a CR in it.",
    Folded 400 "Bad Request" "A field goes on in the next line.",
    FieldName 400 "Bad Request" "A field name is no token, or a space is before its colon.",
    FieldValue 400 "Bad Request" "A field value has a control character in it.",
    ManyHosts 400 "Bad Request" "There are several Host fields.",
    NoHost 400 "Bad Request" "An HTTP/1.1 request has no Host field.",
    Host 400 "Bad Request" "The Host field is no host.",
    HostMismatch 400 "Bad Request" "The target and the Host field name different hosts.",
    Length 400 "Bad Request" "The Content-Length is no number.",
    ManyLengths 400 "Bad Request" "There are several Content-Length fields.",
    LengthAndCoding 400 "Bad Request" "There are both Content-Length and Transfer-Encoding.",
    Chunks 400 "Bad Request" "The body is not chunked as it should be.",
    Coding 501 "Not Implemented" "The Transfer-Encoding is not chunked alone.",
    CodingBefore11 400 "Bad Request" "An HTTP/1.0 request has a Transfer-Encoding.",
    Connection 400 "Bad Request" "The Connection field names a field that must arrive.",
    TooLong 431 "Request Header Fields Too Large" "The header is longer than the limit.",
    TooManyFields 431 "Request Header Fields Too Large" "The header has too many fields.",
    Slow 408 "Request Timeout" "The header was not complete in time.",
    NoRoute 404 "Not Found" "No route matches the request.",
    NoBackend 503 "Service Unavailable" "No backend takes requests.",
    BackendRefused 502 "Bad Gateway" "Backends refuse connections.",
    BackendSilent 504 "Gateway Timeout" "Backends do not answer.",
}

impl Refusal {
    /// The whole answer. The connection ends with it.
    #[must_use]
    pub fn answer(self) -> String {
        let ((code, reason), text) = (self.status(), self.text());
        let allow = if matches!(self, Self::Connect) {
            "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\n"
        } else {
            ""
        };
        let length = text.len() + 1;
        format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             {allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}\n"
        )
    }
}

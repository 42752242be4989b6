//! The header of the PROXY protocol, read by another implementation.
use std::net::SocketAddr;

use proxy_header::{Error, ParseConfig, ProxyHeader};

/// What a server expects to be told.
pub(crate) struct Expected<'a> {
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) authority: Option<&'a str>,
    pub(crate) alpn: Option<&'a [u8]>,
}

/// The length of the header that `bytes` begin with, once it is whole.
pub(crate) fn read(bytes: &[u8], expected: &Expected<'_>) -> Result<Option<usize>, String> {
    let (header, length) = match ProxyHeader::parse(bytes, ParseConfig::default()) {
        Ok(read) => read,
        Err(Error::BufferTooShort) => return Ok(None),
        Err(error) => return Err(format!("{error} in {bytes:x?}")),
    };
    let ends = header.proxied_address().map(|own| [own.source, own.destination]);
    let id = header
        .unique_id()
        .is_some_and(|id| id.len() == 16 && id.iter().all(|digit| digit.is_ascii_hexdigit()));
    let right = ends == Some(expected.ends)
        && header.authority() == expected.authority
        && header.alpn() == expected.alpn
        && header.ssl().is_none()
        && id;
    if right { Ok(Some(length)) } else { Err(format!("told {header:?}")) }
}

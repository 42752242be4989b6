//! Datagrams that nobody wants, as fast as one socket sends them.
use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::{LabError, Stop};

/// Sends `count` datagrams to `to`.
///
/// # Errors
/// If the socket can't be opened, or the stop is requested.
pub(crate) fn blast(to: SocketAddr, count: u32, stop: &Stop) -> Result<bool, LabError> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let what = || LabError::io(format!("open a UDP socket to {to}"));
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).map_err(what())?;
    for number in 0..count {
        stop.check()?;
        // A port that is closed is as good as one that is open.
        let _ = socket.send_to(&number.to_be_bytes(), to);
    }
    Ok(true)
}

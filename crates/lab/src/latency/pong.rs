//! Both ends of a round trip.
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::{LabError, Stop};

/// Bytes of the UDP payload: a query for a short name.
const PAYLOAD: usize = 32;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

fn socket(at: SocketAddr) -> Result<UdpSocket, LabError> {
    let what = || LabError::io(format!("open a UDP socket at {at}"));
    let socket = UdpSocket::bind(at).map_err(what())?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(what())?;
    Ok(socket)
}

/// Sends every packet back until the stop.
///
/// # Errors
/// If the socket can't be opened.
pub fn echo(at: SocketAddr, stop: &Stop) -> Result<bool, LabError> {
    let socket = socket(at)?;
    let mut bytes = [0; 2048];
    while stop.check().is_ok() {
        if let Ok((len, from)) = socket.recv_from(&mut bytes) {
            // The sender is gone: there is no one to answer.
            let _ = bytes.get(..len).map(|answer| socket.send_to(answer, from));
        }
    }
    Ok(true)
}

/// Sends `count` packets one after the other and prints each round trip in
/// nanoseconds, a line each, with a pause behind each; `lost` for one without an answer.
///
/// # Errors
/// If the socket can't be opened, or the stop is requested.
pub fn ping(to: SocketAddr, count: u32, pause: Duration, stop: &Stop) -> Result<bool, LabError> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = socket(SocketAddr::new(any, 0))?;
    socket.connect(to).map_err(LabError::io(format!("connect to {to}")))?;
    let mut text = String::new();
    for number in 0..count {
        stop.check()?;
        match round_trip(&socket, number) {
            Some(time) => text += &format!("{}\n", time.as_nanos()),
            None => text += "lost\n",
        }
        // Not back to back: each meets a system at rest.
        std::thread::sleep(pause);
    }
    print!("{text}");
    Ok(true)
}

fn round_trip(socket: &UdpSocket, number: u32) -> Option<Duration> {
    let mut packet = [0x5a; PAYLOAD];
    packet.first_chunk_mut::<4>()?.copy_from_slice(&number.to_be_bytes());
    let begin = Instant::now();
    socket.send(&packet).ok()?;
    let mut answer = [0; PAYLOAD];
    loop {
        match socket.recv(&mut answer) {
            Ok(_) if answer == packet => return Some(begin.elapsed()),
            // A late answer to an earlier one.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

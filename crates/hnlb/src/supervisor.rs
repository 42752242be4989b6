//! What systemd is told (sd_notify(3)): that the load balancer runs, that it is alive,
//! that it ends. Without systemd nothing is told.
use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The process that started this one, if it wants to know.
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    /// How often it wants to hear that the load balancer is alive.
    every: Option<Duration>,
    told: Option<Instant>,
}

impl Supervisor {
    /// By the environment.
    pub(crate) fn from_env() -> Self {
        let path = env::var_os("NOTIFY_SOCKET");
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let own = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let limit = number("WATCHDOG_USEC").filter(|limit| own && *limit > 0);
        Self::new(path.as_deref().map(OsStrExt::as_bytes), limit.map(Duration::from_micros))
    }

    /// One that listens at `path` and wants to hear something within each `limit`.
    fn new(path: Option<&[u8]>, limit: Option<Duration>) -> Self {
        let socket = path.and_then(|path| match connect(path) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET: systemd is told nothing");
                None
            }
        });
        // Half of the limit, as sd_watchdog_enabled(3) advises.
        Self { socket, every: limit.map(|limit| limit / 2), told: None }
    }

    /// The load balancer runs.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// It ends.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// It is alive at `now`. Called often.
    pub(crate) fn alive(&mut self, now: Instant) {
        let Some(every) = self.every else { return };
        if self.told.is_none_or(|told| now.duration_since(told) >= every) {
            self.told = Some(now);
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, what: &str) {
        if let Some(socket) = &self.socket {
            if let Err(error) = socket.send(what.as_bytes()) {
                tracing::debug!(%error, what, "systemd could not be told");
            }
        }
    }
}

/// A path, or with an `@` in front a name of the abstract kind.
fn connect(path: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    let address = match path.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    #[test]
    fn systemd_hears_what_happens_at_either_kind_of_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("@hnlb-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
        for (socket, at) in [
            (UnixDatagram::bind(&path), path.as_os_str().as_bytes()),
            (UnixDatagram::bind_addr(&abstract_name), name.as_bytes()),
        ] {
            let socket = socket.unwrap();
            socket.set_nonblocking(true).unwrap();
            let mut supervisor = Supervisor::new(Some(at), Some(Duration::from_secs(10)));
            supervisor.ready();
            assert_eq!(heard(&socket).as_deref(), Some("READY=1"));
            let began = Instant::now();
            for (seconds, tells) in [(0, true), (4, false), (5, true), (9, false), (11, true)] {
                supervisor.alive(began + Duration::from_secs(seconds));
                assert_eq!(heard(&socket).is_some_and(|own| own == "WATCHDOG=1"), tells);
            }
            supervisor.stopping();
            assert_eq!(heard(&socket).as_deref(), Some("STOPPING=1"));
        }
    }

    #[test]
    fn without_systemd_nothing_happens() {
        let mut supervisor = Supervisor::new(None, None);
        supervisor.ready();
        supervisor.alive(Instant::now());
        Supervisor::new(Some(b"/there/is/no/such/socket"), None).ready();
    }
}

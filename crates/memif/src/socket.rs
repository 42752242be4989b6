//! The control socket: a thread that speaks with one client after the other.
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recvmsg,
    sendmsg, socket_with,
};

pub use crate::connection::Received;
use crate::connection::{Connection, Frame};
use crate::message::{DisconnectReason, MESSAGE_BYTES, Message};
use crate::session::{Session, Step};

/// How often the thread looks whether it is to end, or a client has broken a rule.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// How long a client may take until it is connected: another can't be heard meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many looks and messages a client has to hang up after it was told to.
const LINGER_LOOKS: u32 = 20;

/// There is no socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The socket.
    #[error("{path}: {source}")]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The thread.
    #[error("the thread of a memif socket can't be started: {0}")]
    Thread(std::io::Error),
}

/// What the threads share: the client that is connected.
#[derive(Debug, Default)]
struct Shared {
    connection: ArcSwapOption<Connection>,
    stop: AtomicBool,
}

/// A socket for one client at a time. It is gone, and its client is told, when this is
/// dropped.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Frames from the client, for one thread.
#[derive(Debug)]
pub struct Receiver(Arc<Shared>);

/// Frames towards the client, for one thread.
#[derive(Debug)]
pub struct Sender(Arc<Shared>);

impl Socket {
    /// Makes a socket at `path`, in place of one that a process has left there.
    ///
    /// # Errors
    /// [`BindError`] says what can't be had.
    pub fn bind(path: &Path) -> Result<(Self, Receiver, Sender), BindError> {
        let make = || -> rustix::io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            let address = SocketAddrUnix::new(path)?;
            let _ = std::fs::remove_file(path);
            bind(&socket, &address)?;
            listen(&socket, 4)?;
            Ok(socket)
        };
        let listener = make()
            .map_err(|error| BindError::Socket { path: path.to_owned(), source: error.into() })?;
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new().name("memif".to_owned());
        let (name, of_thread) = (path.display().to_string(), Arc::clone(&shared));
        let thread =
            thread.spawn(move || serve(&listener, &of_thread, &name)).map_err(BindError::Thread)?;
        let (receiver, sender) = (Receiver(Arc::clone(&shared)), Sender(Arc::clone(&shared)));
        Ok((Self { path: path.to_owned(), shared, thread: Some(thread) }, receiver, sender))
    }

    /// Whether a client is connected and has given buffers for frames.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.connection.load().as_ref().is_some_and(|connection| connection.is_open())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of {} has panicked", self.path.display());
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Receiver {
    /// Offers up to `most` frames of the client to `take`, until it refuses one, which is
    /// the next the next time.
    pub fn receive(&mut self, most: usize, take: &mut dyn FnMut(&Frame<'_>) -> bool) -> Received {
        let connection = self.0.connection.load();
        connection.as_ref().map_or_else(Received::default, |of| of.receive(most, take))
    }
}

impl Sender {
    /// Gives the client frames until one finds no buffer; how many it has got.
    pub fn send<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        let connection = self.0.connection.load();
        let Some(connection) = connection.as_ref() else { return 0 };
        let mut count = 0;
        for frame in frames {
            if !connection.put(count, frame) {
                break;
            }
            count += 1;
        }
        if count > 0 {
            connection.pass(count);
        }
        count.into()
    }
}

/// Whether there is something to read, or the other side is gone.
fn ready(socket: &OwnedFd) -> bool {
    let mut wanted = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut wanted, Some(&LOOK)).is_ok_and(|count| count > 0)
}

fn serve(listener: &OwnedFd, shared: &Shared, name: &str) {
    while !shared.stop.load(Ordering::Acquire) {
        if !ready(listener) {
            continue;
        }
        let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC) else { continue };
        let end = converse(&client, shared);
        shared.connection.store(None);
        match end {
            Ok(reason) => tracing::info!("{name}: the client has gone: {reason}"),
            Err(reason) => {
                // One that is gone already can't be told.
                let _ = tell(&client, &Message::Disconnect { reason: reason.to_string() });
                let_read(&client);
                tracing::warn!("{name}: the client is disconnected: {reason}");
            }
        }
    }
}

/// Speaks with a client to its end. `Ok`: the client's own, and why.
fn converse(client: &OwnedFd, shared: &Shared) -> Result<String, DisconnectReason> {
    let gone = |error: rustix::io::Errno| Ok(error.to_string());
    if let Err(error) = tell(client, &Message::Hello) {
        return gone(error);
    }
    let (mut session, accepted) = (Session::default(), Instant::now());
    loop {
        if shared.stop.load(Ordering::Acquire) {
            return Err(DisconnectReason::End);
        }
        match shared.connection.load().as_ref() {
            Some(connection) if connection.is_broken() => return Err(DisconnectReason::Contents),
            None if accepted.elapsed() > PATIENCE => return Err(DisconnectReason::Late),
            _ => {}
        }
        if !ready(client) {
            continue;
        }
        let (message, descriptor) = match hear(client) {
            Ok(Some((bytes, descriptor))) => {
                (Message::read(&bytes).ok_or(DisconnectReason::Message)?, descriptor)
            }
            Ok(None) => return Ok("its socket is closed".to_owned()),
            Err(error) => return gone(error),
        };
        let answer = match session.take(&message, descriptor)? {
            Step::Ack => Message::Ack,
            Step::Connected(connection) => {
                if shared.connection.swap(Some(Arc::new(connection))).is_some() {
                    return Err(DisconnectReason::Order);
                }
                Message::Connected
            }
            Step::Gone(reason) => return Ok(reason),
        };
        if let Err(error) = tell(client, &answer) {
            return gone(error);
        }
    }
}

/// Lets a client read why it is disconnected: the kernel reports a reset in place of that
/// if the socket is closed while it holds messages of the client.
fn let_read(client: &OwnedFd) {
    for _ in 0..LINGER_LOOKS {
        if ready(client) && !matches!(hear(client), Ok(Some(_))) {
            return;
        }
    }
}

fn tell(client: impl AsFd, message: &Message) -> rustix::io::Result<()> {
    let bytes = message.write();
    // A client that reads nothing must not hold the thread up.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(client, &[IoSlice::new(&bytes)], &mut SendAncillaryBuffer::default(), flags)?;
    Ok(())
}

/// The bytes of a message, and the first descriptor that came with it.
type Heard = (Vec<u8>, Option<OwnedFd>);

/// The next message; `None`: there will be none.
fn hear(client: &OwnedFd) -> rustix::io::Result<Option<Heard>> {
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let length = match recvmsg(client, &mut into, &mut control, flags) {
        Err(rustix::io::Errno::CONNRESET) => 0,
        other => other?.bytes,
    };
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for one in descriptors {
                descriptor.get_or_insert(one);
            }
        }
    }
    Ok((length > 0).then(|| (bytes.get(..length).unwrap_or_default().to_vec(), descriptor)))
}

//! The process that serves the control API, watched by the one that runs the load
//! balancer: killed or hung, it stops no packet, and another takes its place.
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::Socket;
use dataplane::LoadBalancer;

/// How long after the last start another process is started.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the process may take to end when the load balancer has.
const GRACE: Duration = Duration::from_secs(1);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// The process, and the socket that outlives it.
#[derive(Debug)]
pub(crate) struct ControlProcess {
    socket: Socket,
    child: Option<Child>,
    started: Instant,
}

impl ControlProcess {
    /// Starts the process, which serves `socket`.
    pub(crate) fn start(socket: Socket, balancer: &LoadBalancer) -> io::Result<Self> {
        let child = Some(spawn(&socket, balancer)?);
        Ok(Self { socket, child, started: Instant::now() })
    }

    /// Starts another process if the last one has ended.
    pub(crate) fn watch(&mut self, balancer: &LoadBalancer) {
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => return,
                Ok(Some(status)) => tracing::error!(
                    "the process of the control API has ended ({status}); traffic goes on, and another is started"
                ),
                Err(error) => {
                    tracing::error!(%error, "the process of the control API can't be watched");
                }
            }
            self.child = None;
        }
        if self.started.elapsed() < PAUSE {
            return;
        }
        self.started = Instant::now();
        match spawn(&self.socket, balancer) {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                tracing::error!(%error, "the process of the control API can't be started")
            }
        }
    }
}

impl Drop for ControlProcess {
    /// The process ends by itself when the load balancer has ended; a hung one is ended.
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let since = Instant::now();
        while since.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        // One that has ended can't be killed any more.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Standard input is the link to the load balancer, and standard output the socket:
/// nothing else is inherited.
fn spawn(socket: &Socket, balancer: &LoadBalancer) -> io::Result<Child> {
    let link = OwnedFd::from(balancer.connect()?);
    let listener = OwnedFd::from(socket.listener().try_clone()?);
    Command::new(std::env::current_exe()?)
        .args(["api", "--owner", &socket.owner().to_string()])
        .stdin(Stdio::from(link))
        .stdout(Stdio::from(listener))
        // A Ctrl-C is for the load balancer, which stops the process.
        .process_group(0)
        .spawn()
}

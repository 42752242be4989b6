//! The process that serves the control API, watched by the one that runs the load
//! balancer: killed or hung, it stops no packet, and another takes its place.
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::Socket;
use dataplane::LoadBalancer;

use crate::cli::LogFormat;

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
    /// The arguments of the command.
    words: Vec<OsString>,
    child: Option<Child>,
    started: Instant,
}

impl ControlProcess {
    /// Starts the process with these [`words`], which serves `socket`.
    pub(crate) fn start(
        socket: Socket,
        words: Vec<OsString>,
        balancer: &LoadBalancer,
    ) -> io::Result<Self> {
        let child = Some(spawn(&socket, &words, balancer)?);
        Ok(Self { socket, words, child, started: Instant::now() })
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
        match spawn(&self.socket, &self.words, balancer) {
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

/// The command that serves `api`, and its arguments.
pub(crate) fn words(owner: u32, api: &config::Api, log_format: LogFormat) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["api".into(), format!("--owner={owner}").into()];
    if log_format == LogFormat::Json {
        words.push("--log-format=json".into());
    }
    let listen = api.listen.map(|address| address.to_string().into());
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.clone().into_os_string());
    let values: [(&str, Option<OsString>); 4] = [
        ("--listen=", listen),
        ("--certificate=", path(&api.certificate)),
        ("--key=", path(&api.key)),
        ("--tokens=", path(&api.tokens)),
    ];
    let names = api.names.iter().map(|name| ("--name=", Some(name.into())));
    for (flag, value) in values.into_iter().chain(names) {
        if let Some(value) = value {
            let mut word = OsString::from(flag);
            word.push(value);
            words.push(word);
        }
    }
    words
}

/// Standard input is the link to the load balancer, and standard output the socket:
/// nothing else is inherited.
fn spawn(socket: &Socket, words: &[OsString], balancer: &LoadBalancer) -> io::Result<Child> {
    let link = OwnedFd::from(balancer.connect()?);
    let listener = OwnedFd::from(socket.listener().try_clone()?);
    Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::from(link))
        .stdout(Stdio::from(listener))
        // A Ctrl-C is for the load balancer, which stops the process.
        .process_group(0)
        .spawn()
}

//! The process that has the private keys and does nothing but sign with them: the load
//! balancer's own memory has none of them.
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Has private keys that are read from now on kept by a process, which is started with the
/// first of them, and again should it end.
pub(crate) fn keep_keys() {
    let present = Mutex::new(None::<Child>);
    tls::keep_keys_in(move || {
        let mut present = present.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut last) = present.take() {
            // It has ended, or is hung.
            let _ = last.kill();
            match last.wait() {
                Ok(status) => tracing::error!(
                    "the process of the private keys has ended ({status}); another is started"
                ),
                Err(error) => {
                    tracing::error!(%error, "the process of the private keys can't be watched");
                }
            }
        }
        let (ours, theirs) = UnixStream::pair()?;
        *present = Some(spawn(OwnedFd::from(theirs))?);
        Ok(ours)
    });
}

/// Standard input is the link to the load balancer; the process ends with it.
fn spawn(link: OwnedFd) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("keys")
        .stdin(Stdio::from(link))
        .stdout(Stdio::null())
        // A Ctrl-C is for the load balancer.
        .process_group(0)
        .spawn()
}

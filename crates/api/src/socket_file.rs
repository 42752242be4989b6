//! The file of the status socket: its directory, its owner, its permissions.
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use config::Status;
use nix::unistd::{Group, Uid, User, geteuid};

use crate::SocketError;

/// Where HNLB makes directories: what is there lasts until the machine starts anew.
const RUN: [&str; 2] = ["/run", "/var/run"];

/// Makes the socket that `status` asks for. A socket that no process serves is
/// replaced. Gives the user beside root whose clients may change things, too.
pub(crate) fn bind(status: &Status) -> Result<(UnixListener, Uid), SocketError> {
    let path = status.socket.as_path();
    let failed = |source| SocketError::Bind { path: path.to_owned(), source };
    let ids = Ids::of(status)?;
    if UnixStream::connect(path).is_ok() {
        return Err(SocketError::Taken { path: path.to_owned() });
    }
    make_directory(path)?;
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            return Err(SocketError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => fs::remove_file(path).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let admit = || {
        if ids.owner.is_some() || ids.group.is_some() {
            chown(path, ids.owner, ids.group)?;
        }
        // Whatever the umask is.
        fs::set_permissions(path, Permissions::from_mode(status.mode))?;
        Ok(())
    };
    if let Err(source) = admit() {
        // The error of the removal would hide the first one.
        let _ = fs::remove_file(path);
        return Err(failed(source));
    }
    Ok((listener, ids.owner.map_or_else(geteuid, Uid::from_raw)))
}

/// Makes the directory of `path` below `/run`; elsewhere it must be there, since a
/// missing one is more likely a typing error.
fn make_directory(path: &Path) -> Result<(), SocketError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    if parent.is_dir() {
        return Ok(());
    }
    let failed = |source| SocketError::Bind { path: path.to_owned(), source };
    if RUN.iter().any(|run| parent.starts_with(run)) {
        return fs::create_dir_all(parent).map_err(failed);
    }
    Err(SocketError::NoDirectory { path: path.to_owned(), parent: parent.to_owned() })
}

/// Owner and group by number; `None`: as the process has them.
struct Ids {
    owner: Option<u32>,
    group: Option<u32>,
}

impl Ids {
    fn of(status: &Status) -> Result<Self, SocketError> {
        let unknown = |kind, name: &String, error: Option<nix::Error>| {
            let source = error.map_or_else(|| io::Error::from(ErrorKind::NotFound), Into::into);
            SocketError::NoSuchName { kind, name: name.clone(), source }
        };
        let owner = status.owner.as_ref().map(|name| match User::from_name(name) {
            Ok(Some(user)) => Ok(user.uid.as_raw()),
            Ok(None) => Err(unknown("owner", name, None)),
            Err(error) => Err(unknown("owner", name, Some(error))),
        });
        let group = status.group.as_ref().map(|name| match Group::from_name(name) {
            Ok(Some(group)) => Ok(group.gid.as_raw()),
            Ok(None) => Err(unknown("group", name, None)),
            Err(error) => Err(unknown("group", name, Some(error))),
        });
        Ok(Self { owner: owner.transpose()?, group: group.transpose()? })
    }
}

//! `[status]`.
use std::os::unix::ffi::OsStrExt;

use crate::tree::Way;

use super::Findings;

/// Bytes of the longest path of a Unix socket: `sun_path` of `sockaddr_un`
/// (unix(7)) without the zero behind it.
const LONGEST_SOCKET: usize = 107;

pub(super) fn check(findings: &mut Findings<'_>) {
    let status = &findings.config.status;
    let way = Way::to("status");
    let length = status.socket.as_os_str().as_bytes().len();
    if length == 0 {
        let text = "the path is empty; give one, as \"/run/hnlb/hnlb.sock\", or leave this out";
        findings.wrong(&way.key("socket"), text);
    } else if length > LONGEST_SOCKET {
        let text = format!(
            "the path has {length} bytes; that of a Unix socket has at most {LONGEST_SOCKET}"
        );
        findings.wrong(&way.key("socket"), text);
    }
    if status.state_file.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        let text = "the path is empty; give one, or leave this out";
        findings.wrong(&way.key("state_file"), text);
    }
}

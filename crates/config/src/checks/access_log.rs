//! `[access_log]`.
use crate::tree::Way;

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>) {
    let Some(log) = &findings.config.access_log else { return };
    if !log.file.is_absolute() || log.file.file_name().is_none() {
        let text = format!(
            "'{}' is no absolute path of a file; give one, as \"/var/log/hnlb/access.log\"",
            log.file.display()
        );
        findings.wrong(&Way::to("access_log").key("file"), text);
    }
}

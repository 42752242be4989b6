//! `[api]`.
use crate::tree::Way;

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>) {
    let api = &findings.config.api;
    let way = Way::to("api");
    let files = [("certificate", &api.certificate), ("key", &api.key), ("tokens", &api.tokens)];
    for (name, file) in files {
        match file {
            None if api.listen.is_some() => {
                let text =
                    format!("with listen the API needs {name}; name the file, or leave listen out");
                findings.wrong(&way.key("listen"), text);
            }
            Some(path) if path.as_os_str().is_empty() => {
                findings.wrong(&way.key(name), "the path is empty; give one, or leave this out");
            }
            Some(_) if api.listen.is_none() => {
                let text = "without listen the API is served at the Unix socket only, which has no use for it; give listen, or leave this out";
                findings.wrong(&way.key(name), text);
            }
            _ => {}
        }
    }
    for (at, name) in api.names.iter().enumerate() {
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if !is_name {
            let text =
                format!("'{name}' is no host name; write it without a port, as lb1.example.net");
            findings.wrong(&way.key("names").item(at), text);
        }
    }
}

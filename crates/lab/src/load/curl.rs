//! One-shot HTTP requests by curl.

use std::net::IpAddr;
use std::time::Duration;

use super::wrk::url;
use crate::servers;
use crate::topology::WEB_PORT;
use crate::{Lab, LabError, Stop};

/// One request on a connection of its own; returns the backend's name.
///
/// # Errors
/// If it fails or takes longer than ten seconds.
pub fn get(lab: &Lab, client: &str, vip: IpAddr) -> Result<String, LabError> {
    let url = url(vip, WEB_PORT, "/");
    let output = lab.exec(client, &["curl", "-sSfg", "-m", "10", &url])?.success()?;
    Ok(output.stdout.trim().to_owned())
}

/// As many connections at a time, each of which may fail and takes a second at most.
///
/// # Errors
/// If the shell cannot be run.
pub(crate) fn try_many(lab: &Lab, client: &str, vip: IpAddr, count: usize) -> Result<(), LabError> {
    let url = url(vip, WEB_PORT, "/");
    let one = format!("curl -sfg -m 1 -o /dev/null '{url}' &");
    let script = format!("for _ in $(seq {count}); do {one} done; wait; true");
    lab.exec(client, &["sh", "-c", &script])?.success().map(drop)
}

/// Several requests on one connection; returns the backend's name for each.
///
/// # Errors
/// If one fails, or if curl needed more than one connection.
pub fn get_keep_alive(
    lab: &Lab,
    client: &str,
    vip: IpAddr,
    requests: usize,
) -> Result<Vec<String>, LabError> {
    let url = url(vip, WEB_PORT, "/");
    let mut argv = vec!["curl", "-sSfg", "-m", "60", "-w", "%{num_connects}\\n"];
    argv.resize(argv.len() + requests, &url);
    let output = lab.exec_for(client, &argv, Duration::from_secs(90))?.success()?;
    keep_alive(&output.stdout)
}

/// Reads pairs of lines: backend, connections made for this request.
fn keep_alive(stdout: &str) -> Result<Vec<String>, LabError> {
    let lines: Vec<&str> = stdout.lines().collect();
    let mut backends = Vec::new();
    for (number, pair) in lines.chunks(2).enumerate() {
        let expected = if number == 0 { "1" } else { "0" };
        match pair {
            [backend, made] if *made == expected => backends.push((*backend).to_owned()),
            _ => {
                return Err(LabError::Parse {
                    tool: "curl",
                    detail: format!(
                        "request {number} should have made {expected} connections: {stdout}"
                    ),
                });
            }
        }
    }
    Ok(backends)
}

/// Downloads the large file at no more than `rate` (curl's notation, for
/// instance `512k` bytes a second); returns the backend's name.
///
/// # Errors
/// If it fails, takes longer than a minute, or is not the same byte for byte.
pub fn download(
    lab: &Lab,
    client: &str,
    vip: IpAddr,
    rate: Option<&str>,
) -> Result<String, LabError> {
    let url = url(vip, WEB_PORT, "/big");
    let what = || LabError::io(format!("make a file in {}", lab.dir().display()));
    let file = tempfile::NamedTempFile::new_in(lab.dir()).map_err(what())?;
    let path = file.path().display().to_string();
    let mut argv = vec!["curl", "-sSfg", "-m", "60", "-o", &path, "-D", "-"];
    if let Some(rate) = rate {
        argv.extend(["--limit-rate", rate]);
    }
    argv.push(&url);
    let output = lab.exec_for(client, &argv, Duration::from_secs(90))?.success()?;
    let bytes = std::fs::read(file.path()).map_err(what())?;
    downloaded(&output.stdout, &bytes)
}

/// One [`download`] after the other until `end`: how many were whole, and what was
/// wrong with the others.
///
/// # Errors
/// The lab is to stop.
pub(crate) fn downloads(
    lab: &Lab,
    client: &str,
    vip: IpAddr,
    rate: &str,
    end: &Stop,
) -> Result<(u64, Vec<String>), LabError> {
    let (mut whole, mut wrong) = (0, Vec::new());
    while !end.requested() {
        match download(lab, client, vip, Some(rate)) {
            Ok(_) => whole += 1,
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => wrong.push(format!("download from {vip} at {client}: {error}")),
        }
    }
    Ok((whole, wrong))
}

fn downloaded(stdout: &str, bytes: &[u8]) -> Result<String, LabError> {
    let bad = |detail| LabError::Parse { tool: "curl", detail };
    let expected = servers::big();
    if bytes != expected {
        let same = bytes.iter().zip(&expected).take_while(|(own, other)| own == other).count();
        return Err(bad(format!(
            "not the file of {} bytes: {} bytes, of which the first {same} are right: {stdout}",
            expected.len(),
            bytes.len()
        )));
    }
    let header = stdout.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("x-backend").then(|| value.trim().to_owned())
    });
    header.ok_or_else(|| bad(format!("no X-Backend header in: {stdout}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_connection_is_noticed() {
        assert_eq!(keep_alive("b1\n1\nb1\n0\n").unwrap(), ["b1", "b1"]);
        assert!(keep_alive("b1\n1\nb1\n1\n").is_err());
        assert!(keep_alive("b1\n1\nb1\n").is_err());
    }

    #[test]
    fn a_download_with_another_byte_is_noticed() {
        let headers = "HTTP/1.1 200 OK\r\nX-Backend: b3\r\n\r\n";
        let mut bytes = servers::big();
        assert_eq!(downloaded(headers, &bytes).unwrap(), "b3");
        assert!(downloaded("HTTP/1.1 200 OK\r\n\r\n", &bytes).is_err());
        assert!(downloaded(headers, &bytes[1..]).is_err());
        bytes[70_000] ^= 1;
        let error = downloaded(headers, &bytes).unwrap_err().to_string();
        assert!(error.contains("the first 70000 are right"), "{error}");
    }
}

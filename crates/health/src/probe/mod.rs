//! One probe: what is sent to the backend, and what its answer means.
pub mod dns;

mod command;
mod grpc;
mod http;
mod icmp;
mod tcp;
mod tls;

use std::time::Duration;

use crate::{Check, Outcome, Target};

/// The text of a failed probe is cut to this many characters.
const LONGEST: usize = 200;

/// Probes `target`. Whatever happens, it ends after the target's timeout.
pub(crate) async fn probe(target: &Target) -> Outcome {
    let Target { key, at, check, settings } = target;
    let timeout = Duration::from_millis(settings.timeout_ms);
    let answer = async {
        match check {
            Check::Tcp => tcp::connect(*at).await.map(drop),
            Check::Http(check) => http::plain(*at, check).await,
            Check::Https(check) => http::over_tls(*at, check).await,
            Check::Dns { name } => dns::ask(*at, name).await,
            Check::Icmp => icmp::echo(at.ip()).await,
            Check::Grpc { service } => grpc::ask(*at, service).await,
            Check::Command { argv } => command::run(argv, key).await,
        }
    };
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(why)) => Outcome::Failed(printable(&why)),
        Err(_) => Outcome::Failed(format!("no answer within {} ms", settings.timeout_ms)),
    }
}

/// `text` as one line of a log: it may have come from the backend.
fn printable(text: &str) -> String {
    let plain = text.chars().map(|one| if one.is_control() { ' ' } else { one });
    plain.take(LONGEST).collect()
}

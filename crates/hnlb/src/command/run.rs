//! `hnlb run`: the load balancer.
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use config::Config;
use control::{Reloaded, Request};
use dataplane::LoadBalancer;
use dataplane::control::{RequestError, ask};

use crate::cli::RunArgs;
use crate::{CommandResult, stop};

/// How often the main thread looks whether it is time to stop.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &RunArgs) -> CommandResult {
    let config = Config::load(&args.config)?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let signals = stop::on_signal()?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let balancer = LoadBalancer::start(&config, &args.config, seed)?;
    tracing::info!(
        services = config.services.len(),
        socket = %config.status.socket.display(),
        "running; `hnlb status` tells when every backend's next hop has answered"
    );
    while !signals.stop.load(Ordering::Relaxed) {
        if signals.reload.swap(false, Ordering::Relaxed) {
            reload(&config);
        }
        if let Some(thread) = balancer.failed_thread() {
            let error = format!(
                "the thread '{thread}' has ended, which it never should; everything was stopped, \
                 and its last words are above: please report them"
            );
            balancer.stop();
            return Err(error.into());
        }
        std::thread::sleep(LOOK);
    }
    tracing::info!("stopping: taking the rules back from the NIC");
    balancer.stop();
    Ok(ExitCode::SUCCESS)
}

/// SIGHUP is a request like that of `hnlb reload`; the load balancer logs its result.
fn reload(config: &Config) {
    let request = Request::Reload { file: None, dry_run: false };
    match ask::<Reloaded>(&config.status.socket, &request) {
        Ok(_) | Err(RequestError::Refused(_)) => {}
        Err(error) => tracing::error!("SIGHUP: {error}"),
    }
}

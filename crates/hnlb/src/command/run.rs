//! `hnlb run`: the load balancer.
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use config::Config;
use dataplane::LoadBalancer;

use crate::cli::RunArgs;
use crate::{CommandResult, stop};

/// How often the main thread looks whether it is time to stop.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &RunArgs) -> CommandResult {
    let config = Config::load(&args.config)?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let stop = stop::on_signal()?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let balancer = LoadBalancer::start(&config, seed)?;
    tracing::info!(
        services = config.services.len(),
        socket = %config.status.socket.display(),
        "running; `hnlb status` tells when every backend's next hop has answered"
    );
    while !stop.load(Ordering::Relaxed) {
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

//! `hnlb run`: the load balancer.
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use api::Socket;
use config::Config;
use control::{Reloaded, Request};
use dataplane::LoadBalancer;
use dataplane::link::{CallError, Caller};
use status::AnnounceStatus;

use crate::cli::{LogFormat, RunArgs};
use crate::control_process::{self, ControlProcess};
use crate::supervisor::Supervisor;
use crate::{CommandResult, key_process, secrecy, stop};

/// How often the main thread looks whether it is time to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long a process that ends may take to let go of the socket.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &RunArgs, log_format: LogFormat) -> CommandResult {
    key_process::keep_keys();
    let (config, warnings) = Config::load_with_warnings(&args.config)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let signals = stop::on_signal()?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    api::check(&config.api)?;
    secrecy::guard(&config);
    let socket = Socket::bind(&config.status, PATIENCE)?;
    let balancer = LoadBalancer::start(&config, &args.config, seed)?;
    let words = control_process::words(socket.owner(), &config.api, log_format);
    let mut process = ControlProcess::start(socket, words, &balancer)?;
    tracing::info!(
        services = config.services.len(),
        socket = %config.status.socket.display(),
        "running; `hnlb status` tells when every backend's next hop has answered"
    );
    let mut supervisor = Supervisor::from_env();
    supervisor.ready();
    while !signals.stop.load(Ordering::Relaxed) {
        if signals.reload.swap(false, Ordering::Relaxed) {
            reload(&balancer);
        }
        process.watch(&balancer);
        if let Some(thread) = balancer.failed_thread() {
            let error = format!(
                "the thread '{thread}' has ended, which it never should; everything was stopped, \
                 and its last words are above: please report them"
            );
            balancer.stop();
            return Err(error.into());
        }
        supervisor.alive(Instant::now());
        std::thread::sleep(LOOK);
    }
    supervisor.stopping();
    if let Some(announce) = &config.announce {
        leave(&balancer, announce.leave, || {
            process.watch(&balancer);
            supervisor.alive(Instant::now());
        });
    }
    tracing::info!("stopping: taking the rules back from the NIC");
    balancer.stop();
    Ok(ExitCode::SUCCESS)
}

/// Withdraws the VIPs and serves on for `time`, until routers use other ways; another
/// Ctrl-C or SIGTERM ends the program at once. `watch` is called meanwhile.
fn leave(balancer: &LoadBalancer, time: Duration, mut watch: impl FnMut()) {
    let asked = balancer.connect().map_err(CallError::from);
    let request = Request::Announce { withdraw: Some(true) };
    match asked.and_then(|link| Caller::new(link).ask::<AnnounceStatus>(&request)) {
        Ok(_) => {}
        Err(error) => return tracing::error!("the VIPs are not withdrawn before the end: {error}"),
    }
    tracing::info!(?time, "stopping: the VIPs are withdrawn; what still comes is served");
    let until = Instant::now() + time;
    while Instant::now() < until && balancer.failed_thread().is_none() {
        watch();
        std::thread::sleep(LOOK);
    }
}

/// SIGHUP is a request like that of `hnlb reload`; the load balancer logs its result.
fn reload(balancer: &LoadBalancer) {
    let request = Request::Reload { file: None, dry_run: false };
    let asked = balancer.connect().map_err(CallError::from);
    match asked.and_then(|link| Caller::new(link).ask::<Reloaded>(&request)) {
        Ok(_) | Err(CallError::Refused(_)) => {}
        Err(error) => tracing::error!("SIGHUP: {error}"),
    }
}

//! `hnlb run`: the load balancer.
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
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
    let withdrawn = balancer.connect().map_err(CallError::from).and_then(|link| {
        let request = Request::Announce { withdraw: Some(true) };
        let asking = apart("withdraw", move || Caller::new(link).ask::<AnnounceStatus>(&request))?;
        while !asking.is_finished() {
            watch();
            std::thread::sleep(LOOK);
        }
        asking.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread failed").into()))
    });
    match withdrawn {
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
    let asking = balancer.connect().and_then(|link| {
        let request = Request::Reload { file: None, dry_run: false };
        apart("reload", move || match Caller::new(link).ask::<Reloaded>(&request) {
            Ok(_) | Err(CallError::Refused(_)) => {}
            Err(error) => tracing::error!("SIGHUP: {error}"),
        })
    });
    if let Err(error) = asking {
        tracing::error!("SIGHUP: {error}");
    }
}

/// Runs `asks` in a thread of its own: a reload may take longer than systemd waits for a
/// sign of life, and traffic does not depend on it.
fn apart<T: Send + 'static>(
    name: &str,
    asks: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(asks)
}

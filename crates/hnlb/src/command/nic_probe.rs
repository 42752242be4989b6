//! `hnlb nic probe`: what a card takes, holds and costs.
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use dataplane::TrialCard;
use flow::CardProfile;
use prober::{Card, EmulatedCard, Options};

use crate::cli::NicProbeArgs;
use crate::{CommandResult, output};

/// How the devices begin that are emulated.
const EMULATED: &str = "emulated:";

pub(crate) fn run(args: &NicProbeArgs) -> CommandResult {
    let mut card = open(args)?;
    let options = Options { most_rules: args.rules, packets: args.packets };
    let report = prober::examine(&mut *card, &options, &|what| tracing::info!("trying {what}"));
    if args.json {
        output::print(&(serde_json::to_string(&report)? + "\n"))?;
    } else {
        output::print(&report.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open(args: &NicProbeArgs) -> Result<Box<dyn Card>, crate::CommandError> {
    let Some(profile) = args.device.strip_prefix(EMULATED) else {
        if args.capacity.is_some() {
            return Err(
                "--capacity is for emulated cards; a real one says itself how much it holds".into(),
            );
        }
        config::check_device(&args.device)?;
        args.peer.as_deref().map_or(Ok(()), config::check_device)?;
        return Ok(Box::new(TrialCard::open(&args.device, args.peer.as_deref(), args.queues)?));
    };
    if args.peer.is_some() {
        return Err("an emulated card gets its packets without a peer; leave --peer out".into());
    }
    let profile: CardProfile = profile.parse()?;
    let capacity = args.capacity.map(|entries| entries as usize);
    Ok(Box::new(EmulatedCard::new(profile, (args.queues, capacity), nanoseconds)?))
}

/// Nanoseconds since the first call.
fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

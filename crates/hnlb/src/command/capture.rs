//! `hnlb capture`: what workers receive and send, into a pcapng file.
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::capture::{CaptureWriter, Format, Note};
use api::Client;
use control::{CaptureFilter, CaptureOrder};
use serde_json::json;
use status::{CaptureBatch, CaptureStarted, CapturedFrame};

use crate::cli::CaptureArgs;
use crate::{CommandError, CommandResult, output, stop};

/// How often a person who waits is told how far it is.
const TOLD: Duration = Duration::from_secs(1);
/// How long frames wait to be taken.
const EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &CaptureArgs) -> CommandResult {
    let stopped = stop::on_signal()?.stop;
    let client = Client::new(&args.socket);
    let started: CaptureStarted = client.post(&["v1", "captures"], &order(args))?;
    let id = started.id.to_string();
    let saved = save(args, &client, (&id, &started.ports), &stopped);
    if saved.is_err() {
        // Otherwise it would go on, and no other could begin. It may have ended by itself.
        let _: Result<CaptureBatch, _> = client.delete(&["v1", "captures", &id]);
    }
    let (frames, batch) = saved?;
    let ended = batch.ended.unwrap_or_default();
    let report = json!({ "frames": frames, "lost": batch.lost, "ended": ended });
    if args.out == Path::new("-") && args.json {
        eprintln!("{report}");
    } else if args.out == Path::new("-") {
        eprintln!("hnlb: {frames} frames, {} packets lost: {ended}", batch.lost);
    } else if args.json {
        output::print(&format!("{report}\n"))?;
    } else {
        let file = args.out.display();
        output::print(&format!(
            "{frames} frames in {file}, {} packets lost: {ended}\n",
            batch.lost
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Saves the capture with this number, of these ports: how many frames, and the last batch.
fn save(
    args: &CaptureArgs,
    client: &Client,
    (id, ports): (&str, &[String]),
    stopped: &AtomicBool,
) -> Result<(u64, CaptureBatch), CommandError> {
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let mut writer = CaptureWriter::create(&args.out, Format::PcapNg, &ports, &[])?;
    let taken = take_all(client, id, &mut writer, stopped)?;
    writer.finish()?;
    Ok(taken)
}

fn order(args: &CaptureArgs) -> CaptureOrder {
    CaptureOrder {
        filter: CaptureFilter {
            port: args.port.clone(),
            protocol: args.protocol,
            address: args.address,
            l4_port: args.l4_port,
            service: args.service.clone(),
        },
        side: args.side,
        packets: args.count,
        bytes: args.bytes,
        seconds: args.seconds,
    }
}

/// Writes what the capture catches until it ends or is `stopped`: how many frames, and
/// the last batch.
fn take_all(
    client: &Client,
    id: &str,
    writer: &mut CaptureWriter,
    stopped: &AtomicBool,
) -> Result<(u64, CaptureBatch), CommandError> {
    let path = ["v1", "captures", id];
    let mut frames = 0;
    let (began, is_watched) = (Instant::now(), std::io::stderr().is_terminal());
    let mut told = began;
    loop {
        let stops = stopped.load(Ordering::Relaxed);
        let batch: CaptureBatch = if stops { client.delete(&path)? } else { client.get(&path)? };
        for frame in &batch.frames {
            write(writer, frame)?;
            frames += 1;
        }
        if stops || batch.ended.is_some() && batch.frames.is_empty() {
            return Ok((frames, batch));
        }
        if is_watched && told.elapsed() >= TOLD {
            told = Instant::now();
            eprintln!("hnlb: {frames} frames in {} s", began.elapsed().as_secs());
        }
        std::thread::sleep(EVERY);
    }
}

fn write(writer: &mut CaptureWriter, frame: &CapturedFrame) -> Result<(), CommandError> {
    let CapturedFrame { time_ns, port, leaves, length, bytes, comment } = frame;
    let (leaves, length) = (*leaves, *length);
    let note = Note { comment, leaves, length };
    let bytes = hex::decode(bytes)?;
    writer.write_noted(u32::from(*port), Duration::from_nanos(*time_ns), &bytes, &note)?;
    Ok(())
}

//! The experiment.
use traffic::TrafficError;

use super::card::Card;
use super::oracle::Told;
use super::policy::{All, Heavy, Player, SAMPLE};
use super::population::Population;
use super::row::{Row, Summary};

/// A look at the card every so often.
const LOOK_MS: u64 = 250;

/// Connections that are in line at the start: what the offload side lets wait.
const LINE: usize = 1 << 16;

/// How the rates change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// All connections change places by chance: none of the heavy ones stays.
    All,
    /// So many of the heaviest change places with others by chance.
    Heaviest(u32),
}

impl Change {
    const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Heaviest(_) => "heaviest",
        }
    }
}

/// The settings of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Connections.
    pub connections: u32,
    /// Entries of the card, one for each connection.
    pub entries: usize,
    /// Insertions that the card takes in a second.
    pub insertions_per_second: u32,
    /// Packets per second of all connections.
    pub packets_per_second: u64,
    /// Zipf's exponents.
    pub alphas: Vec<f64>,
    /// The changes to measure, each in a run of its own.
    pub changes: Vec<Change>,
    /// Seconds from the start to the change.
    pub before_s: u64,
    /// Seconds from the change to the end.
    pub after_s: u64,
    /// Of everything by chance; each is a run of its own of everything.
    pub seeds: Vec<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 1_000_000,
            entries: 8_192,
            insertions_per_second: 1_000,
            packets_per_second: 5_000_000,
            alphas: vec![1.0, 1.1, 1.2],
            changes: vec![Change::All, Change::Heaviest(1_024)],
            before_s: 30,
            after_s: 15,
            seeds: (1..=5).collect(),
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Every look at every card.
    pub rows: Vec<Row>,
    /// One for each run.
    pub summaries: Vec<Summary>,
    /// What it was measured with.
    pub options: Options,
}

/// Runs every policy for every exponent, change and seed. `told` is called with the
/// runs done and all runs.
///
/// # Errors
/// No connections, or an exponent that is none.
pub fn run(options: &Options, told: &mut dyn FnMut(usize, usize)) -> Result<Outcome, TrafficError> {
    let policies = ["heavy", "all", "all-by-packets", "told"];
    let all = options.alphas.len() * options.changes.len() * policies.len() * options.seeds.len();
    let mut outcome = Outcome { rows: Vec::new(), summaries: Vec::new(), options: options.clone() };
    for &alpha in &options.alphas {
        for &change in &options.changes {
            for policy in policies {
                for &seed in &options.seeds {
                    let rows = one(options, alpha, change, policy, seed)?;
                    outcome.summaries.extend(Summary::of(&rows));
                    outcome.rows.extend(rows);
                    told(outcome.summaries.len(), all);
                }
            }
        }
    }
    Ok(outcome)
}

/// One policy's run. All policies see the same packets.
fn one(
    options: &Options,
    alpha: f64,
    change: Change,
    policy: &'static str,
    seed: u64,
) -> Result<Vec<Row>, TrafficError> {
    let mut population = Population::new(options.connections, alpha, seed)?;
    let mut card = Card::new(options.entries, options.connections);
    let oracle = population.share(options.entries);
    let mut player = player(options, policy, &mut population);
    player.changed(&population);
    let (change_ms, end_ms) =
        (options.before_s * 1000, (options.before_s + options.after_s) * 1000);
    let per_second = options.packets_per_second / u64::from(SAMPLE);
    let mut rows = Vec::new();
    for now_ms in 0..=end_ms {
        if now_ms == change_ms {
            population.change(match change {
                Change::All => options.connections as usize,
                Change::Heaviest(some) => some as usize,
            });
            player.changed(&population);
        }
        for _ in per_second * now_ms / 1000..per_second * (now_ms + 1) / 1000 {
            let conn = population.packet();
            player.packet(conn, now_ms);
        }
        player.tick(now_ms, &mut card, &population);
        if now_ms % LOOK_MS == 0 {
            let (admitted, evicted) = player.counts();
            rows.push(Row {
                seed,
                alpha,
                policy,
                change: change.name(),
                packets_per_second: options.packets_per_second,
                at_s: now_ms as f64 / 1000.0,
                since_change_s: (now_ms as f64 - change_ms as f64) / 1000.0,
                share: card.share(&population),
                oracle,
                rules: card.rules(),
                admitted,
                evicted,
            });
        }
    }
    Ok(rows)
}

fn player(options: &Options, policy: &'static str, population: &mut Population) -> Box<dyn Player> {
    let (budget, connections) = (options.insertions_per_second, options.connections);
    let mut line = population.in_any_order();
    line.truncate(LINE);
    match policy {
        "heavy" => Box::new(Heavy::new(budget)),
        "all" => Box::new(All::new(budget, line, connections)),
        "told" => Box::new(Told::new(budget)),
        _ => Box::new(All::new(budget, Vec::new(), connections)),
    }
}

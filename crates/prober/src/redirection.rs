//! What a change of the redirection table costs, since buckets of flows move between
//! workers by it.
use crate::card::Card;
use crate::report::RedirectionReport;
use crate::spread::Spread;

/// Changes of each kind.
const CHANGES: usize = 256;

/// Changes entries to and fro. The table is at the end as it was, if it can be read.
pub(crate) fn measure(card: &mut dyn Card) -> RedirectionReport {
    let (entries, queues) = (card.facts().redirection_entries, card.facts().queues);
    let mut report = RedirectionReport { entries, ..RedirectionReport::default() };
    if entries == 0 {
        report.refusal = Some("the card has no redirection table".to_owned());
        return report;
    }
    let before = card.redirection().ok();
    let other = queues.saturating_sub(1);
    let one = |round: usize| vec![(0, if round % 2 == 0 { other } else { 0 })];
    let all = |round: usize| {
        let queue = if round % 2 == 0 { other } else { 0 };
        (0..entries).map(|entry| (entry, queue)).collect::<Vec<_>>()
    };
    let measured = change(card, one).and_then(|spread| {
        report.one_entry = spread;
        change(card, all)
    });
    match measured {
        Ok(spread) => report.all_entries = spread,
        Err(reason) => report.refusal = Some(reason),
    }
    let written = all(CHANGES - 1);
    if report.all_entries.is_some() {
        let read = card.redirection().ok();
        report.reads_back = read.map(|read| {
            let queues: Vec<u16> = written.iter().map(|(_, queue)| *queue).collect();
            read == queues
        });
    }
    let put_back: Vec<(u16, u16)> = match before {
        Some(before) => (0..).zip(before).collect(),
        None => (0..entries).map(|entry| (entry, 0)).collect(),
    };
    if let Err(reason) = card.redirect(&put_back) {
        report.refusal.get_or_insert(reason);
    }
    report
}

/// How long the changes took that `change` names for each round.
fn change(
    card: &mut dyn Card,
    change: impl Fn(usize) -> Vec<(u16, u16)>,
) -> Result<Option<Spread>, String> {
    let mut times = Vec::with_capacity(CHANGES);
    for round in 0..CHANGES {
        let entries = change(round);
        let start = card.now_ns();
        card.redirect(&entries)?;
        times.push(card.now_ns().saturating_sub(start));
    }
    Ok(Spread::of(times))
}

//! What was measured, for people.
use measure::report::Report;

/// What every reader has to know.
const APART: &str = "The NIC and the traffic source run on one core, the load balancer on the other; \
    only the load balancer is measured.\n";
/// The same with one core.
pub(super) const ALONE: &str = "In saturation runs the NIC and the traffic source run by turns with \
    the load balancer on one core; only the load balancer is measured.";

/// Of a run whose figures say nothing.
pub(super) const BUSY: &str = "What was measured while other processes had the cores counts, too: \
    these figures say nothing of speed.";

/// Of a run that did not end by itself.
pub(super) const INTERRUPTED: &str = "The run was interrupted: some points are missing, and some were \
    measured less often than the settings say. No goal is judged.";

/// Medians over the repetitions.
pub(super) fn page(report: &Report, alone: bool) -> String {
    let first = if alone { ALONE.to_owned() + "\n" } else { APART.to_owned() };
    first + &report.text()
}

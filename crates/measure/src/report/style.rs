//! How systems look and what they are called.

use plotters::style::RGBColor;

/// A system in plots and tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Style {
    /// Its name in rows.
    pub(crate) system: &'static str,
    /// Its name for readers.
    pub(crate) label: &'static str,
    pub(crate) color: RGBColor,
    /// HNLB is dashed, as in the paper.
    pub(crate) dashed: bool,
}

/// In the order of legends; colours that are told apart with any eyes (Okabe
/// and Ito).
pub(crate) const STYLES: [Style; 7] = [
    style("slb-paper", "SLB as in the paper", RGBColor(213, 94, 0), false),
    style("slb-bulk", "SLB, rte_hash in bulk", RGBColor(86, 180, 233), false),
    style("slb", "SLB (ours)", RGBColor(230, 159, 0), false),
    style("hnlb-queue", "HNLB queue (the paper's)", RGBColor(0, 114, 178), true),
    style("hnlb-mark", "HNLB mark", RGBColor(0, 158, 115), true),
    style("hnlb-shared", "HNLB queue, 64 DIPs on 4", RGBColor(204, 121, 167), true),
    style("limit", "limit (no match at all)", RGBColor(110, 110, 110), false),
];

const fn style(system: &'static str, label: &'static str, color: RGBColor, dashed: bool) -> Style {
    Style { system, label, color, dashed }
}

/// Colours for the curves of one system each, by number of connections or size.
pub(crate) const SHADES: [RGBColor; 6] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
];

/// The styles that rows can have which are none of ours get the limit's.
pub(crate) fn label(system: &str) -> &str {
    STYLES.iter().find(|style| style.system == system).map_or(system, |style| style.label)
}

/// A count, short: 100, 8000, 65.5k, 1M.
pub(crate) fn short(count: u64) -> String {
    let scaled = |unit: f64, name: &str| {
        let text = format!("{:.1}", count as f64 / unit);
        format!("{}{name}", text.trim_end_matches(".0"))
    };
    match count {
        1_000_000.. => scaled(1e6, "M"),
        10_000.. => scaled(1e3, "k"),
        _ => count.to_string(),
    }
}

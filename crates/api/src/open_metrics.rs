//! Text in the format OpenMetrics 1.0.
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The media type of the format.
pub(crate) const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a family's samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They rise and fall.
    Gauge,
    /// They only rise; their names end in `_total`.
    Counter,
    /// They are 1, and the labels tell.
    Info,
    /// They count what was below a bound, in the label `le`.
    Histogram,
}

/// The text so far.
#[derive(Debug, Default)]
pub(crate) struct OpenMetrics(String);

/// A family, to which samples are added.
#[derive(Debug)]
pub(crate) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    suffix: &'static str,
}

impl OpenMetrics {
    /// Begins the family `name`. Its unit is what the name ends in, if `unit` says so.
    pub(crate) fn family(
        &mut self,
        (name, kind): (&'static str, Kind),
        unit: Option<&'static str>,
        help: &str,
    ) -> Family<'_> {
        let (word, suffix) = match kind {
            Kind::Gauge => ("gauge", ""),
            Kind::Counter => ("counter", "_total"),
            Kind::Info => ("info", "_info"),
            Kind::Histogram => ("histogram", ""),
        };
        let text = &mut self.0;
        // Writing to a string can't fail.
        let _ = writeln!(text, "# TYPE {name} {word}");
        if let Some(unit) = unit {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = write!(text, "# HELP {name} ");
        escape(text, help);
        text.push('\n');
        Family { text, name, suffix }
    }

    /// A family with a sample of each counter, whose name is the label's value.
    pub(crate) fn by_name(
        &mut self,
        family: (&'static str, Kind),
        label: &str,
        help: &str,
        counters: &BTreeMap<String, u64>,
    ) {
        let mut family = self.family(family, None, help);
        for (name, value) in counters {
            family.sample(&[(label, name)], *value as f64);
        }
    }

    /// The whole text.
    pub(crate) fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.part(self.suffix, labels, value)
    }

    /// Adds the samples of a histogram: how many were below each bound (`below`), those of
    /// lower bounds included, how many there were in all, and their sum.
    pub(crate) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        below: impl Iterator<Item = (f64, u64)>,
        (count, sum): (u64, f64),
    ) {
        let bucket = |own: &mut Self, bound: &str, value: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
            own.part("_bucket", &labels, value as f64);
        };
        // Bounds are written as numbers of OpenMetrics, with a point.
        below.for_each(|(bound, value)| bucket(self, &format!("{bound:?}"), value));
        bucket(self, "+Inf", count);
        self.part("_count", labels, count as f64).part("_sum", labels, sum);
    }

    fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (at, (name, value)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(self.text, value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
        self
    }
}

fn escape(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(letter),
        }
    }
}

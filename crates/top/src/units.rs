//! Numbers as people read them.

/// A count of things, as in `950`, `12.3 k`, `4.56 M`: three or four digits.
pub(crate) fn count(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v < 1000.0 => {
            return if v > 0.0 && v < 10.0 { format!("{v:.1}") } else { format!("{v:.0}") };
        }
        v if v < 1e6 => (v / 1e3, "k"),
        v if v < 1e9 => (v / 1e6, "M"),
        v => (v / 1e9, "G"),
    };
    let digits = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.digits$} {unit}")
}

/// A rate, or `-` while it is not known.
pub(crate) fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), count)
}

/// Bits per second of bytes per second.
pub(crate) fn bits(bytes: Option<f64>) -> String {
    rate(bytes.map(|bytes| bytes * 8.0))
}

/// A part of 1 in percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A time, as in `42 s`, `3 min 5 s`, `2 h 10 min`, `5 d 3 h`.
pub(crate) fn time(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (42.4, "42"),
            (999.0, "999"),
            (1000.0, "1.00 k"),
            (12_345.0, "12.3 k"),
            (123_456.0, "123 k"),
            (4_560_000.0, "4.56 M"),
            (7.8e9, "7.80 G"),
        ] {
            assert_eq!(count(value), text);
        }
        assert_eq!(rate(None), "-");
        assert_eq!(bits(Some(1_000_000.0)), "8.00 M");
        assert_eq!(percent(0.4567), "45.7 %");
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in
            [(5.9, "5 s"), (185.0, "3 min 5 s"), (7800.0, "2 h 10 min"), (442_800.0, "5 d 3 h")]
        {
            assert_eq!(time(seconds), text);
        }
    }
}

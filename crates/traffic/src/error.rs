//! Parameters that no traffic can have.

/// Why a generator cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// Traffic of no flows.
    #[error("traffic needs at least 1 flow, not 0")]
    NoFlows,
    /// An exponent that is no Zipf distribution's.
    #[error(
        "a Zipf exponent of {0} is not usable; it has to be finite and above 0, for instance 1.2"
    )]
    Exponent(f64),
    /// A range and mean of sizes that cannot be.
    #[error(
        "packet sizes from {min} to {max} bytes cannot have the mean {mean}; the mean has to lie strictly between"
    )]
    Sizes {
        /// Smallest size.
        min: u16,
        /// Largest size.
        max: u16,
        /// Wanted mean.
        mean: f64,
    },
    /// A number that has to be finite and above zero.
    #[error("the {what} of {value} has to be finite and above 0")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// What it was.
        value: f64,
    },
    /// A churn without kinds of connections.
    #[error("churn needs at least one class of connections")]
    NoClasses,
}

/// `value` if it is finite and above zero.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, TrafficError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(TrafficError::NotPositive { what, value })
    }
}

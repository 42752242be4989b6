//! XenoFlow's figures 4, 5, 6 and 8 in emulated time.
//!
//! Every packet goes through the emulated BlueField-3: its rules, made by the
//! load balancer's own owner of stateless services, match and rewrite it, and
//! where it comes out is checked against the service's classes. How long that
//! takes is not measured but stated: the profile's packet rate as a server with
//! a queue, between wires of 100 Gbit/s. So the figures show what the rules and
//! these rates give together; nothing here was measured on a card.
mod card;
mod load;
mod throughput;
mod wire;

pub use card::CardError;

use crate::report::XenoflowRow;

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Packets for each point.
    pub packets: u32,
}

impl Options {
    /// As many as a stable figure needs, or a tenth.
    #[must_use]
    pub const fn new(quick: bool) -> Self {
        Self { packets: if quick { 12_000 } else { 40_000 } }
    }
}

/// All points of figures 4, 5, 6 and 8; `progress` is told how many of how many
/// parts are done.
///
/// # Errors
/// The load balancer can't be built, or a packet comes out wrong.
pub fn run(
    options: Options,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<XenoflowRow>, CardError> {
    let mut rows = throughput::sizes(options.packets)?;
    progress(1, 3);
    rows.extend(throughput::losses(options.packets)?);
    progress(2, 3);
    rows.extend(load::splits(options.packets * 2)?);
    progress(3, 3);
    Ok(rows)
}

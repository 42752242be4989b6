//! RAW_DECAP and RAW_ENCAP: `flow_dv_validate_action_raw_encap_decap`.
use dpdk::flow::{Action, FlowError};

use super::actions::{no, unsupported};
use crate::encap::Encap;

/// `MLX5_ENCAPSULATION_DECISION_SIZE`: Ethernet and IPv4. Headers up to here
/// are a layer 2 of their own, longer ones a tunnel.
const DECISION_SIZE: usize = 34;
/// `MLX5_ENCAP_MAX_LEN`.
const LONGEST: usize = 132;

/// What the headers of RAW_DECAP (`off`) and of the RAW_ENCAP right behind it
/// (`on`) make of a packet. Through `queued` templates what is exactly as long
/// as [`DECISION_SIZE`] is a tunnel (`flow_hw_actions_translate` compares with
/// "less than"), otherwise it isn't.
pub(super) fn parse(
    off: Option<&[u8]>,
    on: Option<&[u8]>,
    queued: bool,
) -> Result<Encap, FlowError> {
    let shortest = if queued { DECISION_SIZE } else { DECISION_SIZE + 1 };
    let on = match on {
        Some([]) => return Err(no("raw encap data cannot be empty")),
        Some(on) if on.len() > LONGEST => {
            return Err(no("raw encap data is too long: at most 132 bytes"));
        }
        on => on,
    };
    let tunnel = |header: &[u8]| header.len() >= shortest;
    match (off, on) {
        (Some(off), Some(on)) => match (tunnel(off), tunnel(on)) {
            (false, true) => Ok(Encap::new(on)),
            (true, true) => Err(unsupported("encap and decap combination aren't supported")),
            (true, false) => Err(unsupported("decapsulation is not modelled")),
            (false, false) => Err(unsupported(
                "unsupported too small raw decap and too small raw encap combination",
            )),
        },
        (None, Some(on)) if !tunnel(on) => Err(unsupported("small raw encap size")),
        (None, Some(_)) => Err(unsupported("encapsulation of whole frames is not modelled")),
        (_, None) => Err(unsupported("decapsulation is not modelled")),
    }
}

/// The headers of RAW_DECAP.
pub(super) fn off(action: &Action) -> Option<&[u8]> {
    if let Action::RawDecap(off) = action { Some(off) } else { None }
}

/// The headers of RAW_ENCAP.
pub(super) fn on(action: &Action) -> Option<&[u8]> {
    if let Action::RawEncap(on) = action { Some(on) } else { None }
}

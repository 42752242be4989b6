//! What other programs on the machine did to a measurement: time taken from
//! either core, packets lost meanwhile, and how far apart the cores are.
pub(crate) mod calm;
pub(crate) mod distance;
pub(crate) mod ledger;
pub(crate) mod presence;
pub(crate) mod windows;

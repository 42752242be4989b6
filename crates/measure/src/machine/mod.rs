//! What other programs on the machine did to a measurement: time taken from
//! either core, packets lost meanwhile, and how far apart the cores are.
pub(crate) mod core_distance;
pub(crate) mod core_time;
pub(crate) mod memory;
pub(crate) mod windows;

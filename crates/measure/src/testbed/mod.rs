//! Traffic source, NIC and measured core: where the systems run.
pub(crate) mod configuration;
pub(crate) mod frames;
pub(crate) mod measured;
pub(crate) mod outbox;
pub(crate) mod packet_counts;
pub(crate) mod poll_loop;
pub(crate) mod ports;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod sequence;
pub(crate) mod source;

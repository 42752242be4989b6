//! Traffic source, NIC and measured core: where the systems run.
pub(crate) mod configuration;
pub(crate) mod frames;
pub(crate) mod host;
pub(crate) mod measured;
pub(crate) mod outbox;
pub(crate) mod ports;
pub(crate) mod run;
pub(crate) mod sequence;
pub(crate) mod source;
pub(crate) mod world;

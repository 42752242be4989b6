//! The systems that are compared.
pub(crate) mod action;
pub(crate) mod balancer;
pub(crate) mod limit;
pub(crate) mod rte_hash;
pub(crate) mod system;

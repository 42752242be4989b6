//! The systems that are compared.
pub(crate) mod balancer;
pub(crate) mod limit;
pub(crate) mod slb_paper;
pub(crate) mod system;

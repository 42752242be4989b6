//! What the tests share: frames, their maker, another opinion, and the checks
//! that the fuzz targets run too.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub(crate) mod checks;
pub(crate) mod corpus;
pub(crate) mod oracle;
pub(crate) mod replies;
pub(crate) mod spec;

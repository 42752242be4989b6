//! What the machine has for HNLB, what it lacks, and the command that mends it.
//!
//! All facts come from files of the kernel below a [`Tree`], so that a test can
//! have any machine. [`nics`] lists network cards, [`examine`] compares the machine
//! with a configuration, and [`survey`] needs none.
#![forbid(unsafe_code)]

mod cores;
mod devices;
mod examine;
mod finding;
mod huge_pages;
mod iommu;
mod kernels;
mod links;
mod nics;
mod offloads;
mod traffic;
mod tree;

pub use examine::{examine, survey};
pub use finding::{Finding, Grade};
pub use nics::{Nic, nics};
pub use tree::Tree;

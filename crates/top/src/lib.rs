//! `hnlb top`: the picture of a running load balancer, live in a terminal.
//!
//! [`Screen`] is what the user has chosen (view, order, filter) and takes keys; [`draw`]
//! puts a picture on a frame as the screen says; [`live`] is the loop over a real
//! terminal. [`page`] is the same picture as text, once.
#![forbid(unsafe_code)]

mod draw;
mod live;
mod page;
mod screen;
mod table;
mod units;
mod view;

pub use draw::draw;
pub use live::{Report, live};
pub use page::page;
pub use screen::{Screen, Wish};
pub use view::View;

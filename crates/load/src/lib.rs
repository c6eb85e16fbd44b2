//! The open-loop generator: requests are sent when they are due, whatever became of those before.
//!
//! [`Pace`] says what is due, and its caller sends it by any means. [`Lateness`] is how late the
//! generator itself was, [`Tally`] what became of the requests: sojourn times count from when a
//! request was due, so that a late generator makes the system look worse, never better.
//!
//! With the feature `drive` there are two ways to send: [`client`] drives a server over the network,
//! [`inside`] is a transport that a server in this process polls. Others bring their own.
#![forbid(unsafe_code)]

#[cfg(feature = "drive")]
mod error;
mod lateness;
mod pace;
mod result;
mod tally;

#[cfg(feature = "drive")]
pub mod client;
#[cfg(feature = "drive")]
pub mod inside;

#[cfg(feature = "drive")]
pub use error::Error;
pub use lateness::Lateness;
pub use pace::{Pace, Source};
pub use result::{Slowdowns, fill, fill_undisturbed, lateness, quantiles};
pub use tally::Tally;

//! `curtaild`, the core allocator: gives cores to the programs that need them, within microseconds.
//!
//! Decisions are `curtail-alloc`'s; memory and messages are `curtail-shm`'s. This crate is the loop
//! around them: one thread that looks at the pages of all programs each interval, carries out what
//! the allocator orders, and answers the socket. See [`Daemon`].
//!
//! What programs write is not trusted: see [`curtail_shm`]. A program that writes what can't be loses
//! its guarantee and is reported; others are served as before.
#![forbid(unsafe_code)]

mod carry;
mod counts;
mod daemon;
mod door;
mod idlers;
mod interfaces;
mod log;
mod opener;
mod options;
mod own_core;
mod packets;
mod peer;
mod port;
mod program;
mod register;
mod slots;
mod status;

pub use daemon::{Daemon, Stop};
pub use interfaces::Interfaces;
pub use opener::Opener;
pub use options::{Cores, Idle, Options};
pub use packets::Companion;

/// Why there is no daemon, or why it has ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was asked for what can't be.
    #[error("{0}")]
    Usage(String),
    /// The socket.
    #[error("{0}")]
    Session(#[from] curtail_shm::session::SessionError),
    /// The system says no.
    #[error("{what}: {error}")]
    System {
        /// To what.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

/// For `map_err`.
pub(crate) fn system<E: Into<std::io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::System { what, error: error.into() }
}

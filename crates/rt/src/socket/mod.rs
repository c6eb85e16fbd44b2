//! Sockets for threads: they block the thread that calls, not its kthread.
//!
//! * `io`: what threads ask of a socket, by operation;
//! * `source`: a descriptor that threads wait for;
//! * `slot`, `slab`: where sources live, and what is known of them;
//! * `poller`: a kthread's epoll; `alarm`: how its sleep ends by time;
//! * `uring`: a kthread's ring, and `by_ring`: what streams have it do.

mod alarm;
mod by_ring;
mod io;
mod poller;
mod slab;
mod slot;
mod source;
pub(crate) mod uring;

pub(crate) use io::Operations;
pub(crate) use poller::{Epoll, Poller};
pub use source::{Side, Source};
pub use uring::Io;

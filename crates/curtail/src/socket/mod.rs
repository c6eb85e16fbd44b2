//! Sockets for threads: they block the thread that calls, not its kthread.
//!
//! * `io`: what threads ask of a socket, by operation;
//! * `source`: a descriptor that threads wait for;
//! * `slot`, `slab`: where sources live, and what is known of them;
//! * `poller`: a kthread's epoll;
//! * `resolve`: names of hosts, which are looked up on ordinary threads.

mod io;
mod poller;
mod resolve;
mod slab;
mod slot;
mod source;

pub(crate) use io::Io;
pub(crate) use poller::{Epoll, Poller};
pub(crate) use resolve::is_linked;
pub(crate) use source::{Side, Source};

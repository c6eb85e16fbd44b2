//! Sockets for threads: they block the thread that calls, not its kthread.

mod poller;

pub(crate) use poller::Poller;

//! Transports: how requests come in and responses go out.
//!
//! One [`Transport`] belongs to one dispatcher thread, which polls it. The workers answer by
//! themselves, through the [`Reply`] that the transport shares with them. Nothing here knows jobs
//! or policies.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Where a request came from and its response goes. Opaque to everyone but its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Nobody expects a response by the wire (in-process).
    None,
    /// A datagram's sender; `socket`: which of the transport's sockets it came in by.
    Udp {
        /// Index of the receiving socket.
        socket: u16,
        /// The sender.
        from: SocketAddr,
    },
    /// A stream connection: a slot number and its generation, so that an answer to a closed
    /// connection never reaches the slot's next owner.
    Tcp {
        /// Slot.
        connection: u32,
        /// Generation of the slot.
        generation: u32,
    },
}

/// What a transport puts requests into: implemented by the dispatcher.
pub trait Intake {
    /// How many more requests are welcome in this call.
    fn room(&self) -> usize;

    /// One request. The payload is copied. `arrived_tsc`: when the request arrived, in TSC cycles
    /// (the scheduled arrival where the transport is an open-loop generator).
    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64);

    /// `count` inputs were malformed or too large and were dropped or answered with an error.
    fn malformed(&mut self, count: u64);
}

/// What became of one request, told to the transport that brought it, on the dispatcher's thread.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// From where it came.
    pub peer: Peer,
    /// The class that the application gave it.
    pub class: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// First eight bytes of its payload, as they were (little endian; zero-padded).
    pub tag: u64,
    /// Arrival, as the transport gave it, in TSC cycles.
    pub arrived_tsc: u64,
    /// When a worker first ran it.
    pub started_tsc: u64,
    /// When it was finished.
    pub finished_tsc: u64,
    /// Cycles on a core, all quanta together.
    pub ran_cycles: u64,
    /// How often it was pre-empted.
    pub preemptions: u32,
    /// A gap of the machine overlapped its stay (see the runtime's noise watch).
    pub disturbed: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler returned.
    Done,
    /// The handler panicked or threw.
    Failed,
    /// There was no room for it.
    Dropped,
}

/// Whether a transport may bring more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It may.
    Open,
    /// It never will again.
    Closed,
}

/// Brings requests.
pub trait Transport: Send {
    /// Takes what has come, up to `into.room()`; never blocks. `now_tsc` is a fresh reading.
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status;

    /// The workers' side.
    fn reply(&self) -> Arc<dyn Reply>;

    /// Descriptors that become readable when `poll` has something to do; empty: poll it always
    /// (then no thread may sleep on its behalf).
    fn wait_fds(&self) -> Vec<RawFd>;

    /// A request that this transport brought has ended.
    fn completed(&mut self, completion: &Completion) {
        let _ = completion;
    }

    /// No more requests are wanted; those under way will still be answered.
    fn close(&mut self);

    /// `udp://127.0.0.1:4000` or the like.
    fn describe(&self) -> String;
}

/// Sends responses; shared by all workers.
pub trait Reply: Send + Sync {
    /// Sends one response; never blocks for long, drops it and counts where the peer is gone or
    /// will not read.
    fn reply(&self, to: Peer, payload: &[u8]);

    /// How many responses were dropped so far.
    fn dropped(&self) -> u64;
}

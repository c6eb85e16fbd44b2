//! Transports: how requests come in and responses go out.
//!
//! One [`Transport`] belongs to one dispatcher thread, which polls it. The workers answer by
//! themselves, through the [`Reply`] that the transport shares with them. Nothing here knows jobs
//! or policies.
//!
//! | transport | what it is |
//! |---|---|
//! | [`Udp`] | kernel UDP: a datagram is a request |
//! | [`Tcp`] | kernel TCP and Unix sockets: frames of a little-endian `u32` length and that many bytes, or [`http`] |
//! | [`Shm`] | shared memory with clients of the same host |
//! | [`packet::Packets`] | datagrams past the kernel's network, by AF_XDP or DPDK |
//! | [`Local`] | in-process, for tests and embedding |
//! | [`Both`] | datagrams and streams behind one dispatcher |
//! | [`Fault`] | any of them, with seeded faults on the way in |
//!
//! [`open`] makes the socket ones from URLs. [`Waiter`] is how a dispatcher sleeps that has no core
//! of its own.

mod both;
mod error;
mod fault;
mod frame;
mod group;
pub mod http;
mod in_flight;
mod local;
pub mod packet;
mod peak_trim;
mod shm;
mod socket;
mod tcp;
mod udp;
mod url;
mod waiter;

pub use both::Both;
pub use error::{NoResponse, OpenError, Reason};
pub use fault::{Fault, FaultConfig, FaultCounters};
pub use frame::{Framer, HEADER_BYTES, TooLong};
pub use in_flight::InFlight;
pub use local::{Local, LocalClient, Refused, Ticket};
pub use peak_trim::{PeakTrim, give_back_to_kernel};
pub use shm::{Shm, ShmClient, ShmConfig, ShmRefused};
pub use tcp::{
    Accepted, Acceptor, Listen, OnFin, Socket, Stream, Streams, Tcp, TcpConfig, Turn, Wire,
};
pub use udp::{Datagrams, Receiver, Udp, UdpConfig};
pub use url::open;
pub use waiter::{Waiter, Waker};

use std::any::Any;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Where a request came from and its response goes. Opaque outside its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// In-process: no response goes over the wire.
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
    /// A request over shared memory: a session's slot, its generation, and the client's tag.
    Shm {
        /// Slot.
        session: u32,
        /// Generation of the slot.
        generation: u32,
        /// What the client calls the request.
        tag: u32,
    },
    /// A datagram's sender, where packets come past the kernel's network.
    Packet {
        /// Index of the device's queue that it came in by.
        queue: u16,
        /// Index of the address that it was sent to.
        address: u16,
        /// The Ethernet address that it came from: the sender's, or that of a router.
        hardware: packet::Hardware,
        /// The sender.
        from: SocketAddr,
    },
    /// A ticket of the in-process transport: a slot number and its generation.
    Local {
        /// Slot.
        slot: u32,
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

    /// One request that is all that a buffer has in it. The buffer may be taken, for another one with
    /// whatever in it; so a long request need not be copied.
    fn request_in(&mut self, buffer: &mut Vec<u8>, from: Peer, arrived_tsc: u64) {
        self.request(buffer, from, arrived_tsc);
    }

    /// `count` inputs were malformed or too large and were dropped or answered with an error.
    fn malformed(&mut self, count: u64);

    /// Peers of requests in progress have gone for good: [`Reply::is_gone`] says which. Called once
    /// for any number of them.
    fn departed(&mut self) {}
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
    /// Length of its payload in bytes, as the transport gave it.
    pub request_bytes: u32,
    /// Arrival, as the transport gave it, in TSC cycles.
    pub arrived_tsc: u64,
    /// When a worker first ran it.
    pub started_tsc: u64,
    /// When it was finished.
    pub finished_tsc: u64,
    /// Cycles on a core, all quanta together.
    pub ran_cycles: u64,
    /// How many of its quanta ended: it was pre-empted as often, or less, where nobody wanted its core.
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
    /// Its peer had gone before it began ([`Reply::is_gone`]), so it was never run.
    Orphaned,
    /// It was cancelled before it began, or while it ran, and its handler ended by that.
    Cancelled,
    /// It was cancelled while it ran, and will never go on.
    Abandoned,
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
    ///
    /// It does a bounded amount of work, however much there is.
    ///
    /// When it returns, either `into.room()` is 0, or everything that had come was taken, or
    /// [`Transport::wait_fds`] are readable. A call that starts without room still accepts, flushes
    /// and closes.
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status;

    /// The workers' side.
    fn reply(&self) -> Arc<dyn Reply>;

    /// Descriptors that become readable when `poll` has something to do; empty: poll it always
    /// (then no thread may sleep on its behalf). They say nothing about input that the last `poll`
    /// left because the caller had no room: that caller polls again when there is some, before it
    /// sleeps.
    fn wait_fds(&self) -> Vec<RawFd>;

    /// To be called right before each wait for [`Transport::wait_fds`], after whatever else tells
    /// others that the caller is going to sleep. False: something has come meanwhile that no
    /// descriptor tells of; the caller polls rather than waits. The next `poll` ends it.
    fn before_wait(&mut self) -> bool {
        true
    }

    /// A request that this transport brought has ended; to be called once for each of them,
    /// refused ones included, and after its response, if any, was handed to [`Reply`]. Stream
    /// transports keep a half-closed connection until all its requests have ended.
    fn completed(&mut self, completion: &Completion) {
        let _ = completion;
    }

    /// No more requests are wanted; those under way will still be answered. Once nothing is left to
    /// do for them, `poll` answers [`Status::Closed`], and does so ever after.
    fn close(&mut self);

    /// Lends its connections to a server whose threads serve each by reads that wait. From then on
    /// `poll` brings none of their requests, and [`Transport::completed`] is not called for them; it
    /// is `Closed` once they have gone. `None`: it has none, or has polled already.
    fn lend_streams(&mut self) -> Option<Streams> {
        None
    }

    /// Lends its datagrams to a server of so many threads, each of which receives what its peers send,
    /// from sockets of its own. From then on `poll` brings what these have left, and need not be called
    /// for every datagram; [`Transport::completed`] is called for what it brings. `None`: there are none,
    /// or no sockets for that.
    fn lend_datagrams(&mut self, threads: usize) -> Option<Datagrams> {
        let _ = threads;
        None
    }

    /// Whether `poll` is to be called for every request: not where connections and datagrams are lent.
    fn brings(&self) -> bool {
        true
    }

    /// Whether [`Transport::split`] makes so many parts of it.
    fn splits(&self, parts: usize) -> bool {
        let _ = parts;
        false
    }

    /// Makes others beside it, `parts` with this one, each for a dispatcher of its own: each has its
    /// peers, and its part of what is bounded for all peers together. To be called once, before
    /// everything else but `describe` and `local_addrs`.
    ///
    /// # Errors
    /// What the kernel says. The transport is of no use then.
    fn split(&mut self, parts: usize) -> Result<Vec<Box<dyn Transport>>, OpenError> {
        let _ = parts;
        Ok(Vec::new())
    }

    /// `udp://127.0.0.1:4000` or the like.
    fn describe(&self) -> String;

    /// The addresses it listens on, with the ports that the kernel chose where 0 was asked for.
    fn local_addrs(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// What it counted so far, by name, for reports. The same names in the same order every time.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        (**self).poll(now_tsc, into)
    }

    fn reply(&self) -> Arc<dyn Reply> {
        (**self).reply()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        (**self).wait_fds()
    }

    fn before_wait(&mut self) -> bool {
        (**self).before_wait()
    }

    fn completed(&mut self, completion: &Completion) {
        (**self).completed(completion);
    }

    fn close(&mut self) {
        (**self).close();
    }

    fn brings(&self) -> bool {
        (**self).brings()
    }

    fn lend_streams(&mut self) -> Option<Streams> {
        (**self).lend_streams()
    }

    fn lend_datagrams(&mut self, threads: usize) -> Option<Datagrams> {
        (**self).lend_datagrams(threads)
    }

    fn splits(&self, parts: usize) -> bool {
        (**self).splits(parts)
    }

    fn split(&mut self, parts: usize) -> Result<Vec<Box<dyn Transport>>, OpenError> {
        (**self).split(parts)
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        (**self).local_addrs()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        (**self).counters()
    }
}

/// Sends responses; shared by all workers.
pub trait Reply: Send + Sync {
    /// Sends one response; never blocks for long, drops it and counts where the peer is gone or
    /// will not read. May hold a lock for the length of one system call, so a fiber that calls it
    /// must not be pre-empted inside.
    fn reply(&self, to: Peer, payload: &[u8]);

    /// Says that a request of that peer's is not served, where the application has no words for it:
    /// by default an empty response, which handlers never send. A transport that answers every
    /// request by its outcome does that in [`Transport::completed`], and nothing here.
    fn refuse(&self, to: Peer) {
        self.reply(to, &[]);
    }

    /// How many responses were dropped so far.
    fn dropped(&self) -> u64;

    /// Whether `peer` has gone for good, so that a request of its that has not begun need not be
    /// run. Asked by workers, once a request: cheap, and without a lock. A transport that can't
    /// tell answers `false`.
    fn is_gone(&self, peer: Peer) -> bool {
        let _ = peer;
        false
    }

    /// Calls `f` with the place for what the server keeps of the peer's connection, which is dropped
    /// with that. False: it has none, and `f` was not called. A lock is held meanwhile.
    fn with_state(&self, peer: Peer, f: &mut dyn FnMut(&mut Kept)) -> bool {
        let _ = (peer, f);
        false
    }
}

/// What a server keeps of a connection: see [`Reply::with_state`].
pub type Kept = Option<Arc<dyn Any + Send + Sync>>;

//! Curtail's threads beside those of others, as programs that run in turns.
//!
//! * [`threads`]: what a lock, a yield, a hand-over and a start cost on one core;
//! * [`echo`]: servers on one core, a client on the other: round trips and requests a second;
//! * [`wakeups`]: how late sleeps and sockets are while others compute;
//! * [`pool`]: short and long work behind HTTP;
//! * [`locks`]: short readers beside long ones, by kind of lock;
//! * [`redis`]: a small Redis beside Redis;
//! * [`skew`]: a few connections with most of the work.
//!
//! Each contestant is a program of its own, a file in `bench/threads`, `bench/echo`,
//! `bench/wakeups`, `bench/pool`, `bench/locks` or `bench/redis`; `bench/peers/build.sh` builds what can be built here. This package starts them,
//! is the client of the servers, and writes the figures down. It runs from its main thread alone, and
//! a program that it started ends with it ([`program`]).
#![forbid(unsafe_code)]

pub mod ask;
pub mod client;
pub mod echo;
pub mod figures;
pub mod http;
pub mod load;
pub mod locks;
pub mod neighbours;
pub mod pool;
pub mod program;
pub mod rate;
pub mod redis;
pub mod resp;
pub mod servers;
pub mod skew;
pub mod sqlite;
pub mod threads;
pub mod wakeups;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Just enough to run every line once; the figures mean nothing.
    Smoke,
    /// Enough for the figures to mean something.
    Full,
}

impl Size {
    /// One or the other.
    #[must_use]
    pub fn pick<T>(self, smoke: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Full => full,
        }
    }
}

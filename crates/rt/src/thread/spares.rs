//! Spare kthreads: started when all others are stuck, so that other threads go on.
//!
//! The watchdog says at each look whether the usual kthreads are stuck ([`Spares::look`]). While all are,
//! spare ones take what others may take, and where these are stuck as well, the next is started. One
//! that has started lives as long as the runtime: while it is not needed, it runs what has started there
//! and cannot go on elsewhere.

use super::common::Common;
use super::kthread::Shared;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The target of what is logged here.
const LOG: &str = "curtail::thread::spares";

/// How many a runtime may have.
pub const SPARES: usize = 4;

/// What a look of the watchdog has found.
#[derive(Clone, Copy)]
pub struct Stuck {
    /// All usual kthreads are stuck, whether or not something waits there.
    pub usual: bool,
    /// So are all spare ones that live.
    pub all: bool,
}

/// A runtime's spare kthreads. `T` is what is kept of one that has started.
pub(super) struct Spares<T> {
    common: Arc<Common>,
    seats: Mutex<Seats<T>>,
}

struct Seats<T> {
    start: Box<dyn Fn(usize) -> io::Result<T> + Send>,
    started: Vec<T>,
}

impl<T> Spares<T> {
    /// `start` starts the kthread of that index.
    pub(super) fn new(
        common: &Arc<Common>,
        start: impl Fn(usize) -> io::Result<T> + Send + 'static,
    ) -> Arc<Self> {
        let seats = Seats { start: Box::new(start), started: Vec::new() };
        Arc::new(Self { common: common.clone(), seats: Mutex::new(seats) })
    }

    fn seats(&self) -> MutexGuard<'_, Seats<T>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the watchdog has found: has a spare one come where it is needed.
    pub(super) fn look(&self, stuck: Stuck) {
        let common = &self.common;
        common.needs_spares.store(stuck.usual, Ordering::Release);
        if !stuck.usual || common.peers.iter().all(|peer| peer.stealable() == 0) {
            return;
        }
        match stuck.all {
            true => {
                self.start();
            }
            false => common.peers[common.usual..].iter().for_each(|peer| peer.parker.unpark()),
        }
    }

    /// Starts one more, if there is a place; true: it has.
    pub(super) fn start(&self) -> bool {
        let (common, mut seats) = (&self.common, self.seats());
        let index = common.usual + seats.started.len();
        let is_coming = |peer: &Arc<Shared>| peer.tid().is_none() && !peer.has_ended();
        if index == common.peers.len()
            || common.stop.load(Ordering::Acquire)
            || common.peers[common.usual..index].iter().any(is_coming)
        {
            return false;
        }
        common.live.fetch_add(1, Ordering::AcqRel);
        match (seats.start)(index) {
            Ok(one) => {
                seats.started.push(one);
                true
            }
            Err(error) => {
                common.live.fetch_sub(1, Ordering::AcqRel);
                tracing::warn!(
                    target: LOG, %error, "all kthreads are stuck, and no other can be started"
                );
                false
            }
        }
    }

    /// How many have been started.
    pub(super) fn started(&self) -> usize {
        self.seats().started.len()
    }

    /// Those that have been started. After [`Common::stop`]: no more are.
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.seats().started)
    }
}

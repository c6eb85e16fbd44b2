//! The application that is measured: its requests note when their handler begins and ends.
//!
//! A worker writes a request's [`Stamp`] while it runs it; the dispatcher's thread watches `left`,
//! the last that is written, to learn that a handler has ended, or looks when all is over. Every
//! request of a run has a stamp of its own, whose cache line the worker has from the start: a store
//! that had to fetch it from the dispatcher's core would hold up what the worker tells, and so be
//! measured.

use curtail::clock;
use curtail::{App, Response, SafepointKind, WorkerId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// When a handler began and ended (TSC).
#[derive(Default)]
pub(super) struct Stamp {
    entered: AtomicU64,
    left: AtomicU64,
}

impl Stamp {
    /// When the handler ended; 0: it has not yet.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// When it began, once it has ended.
    pub(super) fn entered(&self) -> u64 {
        self.entered.load(Ordering::Relaxed)
    }
}

/// The stamps of all requests of a run.
pub(super) type Stamps = Arc<[Stamp]>;

/// Stamps for so many requests.
pub(super) fn stamps(requests: usize) -> Stamps {
    (0..requests).map(|_| Stamp::default()).collect()
}

/// What a handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Turns the chain of the application `spin`, with the safepoints that the compiler put there,
    /// or, in a build without, with some by hand.
    Chain,
    /// Turns the same chain without safepoints.
    Plain,
}

/// A request: what to do, in so many steps of the chain, and where to note it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Below 2^31.
    pub(super) slot: u32,
    pub(super) work: Work,
    pub(super) steps: u32,
}

impl Request {
    pub(super) const BYTES: usize = 8;

    /// As bytes; they come back as the completion's tag.
    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let tag = u64::from(self.slot)
            | u64::from(self.work == Work::Plain) << 31
            | u64::from(self.steps) << 32;
        tag.to_le_bytes()
    }

    pub(super) fn of_tag(tag: u64) -> Self {
        let work = if tag >> 31 & 1 == 1 { Work::Plain } else { Work::Chain };
        Self { slot: tag as u32 & (u32::MAX >> 1), work, steps: (tag >> 32) as u32 }
    }
}

/// The application.
pub(super) struct Stamped {
    stamps: Stamps,
    by_hand: bool,
}

impl Stamped {
    pub(super) fn new(stamps: Stamps) -> Self {
        Self { stamps, by_hand: !is_instrumented() }
    }

    fn chain(&self, steps: u64) {
        /// Some 50 ns.
        const STRIDE: u64 = 25;
        if !self.by_hand {
            spin::chain(steps);
            return;
        }
        for _ in 0..steps.div_ceil(STRIDE) {
            curtail_workload::spin::spin(STRIDE);
            curtail::safepoint();
        }
    }
}

impl App for Stamped {
    type Worker = ();

    fn setup_worker(&self, worker: WorkerId) {
        if worker != WorkerId::DISPATCHER {
            self.stamps.iter().for_each(|stamp| stamp.left.store(0, Ordering::Relaxed));
        }
    }

    fn handle(&self, (): &(), request: &[u8], _: &mut Response) {
        let entered = clock::now();
        let Ok(bytes) = request.try_into() else { return };
        let request = Request::of_tag(u64::from_le_bytes(bytes));
        let steps = u64::from(request.steps);
        match request.work {
            _ if steps == 0 => {}
            Work::Chain => self.chain(steps),
            Work::Plain => drop(curtail_workload::spin::spin(steps)),
        }
        let left = clock::now();
        let Some(stamp) = self.stamps.get(request.slot as usize) else { return };
        stamp.entered.store(entered, Ordering::Relaxed);
        stamp.left.store(left, Ordering::Release);
    }
}

/// Whether the compiler put safepoints into this program.
pub(super) fn is_instrumented() -> bool {
    curtail::safepoint_kind() != SafepointKind::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        for work in [Work::Chain, Work::Plain] {
            let request = Request { slot: 70_000, work, steps: u32::MAX };
            assert_eq!(Request::of_tag(u64::from_le_bytes(request.encode())), request);
        }
    }
}

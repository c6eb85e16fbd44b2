//! The board: what the generator and a peer share, in one process or between two.
//!
//! The whole run stands on it from the start: one slot a request, with the work it asks for. The
//! generator raises `published` when a request arrives; the peer serves the slots below it, writes
//! each one's finishing time and raises `completed`. No slot is used twice, so nothing is ever
//! overwritten, and every peer gets the same requests at the same moments at the same cost.
//!
//! Who writes what: the generator `published`, `stop` and, before the run, the slots' work; the peer
//! the rest. All of it is atomics: what another process writes can be wrong but not unsound.
//!
//! Layout, in 64-bit words (`go/main.go` repeats it): 0 published, 8 completed, 16 stop, 24 slots,
//! 32 cycles for 1,000 steps of the spin as the peer measured it; from word 64 on, two a slot: steps,
//! finishing time as TSC (0: not finished).

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

const PUBLISHED: usize = 0;
const COMPLETED: usize = 8;
const STOP: usize = 16;
const SLOTS: usize = 24;
const SPIN_CYCLES: usize = 32;
const HEADER: usize = 64;

/// The board; see the module.
#[derive(Debug)]
pub struct Board {
    map: MmapRaw,
    file: File,
    slots: usize,
}

impl Board {
    /// A board with one slot for each of `work`: how many steps of the spin it asks for.
    ///
    /// # Errors
    /// Where the kernel gives no memory.
    pub fn new(work: impl ExactSizeIterator<Item = u64>) -> io::Result<Self> {
        let slots = work.len();
        let file: File =
            rustix::fs::memfd_create("bench-board", rustix::fs::MemfdFlags::CLOEXEC)?.into();
        file.set_len(((HEADER + 2 * slots) * 8) as u64)?;
        let map = MmapOptions::new().populate().map_raw(&file)?;
        let board = Self { map, file, slots };
        board.word(SLOTS).store(slots as u64, Ordering::Relaxed);
        for (at, steps) in work.enumerate() {
            board.word(HEADER + 2 * at).store(steps, Ordering::Relaxed);
        }
        Ok(board)
    }

    /// The memory, for another process.
    ///
    /// # Errors
    /// Where there are too many descriptors.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < HEADER + 2 * self.slots, "beyond the board");
        // SAFETY: inside the mapping, which lives as long as `self`, is aligned to a page, and is
        // only ever accessed atomically (by the other process too).
        unsafe { &*self.map.as_ptr().cast::<AtomicU64>().add(at) }
    }

    /// How many requests the run has.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Generator: the first `count` requests have arrived.
    #[inline]
    pub fn publish(&self, count: usize) {
        self.word(PUBLISHED).store(count as u64, Ordering::Release);
    }

    /// Peer: how many have arrived.
    #[inline]
    #[must_use]
    pub fn published(&self) -> usize {
        self.word(PUBLISHED).load(Ordering::Acquire) as usize
    }

    /// Peer: serves a request: spins for as long as it asks, notes the time.
    #[inline]
    pub fn serve(&self, at: usize) {
        let steps = self.word(HEADER + 2 * at).load(Ordering::Relaxed);
        if steps > 0 {
            curtail_workload::spin::spin(steps);
        }
        self.finish_at(at, crate::machine::now());
    }

    /// Peer: notes when a request was finished.
    #[inline]
    pub fn finish_at(&self, at: usize, tsc: u64) {
        self.word(HEADER + 2 * at + 1).store(tsc, Ordering::Relaxed);
    }

    /// Peer: so many are finished. Called by one thread.
    #[inline]
    pub fn complete(&self, count: usize) {
        self.word(COMPLETED).store(count as u64, Ordering::Release);
    }

    /// Generator: how many are finished.
    #[inline]
    #[must_use]
    pub fn completed(&self) -> usize {
        self.word(COMPLETED).load(Ordering::Acquire) as usize
    }

    /// When the request was finished, if it was, in TSC cycles.
    #[must_use]
    pub fn finished(&self, at: usize) -> Option<u64> {
        let tsc = self.word(HEADER + 2 * at + 1).load(Ordering::Relaxed);
        (tsc != 0).then_some(tsc)
    }

    /// Generator: no more requests; what is not finished never need be.
    pub fn stop(&self) {
        self.word(STOP).store(1, Ordering::Release);
    }

    /// Peer: whether to end.
    #[inline]
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.word(STOP).load(Ordering::Acquire) != 0
    }

    /// What a peer with a spin of its own measured: cycles for 1,000 steps.
    #[must_use]
    pub fn spin_cycles(&self) -> Option<u64> {
        let cycles = self.word(SPIN_CYCLES).load(Ordering::Relaxed);
        (cycles != 0).then_some(cycles)
    }
}

/// Stops the board's peer when dropped: a generator that panics leaves no thread spinning.
#[derive(Debug)]
pub struct Stop<'a>(pub &'a Board);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_what_was_written() {
        let board = Board::new([0u64, 7].into_iter()).unwrap();
        assert_eq!((board.slots(), board.published(), board.completed()), (2, 0, 0));
        assert_eq!(board.finished(1), None);
        board.publish(2);
        board.serve(1);
        board.complete(1);
        assert_eq!((board.published(), board.completed()), (2, 1));
        assert!(board.finished(0).is_none() && board.finished(1).is_some());
        drop(Stop(&board));
        assert!(board.stopped());
    }
}

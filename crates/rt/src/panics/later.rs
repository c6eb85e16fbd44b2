//! Work that is put off to a thread of its own, made when there is some for the first time. What
//! waits is bounded.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Pieces that may wait.
pub(super) const MOST: usize = 64;

/// Work that is put off to a thread of its own.
pub(super) struct Later<T: 'static> {
    name: &'static str,
    work: fn(&T),
    state: Mutex<State<T>>,
    /// Something was put, or all is done.
    changed: Condvar,
    /// The process that has the thread; 0: none has. A fork's child has none of its own. Written
    /// under the lock.
    process: AtomicU32,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// A piece is being worked on.
    busy: bool,
}

impl<T: Send + 'static> Later<T> {
    pub(super) const fn new(name: &'static str, work: fn(&T)) -> Self {
        let state = Mutex::new(State { waiting: VecDeque::new(), busy: false });
        Self { name, work, state, changed: Condvar::new(), process: AtomicU32::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a piece worked on, soon; gives it back where too many wait, or there can be no thread.
    pub(super) fn put(&'static self, piece: T) -> Result<(), T> {
        let mut state = self.state();
        if state.waiting.len() >= MOST {
            return Err(piece);
        }
        let process = std::process::id();
        if self.process.load(Relaxed) != process {
            // In a fork's child, what waits is its parent's.
            state.waiting.clear();
            state.busy = false;
            if Builder::new().name(self.name.to_owned()).spawn(move || self.live()).is_err() {
                return Err(piece);
            }
            self.process.store(process, Relaxed);
        }
        state.waiting.push_back(piece);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until all is done; false: that takes longer.
    pub(super) fn flush(&self, at_most: Duration) -> bool {
        // In a fork's child the lock may be held for ever.
        if self.process.load(Relaxed) != std::process::id() {
            return true;
        }
        let end = Instant::now() + at_most;
        let mut state = self.state();
        while state.busy || !state.waiting.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The thread's life, which is the process's.
    fn live(&self) {
        let mut state = self.state();
        loop {
            while let Some(piece) = state.waiting.pop_front() {
                state.busy = true;
                drop(state);
                // One that panics costs itself: its hook has told of that.
                let _ = catch_unwind(AssertUnwindSafe(|| (self.work)(&piece)));
                drop(piece);
                state = self.state();
                state.busy = false;
            }
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const LONG: Duration = Duration::from_secs(60);

    static GATE: Mutex<()> = Mutex::new(());
    static DONE: AtomicUsize = AtomicUsize::new(0);
    static LATER: Later<usize> = Later::new("later-test", wait_and_count);

    fn wait_and_count(piece: &usize) {
        drop(GATE.lock());
        assert_ne!(*piece, 1, "it panics, and costs itself");
        DONE.fetch_add(1, SeqCst);
    }

    #[test]
    fn who_puts_it_off_never_waits_and_what_waits_is_bounded() {
        assert!(LATER.flush(Duration::ZERO), "there is nothing to do");
        let closed = GATE.lock().unwrap();
        assert_eq!(LATER.put(0), Ok(()));
        let begun = Instant::now();
        // Until its thread stands before the gate.
        while !LATER.state().busy {
            assert!(begun.elapsed() < LONG, "it does not begin");
            std::thread::yield_now();
        }
        (1..=MOST).for_each(|piece| assert_eq!(LATER.put(piece), Ok(())));
        assert_eq!(LATER.put(77), Err(77));
        assert!(!LATER.flush(Duration::from_millis(1)) && DONE.load(SeqCst) == 0);
        drop(closed);
        assert!(LATER.flush(LONG));
        assert_eq!(DONE.load(SeqCst), MOST, "one has panicked");
        assert!(LATER.put(5).is_ok() && LATER.flush(LONG));
        assert_eq!(DONE.load(SeqCst), MOST + 1);
    }
}

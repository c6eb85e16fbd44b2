//! For tests: locks of C++ that are held for as long as one likes, and what happened meanwhile.
//!
//! A [`Probe`] may be used from any thread and fiber. Whatever runs beside the holder moves a clock
//! on; the holder reads it before, at the end of, and right after its critical section.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

#[repr(C)]
struct CProbe {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn kv_probe_new() -> *mut CProbe;
    fn kv_probe_free(probe: *mut CProbe);
    fn kv_probe_work(turns: u64, seed: u64) -> u64;
    fn kv_probe_hold(
        probe: *mut CProbe,
        kind: u32,
        clock: *const AtomicU64,
        turns: u64,
        inside: *mut u64,
        after: *mut u64,
    );
    fn kv_probe_taken(probe: *mut CProbe, kind: u32) -> u64;
    fn kv_probe_read(probe: *mut CProbe, turns: u64) -> bool;
    fn kv_probe_turn(probe: *mut CProbe, mine: u64, turns: u64);
    fn kv_probe_static(pause: extern "C" fn() -> u64) -> u64;
    fn kv_probe_catch(id: i32, pause: extern "C" fn()) -> i32;
}

unsafe extern "C-unwind" {
    fn kv_probe_throw();
}

/// Throws `id` in C++ and catches it twice, with a call of `pause` in each catch block; returns what
/// was caught at last.
#[must_use]
pub fn catch(id: i32, pause: extern "C" fn()) -> i32 {
    // SAFETY: no preconditions; `pause` returns.
    unsafe { kv_probe_catch(id, pause) }
}

/// A function-local `static` of C++: the first to come initialises it with what `pause` returns, and
/// all get that.
#[must_use]
pub fn initialised(pause: extern "C" fn() -> u64) -> u64 {
    // SAFETY: no preconditions; `pause` returns.
    unsafe { kv_probe_static(pause) }
}

/// Throws a C++ exception that no code here catches.
pub fn throw() {
    // SAFETY: no preconditions; it unwinds, as its type says.
    unsafe { kv_probe_throw() }
}

/// How far the clock went in one [`Probe::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// While the lock was held.
    pub inside: u64,
    /// From then until right after it was released.
    pub after: u64,
}

/// The kinds of locks that [`Probe::hold`] knows.
pub const KINDS: [&str; 6] = [
    "std::mutex",
    "std::recursive_mutex, taken twice",
    "std::timed_mutex, with a timeout",
    "std::shared_mutex",
    "std::shared_timed_mutex, tried until it is free",
    "pthread_spin_lock",
];

/// Locks in C++, and how often each was taken.
#[derive(Debug)]
pub struct Probe(NonNull<CProbe>);

// SAFETY: the C++ object belongs to no thread.
unsafe impl Send for Probe {}
// SAFETY: each counter is written under its lock alone, and read when no thread writes.
unsafe impl Sync for Probe {}

impl Default for Probe {
    /// One that was never taken.
    ///
    /// # Panics
    /// When there is no memory.
    fn default() -> Self {
        // SAFETY: no preconditions.
        Self(NonNull::new(unsafe { kv_probe_new() }).expect("memory for a probe"))
    }
}

impl Probe {
    /// Takes the lock of this kind (of [`KINDS`]), works for `turns` turns (some nanoseconds each),
    /// gives it back.
    ///
    /// # Panics
    /// Where there is no such kind.
    #[must_use]
    pub fn hold(&self, kind: usize, clock: &AtomicU64, turns: u64) -> Held {
        assert!(kind < KINDS.len(), "no kind {kind}");
        let mut held = Held { inside: 0, after: 0 };
        let (kind, probe) = (kind as u32, self.0.as_ptr());
        // SAFETY: the probe is live, the clock is an atomic of C++'s layout, the results are ours.
        unsafe { kv_probe_hold(probe, kind, clock, turns, &mut held.inside, &mut held.after) };
        held
    }

    /// How often the lock of this kind was taken; to be asked when no thread takes it any more.
    /// Counted without an atomic: right only if the lock excludes.
    ///
    /// # Panics
    /// Where there is no such kind.
    #[must_use]
    pub fn taken(&self, kind: usize) -> u64 {
        assert!(kind < KINDS.len(), "no kind {kind}");
        // SAFETY: the probe is live.
        unsafe { kv_probe_taken(self.0.as_ptr(), kind as u32) }
    }

    /// Works under the `std::shared_mutex` as one of its readers. True: no thread wrote meanwhile.
    #[must_use]
    pub fn read(&self, turns: u64) -> bool {
        // SAFETY: the probe is live.
        unsafe { kv_probe_read(self.0.as_ptr(), turns) }
    }

    /// Waits for turn number `mine` (counted from 0) on a `std::condition_variable`, works, and
    /// passes the turn on.
    pub fn turn(&self, mine: u64, turns: u64) {
        // SAFETY: the probe is live.
        unsafe { kv_probe_turn(self.0.as_ptr(), mine, turns) }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // SAFETY: the probe is live and freed once.
        unsafe { kv_probe_free(self.0.as_ptr()) }
    }
}

/// Works for `turns` turns without a lock.
pub fn work(turns: u64) {
    // SAFETY: no preconditions.
    std::hint::black_box(unsafe { kv_probe_work(turns, 1) });
}

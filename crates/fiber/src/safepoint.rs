//! The running code's safepoint block, as `include/curtail_safepoint.h` lays it out.
//!
//! The block is the owning thread's; only `poll` is written by others, through [`Poll`]. A stack with
//! thread-locals of its own has a block of its own, and each switch to such a stack brings the words of
//! the block before (`hand_over`): they are the kthread's.

mod sections;
mod watch;
mod words;

pub use sections::{enter_critical, enter_lock, leave_critical, leave_lock, leave_lock_if_held};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, fence};
pub use watch::Watch;
pub(crate) use words::{
    base, block_of, context, hand_over, leave_kthread, lend, set_base, set_context, set_ticks,
    take_back, thread_pointer, ticks,
};
pub use words::{kthread, set_kthread};

/// What a program was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not instrumented: nothing yields by itself.
    None,
    /// Safepoints poll a word.
    Flag,
    /// Safepoints count work and read the clock; they serve flags too.
    Clock,
}

/// When a safepoint yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// Never.
    Off = 0,
    /// When another thread sets the poll word.
    Flag = 1,
    /// At a deadline by the TSC, or by the poll word.
    Clock = 2,
    /// When a signal interrupts code that may be ([`crate::ticks`]).
    Signal = 3,
    /// At a deadline by the TSC, in code whose safepoints poll: the word stays raised, and each of
    /// them reads the clock.
    Raised = 4,
}

/// `struct curtail_safepoint_block`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Block {
    budget: i64,
    poll: AtomicU32,
    /// Of critical sections in the lower half, of locks in the upper.
    depth: u32,
    pending: u32,
    mode: u32,
    deadline: u64,
    refilled_at: u64,
    granted: i64,
    rate: u64,
    yield_hook: Option<unsafe extern "C" fn(*mut Block)>,
    pace: u64,
    edge: i64,
    readings: u64,
    sample_start: u64,
    sample_readings: u64,
    doubt: u64,
    watch: *const Watch,
    slack: i64,
    context: *const (),
    kthread: *const (),
    base: usize,
    ticks: *const (),
    raised_at: *const AtomicPtr<AtomicU32>,
    grace: u64,
    most_grace: u64,
    grace_end: u64,
}

/// Of a depth: critical sections. The rest are locks.
const SECTIONS: u32 = 0xffff;

const _: () = {
    assert!(offset_of!(Block, budget) == 0);
    assert!(offset_of!(Block, poll) == 8);
    assert!(offset_of!(Block, depth) == 12);
    assert!(offset_of!(Block, pending) == 16);
    assert!(offset_of!(Block, mode) == 20);
    assert!(offset_of!(Block, deadline) == 24);
    assert!(offset_of!(Block, refilled_at) == 32);
    assert!(offset_of!(Block, granted) == 40);
    assert!(offset_of!(Block, rate) == 48);
    assert!(offset_of!(Block, yield_hook) == 56);
    assert!(offset_of!(Block, pace) == 64);
    assert!(offset_of!(Block, readings) == 80);
    assert!(offset_of!(Block, doubt) == 104);
    assert!(offset_of!(Block, watch) == 112);
    assert!(offset_of!(Block, slack) == 120);
    assert!(offset_of!(Block, context) == 128);
    assert!(offset_of!(Block, kthread) == 136);
    assert!(offset_of!(Block, base) == 144);
    assert!(offset_of!(Block, ticks) == 152);
    assert!(offset_of!(Block, raised_at) == 160);
    assert!(offset_of!(Block, grace) == 168);
    assert!(size_of::<Block>() == 192);
};

unsafe extern "C" {
    fn curtail_safepoint_arm(block: *mut Block, mode: u32, now: u64, deadline: u64);
    fn curtail_safepoint_disarm(block: *mut Block);
    fn curtail_yield_pending();
    fn curtail_safepoint_kind() -> i32;
    fn curtail_safepoint_has_page() -> i32;
    fn curtail_safepoint_saves_all() -> i32;
    fn curtail_safepoint_slow_sse();
    static curtail_board_layout: [u32; 10];
}

/// Where in the block the poll word is.
pub const POLL_AT: usize = offset_of!(Block, poll);

/// The core allocator's board as `native/batch.c` reads it: its version, the bytes of header and
/// line, where in the header version, both sizes and both counts are, and where in a core's line the
/// core's number and its holder are.
#[must_use]
pub fn board_layout() -> [u32; 10] {
    // SAFETY: a constant of the program, of that size.
    unsafe { curtail_board_layout }
}

/// The running code's block, whichever that is where it is asked. Not `Send`.
#[derive(Clone, Copy, Debug)]
pub struct Safepoint(std::marker::PhantomData<*mut Block>);

/// Another thread's handle to a kthread: it may ask what runs there to yield.
///
/// Which word that is changes with each switch between stacks that have thread-locals of their own: the
/// kthread publishes it before the block there is in use, and takes over what was raised in the block
/// before. Blocks lie in the kthread's own thread-locals or on stacks, whose memory stays mapped; a word
/// that is raised too late is a yield too many.
///
/// # Safety of use
/// Made by [`Safepoint::poll`]; see there.
#[derive(Clone, Debug)]
pub struct Poll(Arc<AtomicPtr<AtomicU32>>);

impl Poll {
    /// Asks the owner to yield at its next safepoint.
    #[inline]
    pub fn raise(&self) {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: alive by the contract of `Safepoint::poll`; atomic.
            unsafe { (*word).store(1, Ordering::Relaxed) };
            // Pairs with that of `hand_over`: either it sees what was raised, or this sees the new word.
            fence(Ordering::SeqCst);
            match self.0.load(Ordering::Acquire) {
                now if now == word => return,
                now => word = now,
            }
        }
    }
}

impl Safepoint {
    /// The one of whatever code uses it.
    #[inline(always)]
    #[must_use]
    pub const fn this_thread() -> Self {
        Self(std::marker::PhantomData)
    }

    #[inline(always)]
    fn block(self) -> *mut Block {
        block_of(words::thread_pointer())
    }

    /// By which other threads ask what runs on this kthread to yield. From its own stack.
    ///
    /// # Safety
    /// The result is not used to raise after this thread has ended.
    #[must_use]
    pub unsafe fn poll(self) -> Poll {
        // SAFETY: this thread's live block.
        let word = unsafe { (&raw const (*self.block()).poll).cast_mut() };
        let place = Arc::new(AtomicPtr::new(word));
        // SAFETY: as above. The place is leaked once for each kthread that is asked this way: stacks which
        // ran there name it until they run elsewhere.
        unsafe { (*self.block()).raised_at = Arc::into_raw(place.clone()) };
        Poll(place)
    }

    /// The page that this thread's block has for itself, in whose place other memory may be put that holds
    /// the same; `None`: the block shares its page with other things, as it does unless the program was
    /// built with safepoints of kind [`Kind::Flag`].
    #[must_use]
    pub fn page(self) -> Option<NonNull<u8>> {
        // SAFETY: reads a constant of the program.
        let has_page = unsafe { curtail_safepoint_has_page() } != 0;
        NonNull::new(self.block().cast()).filter(|_| has_page)
    }

    /// Calls `f`, which may put other memory where the block is, and has the block be as it was before.
    pub fn keep_block(self, f: impl FnOnce()) {
        let place: *mut [u64; size_of::<Block>() / 8] = self.block().cast();
        // SAFETY: our own block; plain words, read as they are.
        let kept = unsafe { place.read_volatile() };
        f();
        // SAFETY: our own block still.
        unsafe { place.write_volatile(kept) };
    }

    /// Has this thread yield at its next safepoint. From a signal's handler on this thread. Where the
    /// interrupted code keeps its budget in a register, one budget may go by first.
    pub fn ask_from_handler(self) {
        // SAFETY: our own block; the code that was interrupted expects its words to change at any
        // call, and reads each once.
        unsafe {
            (*self.block()).poll.store(1, Ordering::Relaxed);
            (&raw mut (*self.block()).budget).write_volatile(-1);
        }
    }

    /// What safepoints call, on the interrupted stack and with all registers saved, when it is time
    /// to yield.
    pub fn set_hook(self, hook: Option<unsafe extern "C" fn(*mut Block)>) {
        // SAFETY: our own block; safepoints of this thread read it, none runs now.
        unsafe { (*self.block()).yield_hook = hook };
    }

    /// What the ends of quanta look at from now on; null: they call the hook, as usual.
    ///
    /// # Safety
    /// It is alive until another one, or none, is set.
    #[inline]
    pub unsafe fn set_watch(self, watch: *const Watch) {
        // SAFETY: our own block; safepoints of this thread read it, none runs now.
        unsafe { (*self.block()).watch = watch };
    }

    /// Starts a quantum; takes back what was asked before. `now`, `deadline`: TSC.
    #[inline]
    pub fn arm(self, mode: Mode, now: u64, deadline: u64) {
        // SAFETY: our own block.
        unsafe {
            (*self.block()).poll.store(0, Ordering::Relaxed);
            curtail_safepoint_arm(self.block(), mode as u32, now, deadline);
        }
    }

    /// No yields until armed again.
    #[inline]
    pub fn disarm(self) {
        // SAFETY: our own block.
        unsafe { curtail_safepoint_disarm(self.block()) };
    }

    /// How long quanta go on that end while a lock is held, from the next one on: `exact`, or as long as
    /// the quantum and so long at most. In cycles, below 2^62.
    pub fn set_grace(self, cycles: u64, exact: bool) {
        let exact = u64::from(exact) << 63;
        // SAFETY: our own block.
        unsafe { (*self.block()).most_grace = cycles & !(1 << 63) | exact };
    }

    /// How deep in critical sections the running code is, and, in the upper half, how many locks it holds.
    #[inline]
    #[must_use]
    pub fn depth(self) -> u32 {
        // SAFETY: our own block.
        unsafe { (*self.block()).depth }
    }

    /// Replaces the depth, when another fiber comes in: returns the old one's.
    #[inline]
    pub fn replace_depth(self, depth: u32) -> u32 {
        // SAFETY: our own block; no reference to it is alive.
        unsafe {
            (*self.block()).pending = 0;
            std::mem::replace(&mut (*self.block()).depth, depth)
        }
    }

    /// When a safepoint of this quantum last read the clock (TSC); `None`: it did not need to.
    #[inline]
    #[must_use]
    pub fn last_reading(self) -> Option<u64> {
        // SAFETY: our own block.
        let tsc = unsafe { (*self.block()).refilled_at };
        // Where time is played, the processor's is another.
        (tsc != 0 && !cfg!(curtail_virtual_time)).then_some(tsc)
    }

    /// Whether a quantum of mode [`Mode::Signal`] runs.
    #[must_use]
    pub fn awaits_signal(self) -> bool {
        // SAFETY: our own block.
        unsafe { (*self.block()).mode == Mode::Signal as u32 }
    }

    /// The quantum is over, and a critical section is not, or the grace of a lock: leaving the outermost
    /// yields. True: it may be left alone no longer, since locks are held for longer than their grace.
    #[must_use]
    pub fn is_due(self, now: u64) -> bool {
        let block = self.block();
        // SAFETY: our own block. The signal may have interrupted `curtail_leave_critical` before its
        // look at `pending` or after; what comes after is made up for by the next tick.
        unsafe {
            if (*block).pending == 0 {
                (*block).grace_end = now + (*block).grace;
            }
            (*block).pending = 1;
            (*block).refilled_at = 0;
            (*block).depth & SECTIONS == 0 && now >= (*block).grace_end
        }
    }

    /// The handler ends the quantum: no other tick does until armed again.
    pub fn end(self) {
        // SAFETY: our own block.
        unsafe { (*self.block()).mode = Mode::Off as u32 };
    }

    /// The deadline of the current quantum (TSC).
    #[inline]
    #[must_use]
    pub fn deadline(self) -> u64 {
        // SAFETY: our own block.
        unsafe { (*self.block()).deadline }
    }
}

/// A safepoint placed by hand: reads the clock and yields if the quantum is over (about 20 ns if
/// not). For loops in code that is not instrumented.
#[inline]
pub fn here() {
    // SAFETY: any place between two Rust statements is a place where a call may happen; the stub
    // preserves more than a call must.
    unsafe { curtail_safepoint_slow_sse() };
}

/// Whether all of this machine's vector registers can be saved at a yield.
pub(crate) fn saves_all() -> bool {
    // SAFETY: asks the processor; what it finds is the same for every thread.
    unsafe { curtail_safepoint_saves_all() != 0 }
}

/// What this program was built with.
#[must_use]
pub fn kind() -> Kind {
    // SAFETY: reads a constant of the program.
    match unsafe { curtail_safepoint_kind() } {
        1 => Kind::Flag,
        2 => Kind::Clock,
        _ => Kind::None,
    }
}

#[cfg(test)]
mod tests;

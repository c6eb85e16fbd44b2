//! Words of other libraries that follow a fiber through its suspensions, although they lie in the
//! kthread: the caught C++ exceptions, and what a program registered ([`keep_word`]).
//!
//! A [`Words`] holds a fiber's values while it does not run. Its kthread alone touches it.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The words that `__cxa_get_globals` points to: caught exceptions, and the count of uncaught ones.
type CxaGlobals = [usize; 2];

/// How many words of other libraries can be kept.
pub const MOST_WORDS: usize = 4;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Words {
    cxa: Cell<CxaGlobals>,
    kept: Cell<[usize; MOST_WORDS]>,
}

impl Words {
    pub(crate) const fn new() -> Self {
        Self { cxa: Cell::new([0; 2]), kept: Cell::new([0; MOST_WORDS]) }
    }

    /// As those of a fiber that has not begun.
    #[inline]
    pub(crate) fn clear(&self) {
        self.cxa.set([0; 2]);
        self.kept.set([0; MOST_WORDS]);
    }

    /// Takes the kthread's values here, and puts those of `to` there.
    #[inline(always)]
    pub(crate) fn exchange(&self, to: &Self) {
        let globals = cxa_globals();
        if !globals.is_null() {
            // SAFETY: this kthread's pair of words that the Itanium C++ ABI fixes at this place
            // (`__cxa_eh_globals`); nothing else on this kthread touches them during a switch.
            self.cxa.set(unsafe { globals.replace(to.cxa.get()) });
        }
        if WORDS.load(Ordering::Relaxed) != 0 {
            exchange_kept(self, to);
        }
    }

    /// Takes the kthread's values here, before its thread-locals are left.
    #[inline(never)]
    pub(crate) fn save(&self) {
        self.exchange(self);
    }

    /// Puts these into the kthread's thread-locals, which have just been come to.
    #[inline(never)]
    pub(crate) fn load(&self) {
        self.exchange(&Self { cxa: self.cxa.clone(), kept: self.kept.clone() });
    }
}

thread_local! {
    static CXA: Cell<*mut CxaGlobals> = const { Cell::new(ptr::null_mut()) };
}

// A weak reference, which Rust cannot spell: null where no C++ runtime is linked.
std::arch::global_asm!(
    ".pushsection .text.curtail_cxa_globals,\"ax\",@progbits",
    ".weak __cxa_get_globals",
    ".globl curtail_cxa_globals",
    ".hidden curtail_cxa_globals",
    ".type curtail_cxa_globals,@function",
    "curtail_cxa_globals:",
    ".cfi_startproc",
    "mov rax, qword ptr [rip + __cxa_get_globals@GOTPCREL]",
    "test rax, rax",
    "je 2f",
    "jmp rax",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size curtail_cxa_globals, . - curtail_cxa_globals",
    ".popsection",
);

unsafe extern "C" {
    fn curtail_cxa_globals() -> *mut CxaGlobals;
}

/// This kthread's C++ exception state, or null in a program without C++.
#[inline]
fn cxa_globals() -> *mut CxaGlobals {
    /// The address was asked for and there is none.
    const NONE: *mut CxaGlobals = ptr::without_provenance_mut(1);
    match CXA.get() {
        NONE => ptr::null_mut(),
        p if p.is_null() => {
            // SAFETY: the assembly above tail-calls `__cxa_get_globals` (no arguments, returns a
            // pointer to the kthread's globals) or returns null.
            let found = unsafe { curtail_cxa_globals() };
            CXA.set(if found.is_null() { NONE } else { found });
            found
        }
        p => p,
    }
}

/// How many of [`PLACES`] are filled in. Only grows.
static WORDS: AtomicUsize = AtomicUsize::new(0);
static PLACES: [AtomicPtr<()>; MOST_WORDS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_WORDS];

/// From now on, each fiber has a value of its own in the word that `place` returns the address of,
/// zero at first: a library's thread-local "current …" (a span, a context) then follows the fiber
/// through all its suspensions. Fibers that exist already keep what they find at their next switch.
///
/// A fiber is a thread or a request. `curtail::keep_word` is this function.
///
/// # Errors
/// Gives `place` back where [`MOST_WORDS`] (four) are kept already.
///
/// # Safety
/// On each kthread `place` returns the address of a word that belongs to this kthread alone, stays
/// valid until the kthread ends, and may be replaced by a value that it had at another time, or by
/// zero, between any two instructions of the library at which a fiber can be suspended. `place`
/// does not suspend.
pub unsafe fn keep_word(place: fn() -> *mut usize) -> Result<(), fn() -> *mut usize> {
    static REGISTERING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _registering = REGISTERING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let count = WORDS.load(Ordering::Relaxed);
    let Some(free) = PLACES.get(count) else { return Err(place) };
    free.store(place as *mut (), Ordering::Release);
    WORDS.store(count + 1, Ordering::Release);
    Ok(())
}

#[cold]
#[inline(never)]
fn exchange_kept(from: &Words, to: &Words) {
    let (mut kept, theirs) = (from.kept.get(), to.kept.get());
    let count = WORDS.load(Ordering::Acquire);
    for ((place, kept), theirs) in PLACES.iter().zip(&mut kept).zip(theirs).take(count) {
        // SAFETY: `keep_word` stored a function of this type before it raised the count.
        let place: fn() -> *mut usize = unsafe {
            std::mem::transmute::<*mut (), fn() -> *mut usize>(place.load(Ordering::Acquire))
        };
        // SAFETY: by the contract of `keep_word`.
        *kept = unsafe { place().replace(theirs) };
    }
    from.kept.set(kept);
}

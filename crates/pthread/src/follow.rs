//! Kthreads follow the mask that is common to all threads of the program: they are told by a signal, and
//! waited for.

use curtail_libc::real;
use curtail_rt::kernel::kernel;
use libc::c_int;
use std::io::Error;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// A set of signals, as the kernel has it: number 1 is the lowest bit.
pub(crate) type Set = u64;

pub(crate) const fn bit(signal: c_int) -> Set {
    1 << (signal - 1)
}

/// glibc's own two, which no thread may block.
pub(crate) const GLIBCS: Set = bit(32) | bit(33);

/// What all kthreads block: everything, until the first thread begins.
static COMMON: AtomicU64 = AtomicU64::new(!0);
/// The last time that all kthreads were told to follow, and how many have not yet: each in
/// half of the bits.
static ROUND: AtomicU64 = AtomicU64::new(0);
/// How long a change of the mask waits for kthreads that do not follow: their core may be another
/// program's.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the runtime uses itself, and what can't be blocked.
pub(crate) fn never() -> Set {
    let first = libc::SIGRTMIN();
    let own = (first..first + 8).fold(0, |all, signal| all | bit(signal));
    own | GLIBCS | bit(libc::SIGKILL) | bit(libc::SIGSTOP)
}

/// Tells a kthread to follow.
fn follow_signal() -> c_int {
    libc::SIGRTMIN() + 6
}

/// Before the first kthread is made: what has one follow.
pub(crate) fn prepare() {
    type SetAction =
        unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    // SAFETY: the action is fully initialised, and its handler has this signature.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = follow as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        let place = std::ptr::null_mut();
        real!(c"sigaction", new, SetAction; follow_signal(), &raw const action, place);
    }
}

/// Sets the calling kernel thread's mask; what it was.
pub(crate) fn set_own_mask(mask: Set) -> Set {
    let mut old: Set = 0;
    let arguments =
        [libc::SIG_SETMASK.into(), address(&raw const mask), address(&raw mut old), 8, 0, 0];
    // SAFETY: our own words.
    unsafe { kernel(libc::SYS_rt_sigprocmask, arguments) };
    old
}

/// That is what all kthreads are to block; true: it was another set. The caller has them follow then.
pub(crate) fn set_common(common: Set) -> bool {
    COMMON.swap(common, Ordering::SeqCst) != common
}

/// The mask of a kthread that has just begun, and whose number others know: who changes the common mask
/// afterwards tells it to follow.
pub(crate) fn take_common() {
    fence(Ordering::SeqCst);
    loop {
        let common = COMMON.load(Ordering::SeqCst);
        set_own_mask(common & !never());
        // A later one may have been followed before this one was set.
        if COMMON.load(Ordering::SeqCst) == common {
            break;
        }
    }
}

/// Calls `f` with the mask of a thread of the program's, on a plain thread that works for it: for what starts
/// children.
pub(crate) fn with_programs_mask<T>(mask: Set, f: impl FnOnce() -> T) -> T {
    let before = set_own_mask(mask);
    let result = f();
    set_own_mask(before);
    result
}

/// From the return of the handler that calls on, the mask is the common one.
///
/// # Safety
/// The handler's context, on a kthread.
pub(crate) unsafe fn return_with_common(context: *mut libc::c_void) {
    // SAFETY: by contract: the kernel takes the mask from there at the return; its sets have eight bytes.
    unsafe {
        let mask = &raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        mask.cast::<Set>().write(COMMON.load(Ordering::SeqCst) & !never());
    }
}

/// Sets the mask of all kthreads, and waits until each has.
#[cold]
pub(super) fn have_all_follow() {
    // SAFETY: no arguments, always succeed.
    let (process, me) = unsafe { (libc::getpid(), kernel(libc::SYS_gettid, [0; 6]) as c_int) };
    let mut tids = [0; 64];
    let count = curtail_rt::thread::kthread_tids(&mut tids);
    let others = || tids[..count].iter().filter(|&&tid| tid != me);
    // Whoever waits for an earlier round waits for this one: it sets what that would have.
    let begin = |round: u64| Some(((round >> 32) + 1) << 32 | others().count() as u64);
    let begun = ROUND.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin);
    let round = (begun.unwrap_or(0) >> 32) as u32 + 1;
    // Before the others are waited for, one of which may wait for this one.
    take_common();
    let until = Instant::now() + PATIENCE;
    for &tid in others() {
        // SAFETY: a signal that has a handler, to a thread of this process or to none, with information
        // that the kernel reads in full.
        let send = || unsafe {
            let mut info: Queued = std::mem::zeroed();
            (info.code, info.value) = (libc::SI_QUEUE, round);
            let signal = follow_signal().into();
            let arguments = [process.into(), tid.into(), signal, address(&raw const info), 0, 0];
            kernel(libc::SYS_rt_tgsigqueueinfo, arguments)
        };
        let mut sent = send();
        // So many signals wait already: there is room when some have come.
        let is_full = || Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
        while sent != 0 && is_full() && Instant::now() < until {
            // SAFETY: no arguments.
            unsafe { kernel(libc::SYS_sched_yield, [0; 6]) };
            sent = send();
        }
        if sent != 0 {
            count_follower(round);
        }
    }
    while ROUND.load(Ordering::SeqCst) as u32 != 0 && Instant::now() < until {
        // SAFETY: no arguments.
        unsafe { kernel(libc::SYS_sched_yield, [0; 6]) };
    }
}

/// What is sent with a signal, as the kernel has it.
#[repr(C)]
struct Queued {
    signal: c_int,
    error: c_int,
    code: c_int,
    _sender: [u32; 3],
    value: u32,
    _rest: [u32; 25],
}

/// One kthread fewer is behind in that round, if it is still the last.
fn count_follower(round: u32) {
    let one_fewer = |state: u64| {
        let is_this = (state >> 32) as u32 == round && state as u32 != 0;
        is_this.then(|| state - 1)
    };
    let _ = ROUND.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_fewer);
}

/// On a kthread: from its return on, the mask is the common one.
extern "C" fn follow(_: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's own context and information.
    let round = unsafe {
        return_with_common(context);
        (*info.cast::<Queued>()).value
    };
    count_follower(round);
}

/// A place, as an argument of a call of the kernel's.
fn address<T>(place: *const T) -> i64 {
    place.expose_provenance() as i64
}

//! The stack of another thread of this process.
//!
//! That thread copies its registers and the memory of its stack in a signal's handler, by one system
//! call that does not fault, and goes on. The caller unwinds the copy and finds the names: whatever
//! code was interrupted, in the middle of a switch or without unwind tables, the worst is a stack
//! that ends early.

use super::parker::rests_here;
use super::unwind::{Unwinding, names_at};
use crate::held;
use curtail_fiber::StackCopy;
use libc::{c_int, c_void, iovec, siginfo_t, ucontext_t};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Words of stack that are copied at most.
const WORDS: usize = 4_096;
/// How long to wait for the other thread's handler.
const PATIENCE: Duration = Duration::from_millis(200);

/// The thread that is asked (a kernel thread's number; 0: none), and what it has copied.
static ASKED: AtomicI32 = AtomicI32::new(0);
static REGISTERS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static STACK: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static COPIED: AtomicUsize = AtomicUsize::new(0);
/// What it held: [`held::words`].
static HELD: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// Whether it was in its own sleep.
static RESTS: AtomicBool = AtomicBool::new(false);
static DONE: AtomicBool = AtomicBool::new(false);
/// Handlers that may write the copy now.
static COPYING: AtomicUsize = AtomicUsize::new(0);

fn signal() -> c_int {
    libc::SIGRTMIN() + 5
}

/// The functions on the stack of thread `tid`, innermost first; empty: it did not answer in time (it
/// is about to end, or stopped).
///
/// A system call that the thread waits in may be interrupted by this, as by any signal's handler.
pub(super) fn stack_of(tid: libc::pid_t) -> Vec<String> {
    ask(tid).map_or_else(Vec::new, |copied| names(&copied.stack))
}

/// [`stack_of`], and what the thread holds: locks, or a critical section. Nothing of a kthread that is in
/// its own sleep by then: what it did before is over.
pub(super) fn look_at(tid: libc::pid_t) -> (Vec<String>, Option<String>) {
    match ask(tid) {
        Some(Copied { stack, held, rests: false }) => (names(&stack), held::say(held)),
        _ => (Vec::new(), None),
    }
}

fn names(stack: &StackCopy) -> Vec<String> {
    // Names take long: others may ask meanwhile.
    Unwinding::new().frames(stack).into_iter().flat_map(names_at).collect()
}

/// What a thread has copied.
struct Copied {
    stack: StackCopy,
    held: [u64; 3],
    rests: bool,
}

/// Has the thread make a copy, and takes it; `None`: it did not answer in time.
fn ask(tid: libc::pid_t) -> Option<Copied> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    install();
    if COPYING.load(Ordering::Acquire) != 0 {
        return None; // One that was asked long ago is at it only now.
    }
    DONE.store(false, Ordering::Relaxed);
    ASKED.store(tid, Ordering::Release);
    // SAFETY: sends a signal that has a handler to a thread of this process, or to none.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) } == 0;
    let until = Instant::now() + PATIENCE;
    while sent && !DONE.load(Ordering::Acquire) && Instant::now() < until {
        std::thread::park_timeout(Duration::from_micros(200));
    }
    ASKED.store(0, Ordering::SeqCst);
    let copied = || {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed) as usize;
        let [ip, sp, bp] = [0, 1, 2].map(|index| word(&REGISTERS[index]));
        let words = STACK[..COPIED.load(Ordering::Relaxed) / 8].iter().map(word);
        let held = HELD.each_ref().map(|word| word.load(Ordering::Relaxed));
        let stack = StackCopy { ip, sp, bp, words: words.collect() };
        Copied { stack, held, rests: RESTS.load(Ordering::Relaxed) }
    };
    DONE.load(Ordering::Acquire).then(copied)
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the action is fully initialised; the handler has this signature.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = copy_stack as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
            // One that pre-empts must not do so in here.
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(signal(), &raw const action, ptr::null_mut());
        }
    });
}

/// The handler: two system calls and a few stores, on the signals' stack.
extern "C" fn copy_stack(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: no arguments, always succeeds.
    let me = unsafe { libc::gettid() };
    // Before the look at the question: a caller that takes that back and asks anew sees this.
    COPYING.fetch_add(1, Ordering::SeqCst);
    if ASKED.load(Ordering::SeqCst) == me {
        copy_from(context);
        DONE.store(true, Ordering::Release);
    }
    COPYING.fetch_sub(1, Ordering::Release);
}

/// Copies the interrupted registers and stack.
fn copy_from(context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted registers to such a handler.
    let registers = unsafe { &(*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let wanted = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP];
    for (place, register) in REGISTERS.iter().zip(wanted) {
        place.store(registers[register as usize] as u64, Ordering::Relaxed);
    }
    for (place, word) in HELD.iter().zip(held::words()) {
        place.store(word, Ordering::Relaxed);
    }
    RESTS.store(rests_here(), Ordering::Relaxed);
    let from = registers[libc::REG_RSP as usize] as usize;
    let here = iovec { iov_base: STACK.as_ptr().cast_mut().cast(), iov_len: WORDS * 8 };
    let there = iovec { iov_base: ptr::without_provenance_mut(from), iov_len: WORDS * 8 };
    // SAFETY: the kernel writes to our own words, which are atomics and which the asking thread
    // does not read yet; what it can't read, it does not.
    let copied = unsafe { copy(&raw const here, &raw const there) };
    COPIED.store(copied.max(0) as usize, Ordering::Relaxed);
}

/// process_vm_readv(2) of this process, without touching errno, which is the interrupted code's. It
/// reads page by page up to where nothing is mapped.
unsafe fn copy(here: *const iovec, there: *const iovec) -> isize {
    let answer: isize;
    // SAFETY: Linux's convention on x86-64; the arguments are the caller's.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_process_vm_readv => answer,
            in("rdi") libc::getpid() as i64, in("rsi") here, in("rdx") 1, in("r10") there,
            in("r8") 1, in("r9") 0, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

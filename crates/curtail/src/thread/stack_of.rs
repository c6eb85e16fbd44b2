//! The stack of another thread of this process: that thread notes its return addresses in a signal's
//! handler, and the caller finds their names.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Frames that are noted at most.
const MOST: usize = 64;
/// How long to wait for the other thread's handler.
const PATIENCE: Duration = Duration::from_millis(200);

/// Who is asked (a kernel thread's number; 0: nobody), and what it has noted.
static ASKED: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static FRAMES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
static NOTED: AtomicBool = AtomicBool::new(false);

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 5
}

/// The names of the functions on the stack of thread `tid`, innermost first; empty: it did not
/// answer in time (it is about to end, or stopped).
///
/// A system call that the thread waits in may be interrupted by this, as by any signal's handler.
pub(super) fn stack_of(tid: libc::pid_t) -> Vec<String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    install();
    NOTED.store(false, Ordering::Relaxed);
    COUNT.store(0, Ordering::Relaxed);
    ASKED.store(tid, Ordering::Release);
    // SAFETY: sends a signal that has a handler to a thread of this process, or to none.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) } == 0;
    let until = Instant::now() + PATIENCE;
    while sent && !NOTED.load(Ordering::Acquire) && Instant::now() < until {
        std::thread::park_timeout(Duration::from_micros(200));
    }
    ASKED.store(0, Ordering::Release);
    if !NOTED.load(Ordering::Acquire) {
        return Vec::new();
    }
    let count = COUNT.load(Ordering::Relaxed).min(MOST);
    let frames = FRAMES[..count].iter().map(|frame| frame.load(Ordering::Relaxed));
    frames.flat_map(names_at).skip_while(|name| name.contains("stack_of")).collect()
}

/// The functions at an address: several where some are inlined.
fn names_at(address: usize) -> Vec<String> {
    let mut names = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut(address), |symbol| {
        let Some(name) = symbol.name() else { return };
        let place = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!(" ({}:{line})", file.display()),
            _ => String::new(),
        };
        names.push(format!("{name:#}{place}"));
    });
    if names.is_empty() {
        names.push(format!("{address:#x}"));
    }
    names
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the action is fully initialised; the handler has this signature.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note_stack as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal(), &raw const action, ptr::null_mut());
        }
    });
}

/// The handler: walks the stack by its unwind tables, which takes no lock (`_dl_find_object`) and no
/// memory. On the interrupted stack, which has room for it: stacks have 16 KiB at least.
extern "C" fn note_stack(_: libc::c_int) {
    // SAFETY: no arguments, always succeeds; by the raw call, since errno is the interrupted code's.
    let me = unsafe { libc::gettid() };
    if ASKED.load(Ordering::Acquire) != me {
        return; // Too late: the one who asked has gone on.
    }
    let mut count = 0;
    // SAFETY: only this thread walks: one is asked at a time.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            FRAMES[count].store(frame.ip() as usize, Ordering::Relaxed);
            count += 1;
            count < MOST
        });
    }
    COUNT.store(count, Ordering::Relaxed);
    NOTED.store(true, Ordering::Release);
}

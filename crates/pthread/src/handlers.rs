//! Handlers of signals: `sigaction`, and the waits that a handler ends.
//!
//! A program's handler is called by one of ours, with the same arguments, on the kthread that got the
//! signal. It rings a bell then; a plain thread hears it, and ends the wait of a thread that lets the signal
//! through, the first one if it does: that wait answers `EINTR`. While a handler runs, nothing is
//! pre-empted on its kthread: it may have interrupted the C library.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::{errno, set_errno, word};
use crate::descriptors::Ended;
use crate::follow::{self, bit};
use crate::pause::is_ours;
use crate::registry::{self, Control};
use crate::signals;
use curtail_libc::real;
use curtail_rt::block::{Deadline, Place, Spin, Wait};
use curtail_rt::kernel::kernel;
use curtail_rt::socket::Source;
use curtail_rt::thread::KThread;
use curtail_rt::wait;
use libc::{c_int, c_void, sigaction as Action, sighandler_t, siginfo_t};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

const SIGNALS: usize = 65;

/// The program's own handlers, and their flags.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(libc::SIG_DFL) }; SIGNALS];
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
/// Whose handlers have run, and no wait has ended for them yet.
static RAN: AtomicU64 = AtomicU64::new(0);
/// Rung after a handler; -1: there is none yet.
static BELL: AtomicI32 = AtomicI32::new(-1);
static SETTING: Spin<()> = Spin::new(());

type SetAction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;

/// Whether the program has a handler for it.
pub(crate) fn has(signal: c_int) -> bool {
    HANDLERS[signal as usize].load(Ordering::Relaxed) > libc::SIG_IGN
}

/// Faults are the thread's own doing: their handlers are called by the kernel.
fn is_fault(signal: c_int) -> bool {
    matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS
    )
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const Action,
    old: *mut Action,
) -> c_int {
    let known = (1..SIGNALS as c_int).contains(&signal) && !is_fault(signal);
    if !known || !is_ours() || crate::begin::first() == 0 {
        return real!(c"sigaction", new, SetAction; signal, action, old);
    }
    let place = &HANDLERS[signal as usize];
    let mut ours = None;
    // SAFETY: the caller's action, if there is one.
    if let Some(action) = unsafe { action.as_ref() }
        && action.sa_sigaction > libc::SIG_IGN
    {
        let mut changed = *action;
        changed.sa_sigaction = handle as *const () as usize;
        changed.sa_flags |= libc::SA_SIGINFO;
        // SAFETY: the set is ours.
        unsafe {
            (libc::SIGRTMIN()..libc::SIGRTMIN() + 8)
                .for_each(|own| _ = libc::sigaddset(&raw mut changed.sa_mask, own));
        }
        ring_from_now_on();
        ours = Some(changed);
    }
    let given = ours.as_ref().map_or(action, ptr::from_ref);
    SETTING.with(|()| {
        let before =
            (place.load(Ordering::Relaxed), FLAGS[signal as usize].load(Ordering::Relaxed));
        // SAFETY: the caller's action.
        if let Some(action) = unsafe { action.as_ref() } {
            FLAGS[signal as usize].store(action.sa_flags, Ordering::Relaxed);
            place.store(action.sa_sigaction, Ordering::Relaxed);
        }
        let answer = real!(c"sigaction", new, SetAction; signal, given, old);
        // SAFETY: the caller's place, filled in just now.
        match unsafe { old.as_mut() } {
            Some(old) if answer == 0 && old.sa_sigaction == handle as *const () as usize => {
                (old.sa_sigaction, old.sa_flags) = before;
            }
            _ => {}
        }
        answer
    })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: actions of ours, fully initialised.
    unsafe {
        let (mut action, mut old): (Action, Action) = (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaddset(&raw mut action.sa_mask, number);
        match sigaction(number, &raw const action, &raw mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// Calls the program's handler.
extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = HANDLERS[signal as usize].load(Ordering::Relaxed);
    let flags = FLAGS[signal as usize].load(Ordering::Relaxed);
    if handler > libc::SIG_IGN {
        // SAFETY: the program's own handler, of the one kind or the other.
        unsafe {
            if flags & libc::SA_SIGINFO != 0 {
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            } else {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
    if KThread::try_here().is_some() {
        // The handler may have changed masks.
        // SAFETY: the kernel's own context, of a handler that holds back who else would set it.
        unsafe { follow::return_with_common(context) };
    }
    if flags & libc::SA_RESETHAND != 0 {
        HANDLERS[signal as usize].store(libc::SIG_DFL, Ordering::Relaxed);
    }
    // SAFETY: the kernel's own information: the action asks for it.
    if unsafe { (*info).si_code } == libc::SI_TKILL {
        return; // It was for the running thread, which does not wait.
    }
    RAN.fetch_or(bit(signal), Ordering::SeqCst);
    let (before, one) = (errno(), 1_u64);
    let bell = BELL.load(Ordering::Relaxed);
    // SAFETY: eight bytes of ours, to a descriptor of ours.
    unsafe { kernel(libc::SYS_write, [bell.into(), word(&raw const one), 8, 0, 0, 0]) };
    set_errno(before);
}

/// Has a plain thread end waits after handlers.
fn ring_from_now_on() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a new descriptor.
        let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        BELL.store(bell, Ordering::Relaxed);
        let listen = move || {
            signals::block_all();
            let mut count = 0_u64;
            // SAFETY: eight bytes of ours.
            while unsafe { kernel(libc::SYS_read, [bell.into(), word(&raw mut count), 8, 0, 0, 0]) }
                == 8
            {
                end_a_wait(RAN.swap(0, Ordering::SeqCst));
            }
        };
        curtail_rt::thread::as_plain_thread(|| {
            let thread = std::thread::Builder::new().name("curtail-signals".to_owned());
            drop(thread.spawn(listen));
        });
    });
}

/// Handlers of those signals have run: one thread's wait ends. The first thread has them all, as the kernel
/// has it, unless it blocks them: where that does not wait, none does.
fn end_a_wait(ran: follow::Set) {
    let lets_through = |control: &Control| ran & !control.mask.load(Ordering::Relaxed) != 0;
    let waits = |control: &Control| control.interruptible.load(Ordering::SeqCst) != 0;
    let first = registry::find(crate::begin::first()).filter(|first| lets_through(first));
    let chosen = match first {
        Some(first) => Some(first).filter(|first| waits(first)),
        None => registry::find_where(|control| lets_through(control) && waits(control)),
    };
    if let Some(chosen) = chosen {
        interrupt(&chosen);
    }
}

/// Ends the wait that a thread is in, if a signal may end that.
pub(crate) fn interrupt(control: &Control) {
    control.interrupted.store(1, Ordering::SeqCst);
    wait::wake_all(address(control));
    if let Some(source) = control.source.with(|source| source.clone()) {
        source.nudge_both();
    }
}

fn address(control: &Control) -> usize {
    &raw const control.interrupted as usize
}

/// The calling thread waits until a handler has run.
pub(crate) fn wait_for_signal(own: &Control) {
    let _waiting = Waiting::begin(own, None);
    while !take_interruption(own) {
        let still = || own.interrupted.load(Ordering::SeqCst) == 0;
        wait::wait(address(own), Place::Last, None, still, || {});
    }
}

/// The calling thread sleeps: until that time, or until a handler has run.
pub(crate) fn sleep(deadline: Option<Deadline>) -> Ended {
    let Some(own) = registry::own() else {
        crate::ready::sleep_until(deadline);
        return Ended::Time;
    };
    let _waiting = Waiting::begin(own, None);
    loop {
        let still = || own.interrupted.load(Ordering::SeqCst) == 0;
        let ended = wait::wait(address(own), Place::Last, deadline, still, || {});
        if take_interruption(own) {
            return Ended::Interrupted;
        }
        if ended == Wait::Expired {
            return Ended::Time;
        }
    }
}

/// Whether a signal ends the wait that the calling thread is in.
pub(crate) fn take_interruption(own: &Control) -> bool {
    let interrupted = own.interrupted.load(Ordering::SeqCst) != 0
        && own.interrupted.swap(0, Ordering::SeqCst) != 0;
    if interrupted {
        signals::deliver(own);
    }
    interrupted
}

/// As long as it lives, signals end the calling thread's wait.
pub(crate) struct Waiting<'a>(&'a Control);

impl<'a> Waiting<'a> {
    pub(crate) fn begin(own: &'a Control, source: Option<&Source>) -> Self {
        if let Some(source) = source {
            let old = own.source.with(|place| place.replace(source.clone()));
            drop(old);
        }
        own.interruptible.fetch_add(1, Ordering::SeqCst);
        Self(own)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.interruptible.fetch_sub(1, Ordering::SeqCst);
        let old = self.0.source.with(Option::take);
        drop(old);
    }
}

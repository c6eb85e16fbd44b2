//! Stack overflow: a touch of a guard ends the process with a message that names the fiber.
//!
//! The table of slabs is written under a lock and read by the signal handler without one: a slab is
//! filled in before the count that makes it visible is raised, and never changes afterwards.

use crate::context::{Kind, Label};
use crate::stack::{GUARD, StackError};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock};

/// 64 stacks each: room for four million fibers.
pub(crate) const MAX_SLABS: usize = 1 << 16;

/// Debuggers read these, too: `gdb/curtail.py`.
#[repr(C)]
struct Slab {
    low: AtomicUsize,
    slot: AtomicUsize,
    slots: AtomicUsize,
}

static SLABS: [Slab; MAX_SLABS] = [const {
    Slab { low: AtomicUsize::new(0), slot: AtomicUsize::new(0), slots: AtomicUsize::new(0) }
}; MAX_SLABS];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static GROW: Mutex<()> = Mutex::new(());

pub(crate) fn register_slab(low: usize, slot: usize, slots: usize) -> Result<(), StackError> {
    let _growing = GROW.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let index = COUNT.load(Ordering::Relaxed);
    let slab = SLABS.get(index).ok_or(StackError::TooManySlabs)?;
    slab.low.store(low, Ordering::Relaxed);
    slab.slot.store(slot, Ordering::Relaxed);
    slab.slots.store(slots, Ordering::Relaxed);
    COUNT.store(index + 1, Ordering::Release);
    Ok(())
}

/// All slabs: the low end of each, the bytes of its slots, and how many these are.
pub(crate) fn slabs() -> impl Iterator<Item = (usize, usize, usize)> {
    let word = |word: &AtomicUsize| word.load(Ordering::Relaxed);
    let slabs = &SLABS[..COUNT.load(Ordering::Acquire)];
    slabs.iter().map(move |slab| (word(&slab.low), word(&slab.slot), word(&slab.slots)))
}

/// Whether `address` lies in a stack's guard.
fn in_a_guard(address: usize) -> bool {
    slabs().any(|(low, slot, slots)| {
        (low..low + slot * slots).contains(&address) && (address - low) % slot < GUARD
    })
}

/// Whether `address` lies in a stack that was made here, in its guard or in its thread-locals.
#[must_use]
pub fn is_on_a_stack(address: usize) -> bool {
    slabs().any(|(low, slot, slots)| (low..low + slot * slots).contains(&address))
}

/// Makes stack overflows on this thread's fibers end with a message. Call it once on every thread
/// that runs fibers; what it sets up stays until the thread ends.
pub fn prepare_thread() {
    crate::safepoint::set_base();
    install_handler();
    // The faulting stack is full.
    crate::alternate_stack::give();
}

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: `action` is fully initialised, the handler has the SA_SIGINFO signature and
            // does only what is allowed in a signal handler; PREVIOUS is written before any
            // handler can read it, since sigaction publishes the handler after returning the old.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
                if libc::sigaction(signal, ptr::null(), previous.as_mut_ptr()) == 0 {
                    PREVIOUS[slot_of(signal)]
                        .store(previous.assume_init().sa_sigaction, Ordering::Relaxed);
                    libc::sigaction(signal, &raw const action, ptr::null_mut());
                }
            }
        }
    });
}

/// Handlers that were there before (std's, usually): they get the faults that are not ours.
static PREVIOUS: [AtomicUsize; 2] = [const { AtomicUsize::new(libc::SIG_DFL) }; 2];

fn slot_of(signal: libc::c_int) -> usize {
    usize::from(signal == libc::SIGBUS)
}

extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler, and a fault fills si_addr.
    let address = unsafe { (*info).si_addr() } as usize;
    if in_a_guard(address) {
        report(address);
        restore_default(signal);
        return; // The access faults again and ends the process, with a core where wanted.
    }
    match PREVIOUS[slot_of(signal)].load(Ordering::Relaxed) {
        libc::SIG_DFL | libc::SIG_IGN => restore_default(signal),
        previous => {
            // SAFETY: std installs its handler with SA_SIGINFO, as every handler that needs the
            // address does, so the stored word is a function of this signature.
            let previous: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(previous) };
            previous(signal, info, context);
        }
    }
}

fn restore_default(signal: libc::c_int) {
    // SAFETY: resetting a disposition is async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Calls what it is given with the running thread's name, if it has one.
pub type NameIt = fn(&mut dyn FnMut(&str));

static NAME_IT: OnceLock<NameIt> = OnceLock::new();

fn nameless(_: &mut dyn FnMut(&str)) {}

/// How the message of an overflow learns a thread's name; the first to say so is right. `name_it` is
/// called in a signal handler, by a kthread whose running thread has too little stack.
pub fn name_threads_by(name_it: NameIt) {
    let _ = NAME_IT.set(name_it);
}

/// Writes the message: no allocation, no lock, one write(2).
fn report(address: usize) {
    use std::io::Write;
    let mut text = [0_u8; 320];
    let mut cursor = std::io::Cursor::new(&mut text[..]);
    let _ = write!(cursor, "\ncurtail: stack overflow in a fiber (address {address:#x}): ");
    let is_thread = crate::context::current_kind() == Some(Kind::Thread);
    let _ = match crate::context::current_label() {
        None => write!(cursor, "no task on this thread"),
        Some(Label { class, stack_bytes, .. }) if is_thread => {
            let _ = write!(cursor, "thread ");
            let name_it: NameIt = *NAME_IT.get().unwrap_or(&(nameless as _));
            // A name that is cut short leaves room for the rest.
            name_it(&mut |name| drop(write!(cursor, "{name:.100?} ")));
            write!(cursor, "of class {class}, stack of {} KiB", stack_bytes / 1024)
        }
        Some(Label { job, class, worker, stack_bytes }) => write!(
            cursor,
            "request {job} of class {class} on worker {worker}, stack of {} KiB",
            stack_bytes / 1024
        ),
    };
    let _ = writeln!(cursor, ". Ask for larger stacks (stack_size).");
    let length = cursor.position() as usize;
    // SAFETY: write(2) of initialised bytes; async-signal-safe.
    unsafe { libc::write(2, text.as_ptr().cast(), length) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StackPool;

    #[test]
    fn guards_are_told_from_stacks() {
        let stack = StackPool::new(32 * 1024, crate::Locals::Own).unwrap().take().unwrap();
        let (low, top) = (stack.usable().start - GUARD, stack.top());
        assert!(in_a_guard(low) && in_a_guard(low + GUARD - 1));
        assert!(!in_a_guard(low + GUARD) && !in_a_guard(top - 1));
        assert!(!in_a_guard(&raw const stack as usize), "the thread's own stack is none of ours");
    }
}

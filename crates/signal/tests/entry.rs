//! A tick before every single instruction from the start of a fiber until one is taken, where all
//! code is declared the application's: until the task begins there is nothing to yield to.
//!
//! The thread runs by single steps (the processor's trap flag). Each trap sends a tick, which comes
//! when the trap's handler returns: just before the next instruction.

#[path = "../../fiber/tests/support/mod.rs"]
mod support;

use curtail_fiber::safepoint::{Block, Safepoint};
use curtail_fiber::{Label, Locals, StackPool};
use curtail_signal::{self as signal, Code, Owner, Ticker};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use support::{Fiber, Suspend, Task};

const TRAP_FLAG: i64 = 0x100;

/// Sends the ticks, while the thread steps, which has other thread-locals on the fiber.
static STEPPING: AtomicPtr<Ticker> = AtomicPtr::new(ptr::null_mut());
static STEPS: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

unsafe extern "C" fn on_tick(_: *mut Block) {
    STEPPING.store(ptr::null_mut(), Relaxed);
    support::suspend(Suspend::Preempted);
}

extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let ticker = STEPPING.load(Relaxed);
    if ticker.is_null() {
        // SAFETY: the kernel's context, ours until this handler returns.
        unsafe {
            let context = &mut *context.cast::<libc::ucontext_t>();
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
        }
        return;
    }
    STEPS.fetch_add(1, Relaxed);
    // SAFETY: the test's own, alive while it steps.
    unsafe { (*ticker).tick(now()) };
}

fn handle_traps() {
    // SAFETY: a handler of the SA_SIGINFO kind. It runs with all signals held back, so that the tick
    // comes after it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()), 0);
    }
}

/// From here on a trap after each instruction, until `STEPPING` is null.
fn step(ticker: &Ticker) {
    STEPPING.store(ptr::from_ref(ticker).cast_mut(), Relaxed);
    // SAFETY: changes the trap flag alone; its handler is in place.
    unsafe {
        std::arch::asm!("pushfq", "or dword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG);
    }
}

unsafe fn add_one(number: *mut ()) {
    // SAFETY: the test's own.
    unsafe { *number.cast::<u64>() += 1 };
}

#[test]
fn no_tick_is_taken_before_the_task_begins() {
    // SAFETY: a lie, which the test is about: it can do without, up to the first tick that is taken.
    unsafe { signal::allow(Code { application: everything(), program: 0..usize::MAX }) };
    let owner = Owner::new(1 << 31).unwrap();
    Safepoint::this_thread().set_hook(Some(on_tick));
    let mut pool = StackPool::new(64 * 1024, Locals::Own).unwrap();
    let mut fiber = Fiber::new(&mut pool).unwrap();
    let ticker = owner.ticker();
    handle_traps();
    let mut number = 0_u64;
    let task = Task { run: add_one, argument: (&raw mut number).cast() };
    // The first start enters the fiber's stack; the others find it waiting.
    for round in 1..=3 {
        let before = ticker.counts();
        owner.arm(now(), u64::MAX / 4, false);
        step(&ticker);
        // SAFETY: the task's argument outlives the fiber.
        let why = unsafe { fiber.start(task, Label::default()) };
        STEPPING.store(ptr::null_mut(), Relaxed);
        Safepoint::this_thread().disarm();
        let ticks = ticker.counts();
        assert!(matches!(why, Suspend::Preempted), "{round}: {why:?} {ticks:?}");
        assert_eq!(ticks.taken, before.taken + 1);
        assert!(ticks.all_refused() > before.all_refused() + 30, "{ticks:?} after {before:?}");
        // SAFETY: on the thread that started it.
        assert!(matches!(unsafe { fiber.resume() }, Suspend::Done), "{round}");
        // SAFETY: the fiber has ended, so nothing else uses it.
        assert_eq!(unsafe { (&raw const number).read_volatile() }, round);
    }
    assert!(STEPS.load(Relaxed) > 100);
}

#[allow(clippy::single_range_in_vec_init, reason = "it is one range")]
fn everything() -> Vec<std::ops::Range<usize>> {
    vec![0..usize::MAX]
}

//! Fibers from outside: switching, panics, reuse, backtraces, yields from a safepoint, overflow.

use crate::support::{Fiber, Suspend, Task, suspend};
use curtail_fiber::safepoint::{self, Block, Mode, Safepoint};
use curtail_fiber::{Label, Locals, StackPool, on_fiber};
use std::process::Command;

fn pool() -> StackPool {
    StackPool::new(64 * 1024, Locals::Own).unwrap()
}

/// Runs a closure as a fiber's task, to its first suspension.
fn start<F: FnMut()>(fiber: &mut Fiber, body: &mut F) -> Suspend {
    unsafe fn call<F: FnMut()>(argument: *mut ()) {
        // SAFETY: `argument` is the closure that `start` was given, alive until the task is done:
        // each test drives its fibers to the end before the closure goes.
        unsafe { (*argument.cast::<F>())() }
    }
    let task = Task { run: call::<F>, argument: (&raw mut *body).cast() };
    // SAFETY: as above; everything stays on this thread.
    unsafe { fiber.start(task, Label { job: 7, class: 1, worker: 3, stack_bytes: 0 }) }
}

fn resume(fiber: &mut Fiber) -> Suspend {
    // SAFETY: the same thread as before.
    unsafe { fiber.resume() }
}

#[test]
fn tasks_suspend_and_go_on_and_the_fiber_is_used_again() {
    let mut fiber = Fiber::new(&mut pool()).unwrap();
    for round in 0..1_000_u64 {
        let mut steps = Vec::new();
        let mut body = || {
            assert!(on_fiber());
            for step in 0..3 {
                steps.push(round * 10 + step);
                suspend(Suspend::Yielded);
            }
        };
        assert!(matches!(start(&mut fiber, &mut body), Suspend::Yielded));
        assert!(!on_fiber() && !fiber.is_idle());
        assert!(matches!(resume(&mut fiber), Suspend::Yielded));
        assert!(matches!(resume(&mut fiber), Suspend::Yielded));
        assert!(matches!(resume(&mut fiber), Suspend::Done));
        assert!(fiber.is_idle());
        assert_eq!(steps, [round * 10, round * 10 + 1, round * 10 + 2]);
    }
}

#[test]
fn many_fibers_interleave_on_their_own_stacks() {
    let mut pool = pool();
    let mut sums = vec![0_u64; 200];
    let mut bodies: Vec<_> = sums
        .iter_mut()
        .enumerate()
        .map(|(index, sum)| {
            move || {
                let mut local = [index as u64; 64];
                for (round, place) in local.iter_mut().enumerate().take(20) {
                    suspend(Suspend::Yielded);
                    *place += round as u64;
                }
                *sum = local.iter().sum();
            }
        })
        .collect();
    let mut fibers: Vec<_> = (0..200).map(|_| Fiber::new(&mut pool).unwrap()).collect();
    for (fiber, body) in fibers.iter_mut().zip(&mut bodies) {
        assert!(matches!(start(fiber, body), Suspend::Yielded));
    }
    for _ in 0..19 {
        for fiber in &mut fibers {
            assert!(matches!(resume(fiber), Suspend::Yielded));
        }
    }
    for fiber in &mut fibers {
        assert!(matches!(resume(fiber), Suspend::Done));
    }
    drop(bodies);
    for (index, sum) in sums.iter().enumerate() {
        assert_eq!(*sum, 64 * index as u64 + 190);
    }
}

#[test]
fn a_panic_stays_inside() {
    let mut fiber = Fiber::new(&mut pool()).unwrap();
    let mut bad = || {
        suspend(Suspend::Yielded);
        std::panic::panic_any(42_i32);
    };
    assert!(matches!(start(&mut fiber, &mut bad), Suspend::Yielded));
    match resume(&mut fiber) {
        Suspend::Panicked(payload) => assert_eq!(*payload.downcast::<i32>().unwrap(), 42),
        other => panic!("{other:?}"),
    }
    let mut good = || {};
    assert!(matches!(start(&mut fiber, &mut good), Suspend::Done));
}

#[test]
fn a_backtrace_reaches_through_the_fiber_to_its_thread() {
    #[inline(never)]
    fn deep(level: u32) -> String {
        if level == 0 {
            std::backtrace::Backtrace::force_capture().to_string()
        } else {
            std::hint::black_box(deep(level - 1))
        }
    }
    let mut fiber = Fiber::new(&mut pool()).unwrap();
    let mut text = String::new();
    let mut body = || text = deep(3);
    assert!(matches!(start(&mut fiber, &mut body), Suspend::Done));
    assert!(text.matches("deep").count() >= 4, "{text}");
    assert!(text.contains("a_backtrace_reaches_through"), "{text}");
}

#[test]
fn a_dropped_task_is_forgotten_and_its_stack_not_reused() {
    let mut pool = pool();
    let mut fiber = Fiber::new(&mut pool).unwrap();
    let mut body = || suspend(Suspend::Blocked);
    assert!(matches!(start(&mut fiber, &mut body), Suspend::Blocked));
    drop(fiber);
    let mut next = Fiber::new(&mut pool).unwrap();
    let mut ran = false;
    let mut body = || ran = true;
    assert!(matches!(start(&mut next, &mut body), Suspend::Done));
    assert!(ran);
}

unsafe extern "C" fn yield_here(_: *mut Block) {
    suspend(Suspend::Preempted);
}

#[test]
fn a_safepoint_yields_when_due_but_not_in_a_critical_section() {
    let safepoint = Safepoint::this_thread();
    safepoint.set_hook(Some(yield_here));
    let mut fiber = Fiber::new(&mut pool()).unwrap();
    let mut trail = Vec::new();
    let mut body = || {
        trail.push("inside");
        safepoint::enter_critical();
        safepoint::here();
        trail.push("still inside");
        safepoint::leave_critical();
        trail.push("after");
        safepoint::here();
        trail.push("end");
    };
    safepoint.arm(Mode::Clock, 0, 1); // Long ago: every safepoint is due.
    assert!(matches!(start(&mut fiber, &mut body), Suspend::Preempted));
    assert_eq!(safepoint.depth(), 0, "it yielded on leaving");
    safepoint.arm(Mode::Clock, 0, 1);
    assert!(matches!(resume(&mut fiber), Suspend::Preempted));
    safepoint.disarm();
    assert!(matches!(resume(&mut fiber), Suspend::Done));
    safepoint.set_hook(None);
    assert_eq!(trail, ["inside", "still inside", "after", "end"]);
}

#[test]
fn a_raised_flag_yields() {
    let safepoint = Safepoint::this_thread();
    safepoint.set_hook(Some(yield_here));
    // SAFETY: used on this thread only.
    let poll = unsafe { safepoint.poll() };
    let mut fiber = Fiber::new(&mut pool()).unwrap();
    let mut body = || {
        safepoint::here();
        poll.raise();
        safepoint::here();
    };
    safepoint.arm(Mode::Flag, 0, 0);
    assert!(matches!(start(&mut fiber, &mut body), Suspend::Preempted));
    safepoint.disarm();
    assert!(matches!(resume(&mut fiber), Suspend::Done));
    safepoint.set_hook(None);
}

/// Overflows on purpose when asked to by `overflow_names_the_fiber`, in a process of its own.
#[test]
fn overflow_child() {
    if std::env::var_os("CURTAIL_TEST_OVERFLOW").is_none() {
        return;
    }
    #[inline(never)]
    fn recurse(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 64]);
        if depth == u64::MAX { 0 } else { frame[1] + recurse(depth + 1) + frame[63] }
    }
    curtail_fiber::prepare_thread();
    let mut fiber = Fiber::new(&mut pool()).unwrap();
    let mut body = || _ = std::hint::black_box(recurse(0));
    start(&mut fiber, &mut body);
}

#[test]
fn overflow_names_the_fiber() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fiber::overflow_child", "--nocapture", "--test-threads=1"])
        .env("CURTAIL_TEST_OVERFLOW", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("stack overflow in a fiber"), "{text}");
    assert!(text.contains("request 7 of class 1 on worker 3, stack of "), "{text}");
}

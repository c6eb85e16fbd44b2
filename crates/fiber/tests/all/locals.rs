//! Thread-locals of a stack's own: what runs on a fiber finds its own, through suspensions, and on
//! another kernel thread, too.

use crate::support::{Fiber, Suspend, Task, suspend};
use curtail_fiber::{Label, Locals, StackPool, end_thread_locals, image};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(1) };
    static LIST: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static DROPS: Dropped = const { Dropped };
}
static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Dropped;

impl Drop for Dropped {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn fiber() -> Fiber {
    curtail_fiber::prepare_thread();
    Fiber::new(&mut StackPool::new(64 * 1024, Locals::Own).unwrap()).unwrap()
}

/// Starts a fiber that calls `f`, which outlives it.
fn start<F: FnMut()>(fiber: &mut Fiber, f: &mut F) -> Suspend {
    unsafe fn call<F: FnMut()>(f: *mut ()) {
        // SAFETY: `start` passes the closure.
        unsafe { (*f.cast::<F>())() }
    }
    // SAFETY: the tests keep `f` until the fiber has ended.
    unsafe {
        fiber.start(Task { run: call::<F>, argument: (&raw mut *f).cast() }, Label::default())
    }
}

fn resume(fiber: &mut Fiber) -> Suspend {
    // SAFETY: what runs on it has thread-locals of its own.
    unsafe { fiber.resume() }
}

#[test]
fn this_machine_can() {
    assert_eq!(image::support(), Ok(()));
}

#[test]
fn values_and_borrows_are_a_fibers_own() {
    OWN.set(5);
    let mut fibers: Vec<_> = (0..3).map(|_| fiber()).collect();
    let mut bodies: Vec<_> = (10..13)
        .map(|number| {
            move || {
                assert_eq!(OWN.replace(number), 1);
                LIST.with_borrow_mut(|list| {
                    list.push(number);
                    suspend(Suspend::Yielded);
                    list.push(number + 1);
                });
                assert_eq!(OWN.get(), number);
                assert_eq!(LIST.take(), [number, number + 1]);
            }
        })
        .collect();
    for (fiber, body) in fibers.iter_mut().zip(&mut bodies) {
        assert!(matches!(start(fiber, body), Suspend::Yielded));
        assert_eq!((OWN.get(), LIST.with_borrow(Vec::len)), (5, 0));
    }
    for fiber in &mut fibers {
        assert!(matches!(resume(fiber), Suspend::Done));
    }
    assert_eq!(OWN.get(), 5);
}

#[test]
fn identities_differ_and_stay_on_another_kernel_thread() {
    static IDS: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());
    let body = || {
        let id = thread::current().id();
        IDS.lock().unwrap().push(id);
        OWN.set(77);
        // SAFETY: errno is the caller's own.
        unsafe { *libc::__errno_location() = 1_234 };
        suspend(Suspend::Yielded);
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 1_234);
        assert_eq!((thread::current().id(), OWN.get()), (id, 77));
        assert!("abc".parse::<f64>().is_err());
        // SAFETY: takes and returns numbers.
        assert_ne!(unsafe { libc::isalpha(97) }, 0);
        let texts: Vec<String> = (0..100).map(|n| format!("{n}")).collect();
        assert_eq!(texts.concat().len(), 190);
    };
    let (mut first, mut second) = (fiber(), fiber());
    let (mut one, mut other) = (body, body);
    assert!(matches!(start(&mut first, &mut one), Suspend::Yielded));
    assert!(matches!(start(&mut second, &mut other), Suspend::Yielded));
    struct Carry(Fiber);
    // SAFETY: what the fiber runs is tied to no kernel thread.
    unsafe impl Send for Carry {}
    let carry = Carry(first);
    thread::scope(|scope| {
        let there = move || {
            let mut carry = carry;
            curtail_fiber::prepare_thread();
            assert!(matches!(resume(&mut { &mut carry }.0), Suspend::Done));
        };
        scope.spawn(there);
    });
    assert!(matches!(resume(&mut second), Suspend::Done));
    let mut ids: HashSet<_> = IDS.lock().unwrap().iter().copied().collect();
    ids.insert(thread::current().id());
    assert_eq!(ids.len(), 3);
}

#[test]
fn recursive_locks_have_one_owner() {
    let mut lock = std::mem::MaybeUninit::<libc::pthread_mutex_t>::zeroed();
    // SAFETY: POSIX's own calls, on memory of ours.
    unsafe {
        let mut kind = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::zeroed();
        libc::pthread_mutexattr_init(kind.as_mut_ptr());
        libc::pthread_mutexattr_settype(kind.as_mut_ptr(), libc::PTHREAD_MUTEX_RECURSIVE);
        assert_eq!(libc::pthread_mutex_init(lock.as_mut_ptr(), kind.as_ptr()), 0);
    }
    let lock = lock.as_mut_ptr();
    // SAFETY: as above.
    let mut holder = || unsafe {
        assert_eq!((libc::pthread_mutex_lock(lock), libc::pthread_mutex_lock(lock)), (0, 0));
        suspend(Suspend::Yielded);
        assert_eq!((libc::pthread_mutex_unlock(lock), libc::pthread_mutex_unlock(lock)), (0, 0));
    };
    // SAFETY: as above.
    let mut other = || assert_eq!(unsafe { libc::pthread_mutex_trylock(lock) }, libc::EBUSY);
    let (mut first, mut second) = (fiber(), fiber());
    assert!(matches!(start(&mut first, &mut holder), Suspend::Yielded));
    assert!(matches!(start(&mut second, &mut other), Suspend::Done));
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_mutex_trylock(lock) }, libc::EBUSY);
    assert!(matches!(resume(&mut first), Suspend::Done));
}

#[test]
fn a_stack_for_another_thread_has_new_thread_locals() {
    curtail_fiber::prepare_thread();
    let mut pool = StackPool::new(64 * 1024, Locals::Own).unwrap();
    for round in 1..=3 {
        let mut fiber = Fiber::new(&mut pool).unwrap();
        let mut body = || {
            assert_eq!(OWN.replace(9), 1);
            DROPS.with(|_| {});
            let id = thread::current().id();
            assert_eq!(thread::current().id(), id);
            end_thread_locals();
        };
        assert!(matches!(start(&mut fiber, &mut body), Suspend::Done));
        assert_eq!(DROPPED.load(Ordering::Relaxed), round);
        fiber.retire(&mut pool);
        let stack = pool.take_warm().unwrap();
        // SAFETY: what ran on it has ended, its thread-locals' destructors have been called.
        unsafe { stack.renew_locals() };
        pool.give(stack);
    }
}

#[test]
fn fibers_that_share_see_the_kernel_threads() {
    OWN.set(3);
    let mut pool = StackPool::new(64 * 1024, Locals::Shared).unwrap();
    let mut fiber = Fiber::new(&mut pool).unwrap();
    let mut body = || {
        assert_eq!(OWN.replace(4), 3);
        suspend(Suspend::Yielded);
        assert_eq!(OWN.get(), 6);
    };
    assert!(matches!(start(&mut fiber, &mut body), Suspend::Yielded));
    assert_eq!(OWN.replace(6), 4);
    assert!(matches!(resume(&mut fiber), Suspend::Done));
}

//! `pthread_once` on threads whose routine blocks, or unwinds.

use crate::common;

use common::in_time;
use curtail::{Runtime, scope};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// C's control of a routine.
struct Control(UnsafeCell<libc::c_int>);

// SAFETY: it is made to be shared between threads.
unsafe impl Sync for Control {}

unsafe extern "C-unwind" {
    fn pthread_once(control: *mut libc::c_int, routine: extern "C-unwind" fn()) -> libc::c_int;
}

impl Control {
    const fn new() -> Self {
        Self(UnsafeCell::new(0)) // PTHREAD_ONCE_INIT
    }

    fn once(&self, routine: extern "C-unwind" fn()) {
        // SAFETY: an initialised control.
        assert_eq!(unsafe { pthread_once(self.0.get(), routine) }, 0);
    }
}

#[test]
fn a_routine_that_sleeps_is_waited_for() {
    static CONTROLS: [Control; 2] = [const { Control::new() }; 2];
    static RUN: AtomicUsize = AtomicUsize::new(0);
    extern "C-unwind" fn sleeps() {
        std::thread::sleep(5 * MS);
        RUN.fetch_add(1, Ordering::SeqCst);
    }
    for (kthreads, control) in CONTROLS.iter().enumerate() {
        RUN.store(0, Ordering::SeqCst);
        in_time(move || {
            Runtime::builder().kthreads(1 + kthreads).run(|| {
                scope(|scope| {
                    for _ in 0..20 {
                        scope.spawn(|| {
                            control.once(sleeps);
                            assert_eq!(RUN.load(Ordering::SeqCst), 1);
                        });
                    }
                });
            });
        });
        assert_eq!(RUN.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn two_routines_that_wait_for_each_others_threads_end() {
    static FIRST: Control = Control::new();
    static SECOND: Control = Control::new();
    extern "C-unwind" fn sleeps() {
        std::thread::sleep(2 * MS);
    }
    extern "C-unwind" fn nested() {
        std::thread::sleep(2 * MS);
        SECOND.once(sleeps);
    }
    in_time(|| {
        Runtime::builder().kthreads(1).run(|| {
            scope(|scope| {
                for n in 0..20 {
                    scope.spawn(move || match n % 2 {
                        0 => FIRST.once(nested),
                        _ => SECOND.once(sleeps),
                    });
                }
            });
        });
    });
}

#[test]
fn a_routine_that_unwinds_has_not_run() {
    static CONTROL: Control = Control::new();
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    extern "C-unwind" fn fails_twice() {
        std::thread::sleep(MS);
        let tries = TRIES.fetch_add(1, Ordering::SeqCst);
        if tries < 2 {
            std::panic::resume_unwind(Box::new("not yet"));
        }
    }
    in_time(|| {
        static FAILED: AtomicUsize = AtomicUsize::new(0);
        Runtime::builder().kthreads(1).run(|| {
            scope(|scope| {
                for _ in 0..10 {
                    scope.spawn(|| {
                        let ended = catch_unwind(AssertUnwindSafe(|| CONTROL.once(fails_twice)));
                        FAILED.fetch_add(usize::from(ended.is_err()), Ordering::SeqCst);
                    });
                }
            });
        });
        assert_eq!((FAILED.load(Ordering::SeqCst), TRIES.load(Ordering::SeqCst)), (2, 3));
    });
    static PLAIN: Control = Control::new();
    extern "C-unwind" fn fails() {
        std::panic::resume_unwind(Box::new("plain"));
    }
    extern "C-unwind" fn passes() {}
    assert!(catch_unwind(|| PLAIN.once(fails)).is_err());
    PLAIN.once(passes);
}

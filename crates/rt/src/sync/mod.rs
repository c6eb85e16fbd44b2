//! Locks, condition variables, channels and the rest of `std::sync`, for threads of Curtail's,
//! handlers and plain threads alike: a waiter gives its kthread to others.
//!
//! Names and signatures are those of `std::sync`, so that a program is ported by changing its `use`
//! lines. Beyond that there are [`Semaphore`], [`WaitGroup`], [`oneshot`] and [`rcu`].
//!
//! The holder of a [`Mutex`] or [`RwLock`] has a grace: where its quantum ends meanwhile, it goes on until it
//! gives the lock back, but no longer than that ([`Grace`](crate::Grace)). So short sections are not cut, and
//! a long one does not hold up all who don't need the lock. All waits follow the protocol of `crate::block`; the time of a [`crate::time::timeout`] ends any of them.
//!
//! **What is inlined** into callers is the way of no contention: one compare-and-swap, two
//! instructions for the depth. All else is out of line.

mod barrier;
mod condvar;
mod lazy_lock;
pub mod mpsc;
mod mutex;
mod once;
mod once_lock;
pub mod oneshot;
mod poison;
mod raw_mutex;
mod raw_rwlock;
pub mod rcu;
mod rwlock;
mod semaphore;
mod wait_group;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};
pub use wait_group::WaitGroup;

use curtail_fiber::safepoint::{enter_critical, leave_critical};

/// Runs `body` without pre-emption. If the quantum ends meanwhile, the caller yields right after.
pub fn no_preempt<R>(body: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            leave_critical();
        }
    }
    enter_critical();
    let _leave = Leave;
    body()
}

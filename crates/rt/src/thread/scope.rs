//! Threads that borrow from the one that spawns them. As [`std::thread::scope`].

use super::join::JoinHandle;
use super::park::Thread;
use super::spawn::Builder;
use crate::block::{self, Queue};
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where scoped threads are spawned: see [`scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    data: Arc<Data>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Debug, Default)]
struct Data {
    running: AtomicUsize,
    panics: AtomicUsize,
    waiting: Queue,
}

impl Data {
    fn ended(&self) {
        // Under the lock: the one that waits either sees the count or is in the queue.
        block::with_queue(&self.waiting, |locked| {
            let last = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
            if last { locked.pop() } else { None }
        });
    }

    /// Until all have ended; a limit of the caller's has to wait, too.
    fn wait(&self) {
        while self.running.load(Ordering::Acquire) > 0 {
            let still = || self.running.load(Ordering::Acquire) > 0;
            super::without_limit(|| block::wait_in(&self.waiting, 0, None, still, || {}));
        }
    }
}

/// Calls `f`, which may spawn threads that borrow what lives longer than this call, and waits until
/// they have all ended.
///
/// # Panics
/// If `f` panics, or a thread panicked that was not joined by hand. And outside of a runtime, when
/// a thread is spawned.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { data: Arc::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| crate::user::call_with(f, &scope)));
    scope.data.wait();
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(_) if scope.data.panics.load(Ordering::Relaxed) > 0 => {
            panic!("a scoped thread panicked")
        }
        Ok(result) => result,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a thread in the scope.
    ///
    /// # Panics
    /// As [`crate::spawn`].
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_scoped(self, f).expect("no thread could be spawned")
    }
}

/// Tells the scope that its thread has ended, also by a panic.
struct Ended(Arc<Data>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl Builder {
    /// Starts a thread in a scope.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let data = scope.data.clone();
        let result = Arc::new(Slot(std::sync::Mutex::new(None)));
        let place = result.clone();
        data.running.fetch_add(1, Ordering::Relaxed);
        let ended = Ended(data);
        let body = move || {
            let result = catch_unwind(AssertUnwindSafe(|| crate::user::call(f)));
            if result.is_err() {
                ended.0.panics.fetch_add(1, Ordering::Relaxed);
            }
            *place.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(result);
            // Before the scope may end: what the result borrows ends with it.
            drop(place);
            drop(ended);
        };
        // SAFETY: the scope does not end before `ended` is dropped, which is when the closure and
        // everything that it borrows are no longer used; the thread's own result is `()`.
        let thread = unsafe { self.spawn_unchecked(body)? };
        Ok(ScopedJoinHandle { thread, result, scope: scope.data.clone(), life: PhantomData })
    }
}

/// A scoped thread's result. The lock is never waited for: the handle looks after the end.
struct Slot<T>(std::sync::Mutex<Option<std::thread::Result<T>>>);

/// A scoped thread's result, to come. As [`std::thread::ScopedJoinHandle`].
pub struct ScopedJoinHandle<'scope, T> {
    thread: JoinHandle<()>,
    result: Arc<Slot<T>>,
    scope: Arc<Data>,
    life: PhantomData<&'scope ()>,
}

impl<T> std::fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScopedJoinHandle(..)")
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread to end.
    ///
    /// # Errors
    /// The thread's panic, of which the scope then says nothing.
    pub fn join(self) -> std::thread::Result<T> {
        self.thread.join()?;
        let result = self.result.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let result = result.expect("the thread has ended, and its result is taken once");
        if result.is_err() {
            self.scope.panics.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    /// Whether it has ended, so that [`ScopedJoinHandle::join`] does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The thread.
    #[must_use]
    pub fn thread(&self) -> Thread {
        self.thread.thread()
    }
}

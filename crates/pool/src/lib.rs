//! A pool for work that must not hold up an executor: see [`Pool`]. `README.md` of this crate is the
//! design. Programs depend on `curtail`, which has this as `curtail::pool`.
//!
//! **Who touches what.** Any thread submits, waits and gives up ([`Pool`], [`Job`]). The pool's own
//! thread runs a [`Server`](curtail_server::Server), whose only transport is `line`; its workers run the
//! jobs (`serve`). They share `shared`: the table of jobs, and for each class a gate that counts.
//!
//! **Invariant.** A job is counted by its class from the moment it is let in until it is settled or
//! has run to its end, and leaves that count once: by the thread that takes it out of
//! `state::Stage::Waits`, and else by the worker on which it ended.

mod builder;
mod error;
mod gate;
mod job;
mod kernel;
mod line;
mod serve;
mod shared;
mod state;

pub use builder::{Builder, Class};
pub use error::{Error, Panic, Refused, Why};
pub use gate::ClassStats;
pub use job::{Job, TryRun};

// No kthread runs without the functions of C that it defines.
#[cfg(test)]
use curtail_libc as _;

use curtail_policy::{ClassId, Nanos, Spec};
use curtail_rt::preempt::Preempt;
use curtail_server::server::Handle;
use shared::Shared;
use state::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Workers that run closures by class, beside any executor or none.
///
/// A long job does not hold up short ones: in a program that was built with `cargo curtail build`, a
/// job is pre-empted at the end of its quantum while others are ready. Built plainly, jobs run to
/// completion, in the order of the policy.
///
/// ```
/// use curtail::ClassId;
/// use curtail::pool::{Class, Pool};
///
/// const SHORT: ClassId = ClassId(0);
/// const LONG: ClassId = ClassId(1);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::builder()
///     .workers(2)
///     .class(Class::named("short"))
///     .class(Class::named("long").limit(64))
///     .build()?;
/// let sum = pool.run(LONG, || (1..=1_000_u64).sum::<u64>()); // `.await` it, or:
/// assert_eq!(sum.wait()?, 500_500);
/// # let _ = SHORT;
/// # Ok(())
/// # }
/// ```
///
/// Clones are the same pool. When the last one is dropped, the pool takes nothing more, runs what it
/// has, for five seconds at most, and ends by itself; [`Pool::shutdown`] waits for that.
#[derive(Clone)]
pub struct Pool {
    owner: Arc<Owner>,
}

/// How long jobs of a pool that was dropped may run on.
const LIMIT_OF_DROP: Duration = Duration::from_secs(5);

/// What all clones have in common.
struct Owner {
    shared: Arc<Shared>,
    handle: Handle,
    preempt: (Preempt, Option<String>),
    workers: usize,
    /// Taken by the first that shuts down.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Pool {
    /// How it is to be.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Has `f` run by a worker, as a job of that class. Its value comes to the caller that awaits
    /// the [`Job`] or calls [`Job::wait`]. Never waits: a class that has as many jobs as it may
    /// refuses this one, and that is what the [`Job`] brings.
    pub fn run<F, T>(&self, class: ClassId, f: F) -> Job<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let body = Box::new(move || -> Value { Box::new(curtail_rt::user::call(f)) });
        match self.owner.shared.submit(class, body) {
            Ok(state) => Job::new(self.owner.shared.clone(), state),
            Err(refused) => Job::refused(self.owner.shared.clone(), class, refused),
        }
    }

    /// As [`Pool::run`], and where there is no room for the job, it says so at once and gives the
    /// closure back.
    ///
    /// # Errors
    /// [`TryRun`]: the closure, and why it was refused.
    pub fn try_run<F, T>(&self, class: ClassId, f: F) -> Result<Job<T>, TryRun<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = match self.owner.shared.reserve(class) {
            Ok(place) => place,
            Err(refused) => return Err(TryRun { refused, f }),
        };
        let body = Box::new(move || -> Value { Box::new(curtail_rt::user::call(f)) });
        match self.owner.shared.enter(place, body) {
            Ok(state) => Ok(Job::new(self.owner.shared.clone(), state)),
            // The pool was shut down in between: the job brings that.
            Err(refused) => Ok(Job::refused(self.owner.shared.clone(), class, refused)),
        }
    }

    /// The class of that name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<ClassId> {
        let index = self.owner.shared.gates.iter().position(|gate| &*gate.name == name)?;
        Some(ClassId(index as u16))
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.owner.workers
    }

    /// How jobs are pre-empted, and why that is not what the policy wants, where it is not.
    #[must_use]
    pub fn preempt(&self) -> (Preempt, Option<&str>) {
        (self.owner.preempt.0, self.owner.preempt.1.as_deref())
    }

    /// What was counted so far, by class, in their order.
    #[must_use]
    pub fn stats(&self) -> Vec<ClassStats> {
        self.owner.shared.gates.iter().map(gate::Gate::stats).collect()
    }

    /// Changes the policy while jobs run; none is lost.
    ///
    /// # Errors
    /// As [`Handle::switch`].
    pub fn switch(&self, spec: Spec) -> Result<(), curtail_server::ChangeError> {
        self.owner.handle.switch(spec)
    }

    /// Changes the quantum; `None`: jobs run to completion.
    ///
    /// # Errors
    /// As [`Handle::set_quantum`].
    pub fn set_quantum(
        &self,
        quantum: Option<Duration>,
    ) -> Result<(), curtail_server::ChangeError> {
        self.owner.handle.set_quantum(quantum.map(|quantum| Nanos(quantum.as_nanos() as u64)))
    }

    /// Takes no more jobs, waits for those that it has, for `limit` at most, and ends the workers.
    /// How many jobs were left: those that waited are refused ([`Why::ShutDown`]), and those in
    /// progress are left where they are, with what they own ([`Error::LeftBehind`]). It takes up to
    /// two seconds more than `limit` where a job without safepoints holds a worker.
    ///
    /// Blocks the calling thread: from an executor, call it where blocking is allowed. From a job of
    /// the pool itself it waits for that job, that is until `limit`.
    pub fn shutdown(&self, limit: Duration) -> usize {
        let thread = self.owner.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        end(&self.owner.shared, &self.owner.handle, thread, limit)
    }
}

/// Ends the workers when no job is under way any more, or after `limit`; how many there are still.
fn end(shared: &Shared, handle: &Handle, thread: Option<JoinHandle<()>>, limit: Duration) -> usize {
    if shared.is_parents() {
        // There is no thread to end, and none to join.
        std::mem::forget(thread);
        return 0;
    }
    shared.close();
    let left = shared.settle(limit);
    handle.shutdown();
    if let Some(thread) = thread {
        // It never panics by a job's fault; what else it says has gone to standard error.
        let _ = thread.join();
    }
    left
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let classes: Vec<_> = self.owner.shared.gates.iter().map(|gate| &*gate.name).collect();
        f.debug_struct("Pool")
            .field("workers", &self.owner.workers)
            .field("classes", &classes)
            .finish_non_exhaustive()
    }
}

impl Drop for Owner {
    /// Without waiting: it may be a thread of an executor.
    fn drop(&mut self) {
        self.shared.close();
        let own = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(own) = own else { return };
        let (shared, handle) = (self.shared.clone(), self.handle.clone());
        let life = move || {
            end(&shared, &handle, Some(own), LIMIT_OF_DROP);
        };
        let ends = std::thread::Builder::new().name("curtail-pool-end".to_owned()).spawn(life);
        if ends.is_err() {
            self.handle.shutdown();
        }
    }
}

//! The played application: each request does what its script says.

use super::script::{LOCKS, Script, Step};
use super::state::{NO, State, answer};
use super::world;
use crate::Response;
use crate::app::{App, Class};
use curtail_fiber::safepoint::{self, Safepoint};
use curtail_policy::{ClassId, WorkerId};
use curtail_rt::cancel::Cause;
use curtail_rt::clock;
use curtail_rt::sync::{Mutex, Semaphore};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A panic of a script's.
pub(super) struct OnPurpose;

pub(super) struct Scripts {
    pub seed: u64,
    pub state: Arc<State>,
    pub locks: [Mutex<()>; LOCKS],
    pub held: [AtomicBool; LOCKS],
    pub gate: Semaphore,
}

thread_local! {
    /// Whose handler runs on these thread-locals.
    static WHOSE: Cell<Option<u64>> = const { Cell::new(None) };
}

fn id_of(request: &[u8]) -> u64 {
    u64::from_le_bytes(request[..8].try_into().expect("each has its number"))
}

/// Played time passes, in which others act, and a safepoint is come to now and then.
fn compute(ns: u64) {
    let mut left = ns;
    while left > 0 {
        let piece = left.min(400);
        clock::advance(piece);
        left -= piece;
        world::interlude();
        if clock::now() >= Safepoint::this_thread().deadline() {
            // By the processor's time the quantum is over as well.
            safepoint::here();
        }
    }
}

impl Scripts {
    fn step(&self, id: u64, step: Step) {
        match step {
            Step::Compute { ns } => compute(ns),
            Step::Yield => curtail_rt::yield_now(),
            Step::Sleep { ns } => curtail_rt::time::sleep(Duration::from_nanos(ns)),
            Step::Lock { which, ns } => {
                let lock = self.locks[which].lock().unwrap_or_else(PoisonError::into_inner);
                assert!(!self.held[which].swap(true, Ordering::Relaxed), "two hold lock {which}");
                compute(ns);
                assert!(self.held[which].swap(false, Ordering::Relaxed));
                drop(lock);
            }
            Step::Wait => self.gate.acquire().forget(),
            Step::Open => self.gate.add_permits(1),
            Step::Spawn { ns } => {
                let thread = curtail_rt::spawn(move || {
                    compute(ns);
                    id
                });
                assert_eq!(thread.join().expect("it only computes"), id);
            }
            Step::Check => {
                if let Err(cancelled) = curtail_rt::check() {
                    resume_unwind(Box::new(cancelled));
                }
            }
            Step::Panic => resume_unwind(Box::new(OnPurpose)),
        }
    }
}

/// A handler, from its beginning to its end.
struct Running<'a> {
    state: &'a State,
    id: u64,
    whole: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        WHOSE.set(None);
        self.state.returns(self.id, self.whole);
    }
}

impl App for Scripts {
    type Worker = WorkerId;

    fn classes(&self) -> Vec<Class> {
        ["one", "two", "three"].map(Class::named).to_vec()
    }

    fn setup_worker(&self, worker: WorkerId) -> WorkerId {
        worker
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        let script = Script::of(self.seed, id_of(request));
        if let Some(which) = script.classifier_locks {
            drop(self.locks[which].lock().unwrap_or_else(PoisonError::into_inner));
        }
        ClassId(script.class)
    }

    fn deadline(&self, request: &[u8]) -> Option<Duration> {
        Script::of(self.seed, id_of(request)).deadline_ns.map(Duration::from_nanos)
    }

    fn handle(&self, _: &WorkerId, request: &[u8], response: &mut Response) {
        let id = id_of(request);
        let script = Script::of(self.seed, id);
        let is_whole = || request == script.payload(id);
        assert!(is_whole(), "request {id} came as {request:?}");
        self.state.begins(id);
        assert_eq!(WHOSE.replace(Some(id)), None, "the thread-locals of request {id} are in use");
        let mut running = Running { state: &self.state, id, whole: false };
        for &step in &script.steps {
            self.step(id, step);
            self.state.goes_on(id);
            assert_eq!(WHOSE.get(), Some(id), "thread-locals of another");
            let class = curtail_rt::class();
            assert_eq!(class, Some(ClassId(script.class)), "the class of another than {id}");
        }
        assert!(is_whole(), "the bytes of request {id} changed: {request:?}");
        response.write(&answer(id));
        running.whole = true;
    }

    fn cancelled(&self, _: &[u8], _: Cause, response: &mut Response) {
        response.write(NO);
    }

    fn failed(&self, _: &[u8], response: &mut Response) {
        response.write(NO);
    }

    fn overloaded(&self, _: &[u8], response: &mut Response) {
        response.write(NO);
    }
}

//! The application of the pool's server: it runs jobs.

use super::error::{Error, Panic};
use super::gate::Gate;
use super::kernel::Placing;
use super::shared::{Shared, class_of, slot_of};
use super::state::{State, Value};
use curtail_policy::ClassId;
use curtail_policy::WorkerId;
use curtail_rt::cancel::{Cancelled, Cause};
use curtail_rt::clock::{self, Clock};
use curtail_rt::{contain, served_cycles};
use curtail_server::Response;
use curtail_server::app::{App, Class};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(super) struct Serve {
    pub shared: Arc<Shared>,
    pub classes: Vec<Class>,
    pub placing: Placing,
}

impl App for Serve {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        self.classes.clone()
    }

    fn setup_worker(&self, _: WorkerId) {
        self.placing.apply();
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        class_of(request)
    }

    fn handle(&self, (): &(), request: &[u8], _: &mut Response) {
        let Some(slot) = slot_of(request) else { return };
        if let Some(state) = self.shared.get(slot) {
            self.run(&state);
            self.shared.take(slot);
        }
    }

    /// Its deadline has passed, or the program asked for it: it is not run.
    fn cancelled(&self, request: &[u8], cause: Cause, _: &mut Response) {
        let Some(slot) = slot_of(request) else { return };
        if let Some(state) = self.shared.get(slot) {
            self.shared.cancelled(&state, cause);
            self.shared.take(slot);
        }
    }

    /// No memory for a stack, or no room in the server: the job is not run.
    fn overloaded(&self, request: &[u8], _: &mut Response) {
        let Some(slot) = slot_of(request) else { return };
        if let Some(state) = self.shared.get(slot) {
            self.shared.refuse_full(&state);
            self.shared.take(slot);
        }
    }
}

impl Serve {
    fn run(&self, state: &State) {
        let gate = &self.shared.gates[usize::from(state.class)];
        let started = clock::now();
        let waited = started.saturating_sub(state.submitted_tsc);
        if gate.max_age.is_some() && waited > gate.max_age_cycles {
            return self.shared.refuse_old(state, gate);
        }
        let Some(body) = state.begin(&gate.in_progress) else { return };
        if let Some(request) = curtail_rt::context() {
            state.runs_as(request);
        }
        let before = served_cycles().unwrap_or(0);
        let result = catch_unwind(AssertUnwindSafe(|| curtail_rt::user::call(body)));
        let served = served_cycles().unwrap_or(0).saturating_sub(before);
        self.ended(state, gate, result, (waited, served));
    }

    fn ended(
        &self,
        state: &State,
        gate: &Gate,
        result: std::thread::Result<Value>,
        (waited, served): (u64, u64),
    ) {
        let clock = Clock::get();
        let sojourn = clock::now().saturating_sub(state.submitted_tsc);
        gate.record([waited, served, sojourn].map(|cycles| clock.ns(cycles)));
        let name = || gate.name.clone();
        let (result, counter) = match result {
            Ok(value) => (Ok(value), &gate.counts.completed),
            Err(payload) => match payload.downcast::<Cancelled>() {
                Ok(told) => (Err(Error::cancelled(name(), told.cause())), &gate.counts.cancelled),
                Err(payload) => {
                    let panic = Panic::new(name(), payload);
                    (Err(Error::Panicked(panic)), &gate.counts.panicked)
                }
            },
        };
        self.shared.ended(state, result, Some(counter));
    }
}

/// Drops a value that is not wanted, where its destructor may panic.
pub(super) fn discard(unwanted: Option<Result<Value, Error>>) {
    if let Some(unwanted) = unwanted {
        contain::contain(|| curtail_rt::user::call(|| drop(unwanted)));
    }
}

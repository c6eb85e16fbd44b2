//! What submitters, workers and the pool's own thread share.

use super::error::{Error, Refused, Why};
use super::gate::{Gate, count};
use super::state::{Body, State, Value};
use curtail_net::LocalClient;
use curtail_policy::ClassId;
use curtail_rt::cancel::Cause;
use curtail_rt::clock;
use curtail_rt::sync::no_preempt;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Jobs by the number that travels through the server.
#[derive(Default)]
struct Table {
    jobs: Vec<Option<Arc<State>>>,
    free: Vec<u32>,
}

pub(super) struct Shared {
    pub gates: Box<[Gate]>,
    table: Mutex<Table>,
    /// Jobs of each class that has a limit of age, oldest first; some of them wait no more.
    ages: Box<[Mutex<VecDeque<Arc<State>>>]>,
    client: LocalClient,
    /// Of the process whose threads the pool has.
    generation: u32,
    closed: AtomicBool,
    settled: (Mutex<()>, Condvar),
}

/// A place in a class, which goes back where it is not used.
pub(super) struct Place<'a> {
    gate: &'a Gate,
    shared: &'a Shared,
    class: u16,
    used: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.shared.leave(self.gate);
        }
    }
}

/// Runs `f` with what the mutex guards; a worker does not go on with another job in between.
pub(super) fn locked<T, R>(mutex: &Mutex<T>, f: impl FnOnce(&mut T) -> R) -> R {
    no_preempt(|| f(&mut lock(mutex)))
}

/// No code of the user's runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(gates: Box<[Gate]>, client: LocalClient) -> Self {
        Self {
            ages: gates.iter().map(|_| Mutex::default()).collect(),
            gates,
            table: Mutex::default(),
            client,
            generation: curtail_rt::forked::generation(),
            closed: AtomicBool::new(false),
            settled: (Mutex::default(), Condvar::new()),
        }
    }

    /// Whether this process is a fork's child, and the pool's threads are its parent's.
    pub(super) fn is_parents(&self) -> bool {
        self.generation != curtail_rt::forked::generation()
    }

    fn refusal(&self, class: u16, why: Why) -> Refused {
        let name = self.gates.get(usize::from(class)).map(|gate| gate.name.clone());
        Refused { class: name.unwrap_or_else(|| class.to_string().into()), why }
    }

    /// A place in the class, if it has one.
    pub(super) fn reserve(&self, class: ClassId) -> Result<Place<'_>, Refused> {
        let classes = self.gates.len();
        let Some(gate) = self.gates.get(usize::from(class.0)) else {
            return Err(self.refusal(class.0, Why::NoSuchClass { classes }));
        };
        if self.is_parents() {
            return Err(self.refusal(class.0, Why::Forked));
        }
        if !gate.enter() {
            count(&gate.counts.refused_full);
            return Err(self.refusal(class.0, Why::Full { limit: gate.limit }));
        }
        let place = Place { gate, shared: self, class: class.0, used: false };
        // After it is counted: the thread that closes the pool looks at the count after that.
        if self.closed.load(Ordering::SeqCst) {
            count(&gate.counts.refused_shut_down);
            return Err(self.refusal(class.0, Why::ShutDown));
        }
        Ok(place)
    }

    /// Takes the place with a job.
    pub(super) fn enter(&self, mut place: Place<'_>, body: Body) -> Result<Arc<State>, Refused> {
        let (gate, class) = (place.gate, place.class);
        let state = Arc::new(State::new(class, clock::now(), body));
        let slot = self.put(state.clone());
        if gate.max_age.is_some() {
            self.remember_age(&state, gate.limit);
        }
        // Its answer is the job's value, which does not travel there.
        match self.client.submit(encode(slot, class)) {
            Ok(ticket) => ticket.detach(),
            Err(refused) => {
                self.take(slot);
                let why = match refused {
                    // Full of jobs that were given up and that no worker has come across yet.
                    curtail_net::Refused::Full(_) => Why::Full { limit: gate.limit },
                    curtail_net::Refused::Closed(_) => Why::ShutDown,
                };
                let refusal = self.refusal(class, why);
                match why {
                    Why::ShutDown => count(&gate.counts.refused_shut_down),
                    _ => count(&gate.counts.refused_full),
                }
                // Where it waits no more, it was refused as too old, and has left its place.
                place.used = true;
                state.refuse(refusal.clone().into(), || place.used = false);
                return Err(refusal);
            }
        }
        place.used = true;
        count(&gate.counts.submitted);
        Ok(state)
    }

    pub(super) fn submit(&self, class: ClassId, body: Body) -> Result<Arc<State>, Refused> {
        let place = self.reserve(class)?;
        self.enter(place, body)
    }

    fn put(&self, state: Arc<State>) -> u32 {
        locked(&self.table, |table| match table.free.pop() {
            Some(slot) => {
                table.jobs[slot as usize] = Some(state);
                slot
            }
            None => {
                table.jobs.push(Some(state));
                (table.jobs.len() - 1) as u32
            }
        })
    }

    /// The job of a number.
    pub(super) fn get(&self, slot: u32) -> Option<Arc<State>> {
        locked(&self.table, |table| table.jobs.get(slot as usize).cloned().flatten())
    }

    /// The number is free again.
    pub(super) fn take(&self, slot: u32) {
        let state = locked(&self.table, |table| {
            table.free.push(slot);
            table.jobs[slot as usize].take()
        });
        drop(state);
    }

    /// The queue has some more than `limit` at a time, which are all that can wait.
    fn remember_age(&self, state: &Arc<State>, limit: usize) {
        locked(&self.ages[usize::from(state.class)], |ages| {
            if ages.len() >= 2 * limit.max(32) {
                ages.retain(|state| state.waits());
            }
            ages.push_back(state.clone());
        });
    }

    /// Refuses what has waited too long; when the next one will have (TSC).
    pub(super) fn expire(&self, now: u64) -> Option<u64> {
        let mut next = None;
        for (gate, ages) in self.gates.iter().zip(&self.ages) {
            while let Some(state) = locked(ages, |ages| oldest(ages, gate, now, &mut next)) {
                self.refuse_old(&state, gate);
            }
        }
        next
    }

    /// Refuses a job that has waited too long, if it waits still.
    pub(super) fn refuse_old(&self, state: &State, gate: &Gate) {
        let Some(limit) = gate.max_age else { return };
        let refused = self.refusal(state.class, Why::TooOld { limit });
        self.refuse(state, refused.into(), &gate.counts.refused_too_old);
    }

    /// Refuses a job for which the server had no room or no memory.
    pub(super) fn refuse_full(&self, state: &State) {
        let gate = &self.gates[usize::from(state.class)];
        let refused = self.refusal(state.class, Why::Full { limit: gate.limit });
        self.refuse(state, refused.into(), &gate.counts.refused_full);
    }

    /// A job was cancelled before it began.
    pub(super) fn cancelled(&self, state: &State, cause: Cause) {
        let gate = &self.gates[usize::from(state.class)];
        self.refuse(state, Error::cancelled(gate.name.clone(), cause), &gate.counts.cancelled);
    }

    /// Ends a job without running it, if it waits still.
    fn refuse(&self, state: &State, error: Error, counter: &AtomicU64) {
        let gate = &self.gates[usize::from(state.class)];
        state.refuse(error, || {
            count(counter);
            gate.leave();
        });
        self.tell_left();
    }

    /// A job has run, or will run no more, if it was in progress.
    pub(super) fn ended(
        &self,
        state: &State,
        result: Result<Value, Error>,
        counter: Option<&AtomicU64>,
    ) {
        let gate = &self.gates[usize::from(state.class)];
        state.end(result, || {
            counter.map(count);
            gate.in_progress.fetch_sub(1, Ordering::Relaxed);
            gate.leave();
        });
        self.tell_left();
    }

    /// A job was abandoned in progress: it never ends, and its waiter is notified.
    pub(super) fn abandoned(&self, request: &[u8]) {
        let Some(slot) = slot_of(request) else { return };
        let Some(state) = self.get(slot) else { return };
        let gate = &self.gates[usize::from(state.class)];
        let cause = state.cause().unwrap_or(Cause::Asked);
        let result = Err(Error::cancelled(gate.name.clone(), cause));
        self.ended(&state, result, Some(&gate.counts.abandoned));
        self.take(slot);
    }

    /// One less is under way.
    fn leave(&self, gate: &Gate) {
        gate.leave();
        self.tell_left();
    }

    /// Wakes the thread that waits for the last one, where there may be one. Never under a job's lock:
    /// a request may wait here, and is left behind when the server ends.
    fn tell_left(&self) {
        if self.closed.load(Ordering::SeqCst) {
            locked(&self.settled.0, |()| self.settled.1.notify_all());
        }
    }

    /// A job that waited was given up.
    pub(super) fn given_up(&self, state: &State) {
        let gate = &self.gates[usize::from(state.class)];
        count(&gate.counts.given_up);
        self.leave(gate);
    }

    /// No more jobs are let in.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn under_way(&self) -> usize {
        self.gates.iter().map(Gate::under_way).sum()
    }

    /// Waits until no job is under way, for `limit` at most; how many are. After [`Shared::close`].
    pub(super) fn settle(&self, limit: Duration) -> usize {
        let until = Instant::now().checked_add(limit);
        let mut guard = lock(&self.settled.0);
        loop {
            let left = self.under_way();
            let most = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == 0 || most.is_some_and(|most| most.is_zero()) {
                return left;
            }
            let most = most.unwrap_or(Duration::from_secs(3_600));
            let waited = self.settled.1.wait_timeout(guard, most);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The workers have ended: tells of what they left.
    pub(super) fn end(&self) {
        self.close();
        let jobs = locked(&self.table, |table| std::mem::take(&mut table.jobs));
        for state in jobs.into_iter().flatten() {
            let gate = &self.gates[usize::from(state.class)];
            let refused = self.refusal(state.class, Why::ShutDown);
            self.refuse(&state, refused.into(), &gate.counts.refused_shut_down);
            self.ended(&state, Err(Error::LeftBehind { class: gate.name.clone() }), None);
        }
    }
}

/// Takes the oldest job out that has waited too long; else `next` is when one will have.
fn oldest(
    ages: &mut VecDeque<Arc<State>>,
    gate: &Gate,
    now: u64,
    next: &mut Option<u64>,
) -> Option<Arc<State>> {
    while let Some(first) = ages.front() {
        let due = first.submitted_tsc.saturating_add(gate.max_age_cycles);
        if first.waits() && due > now {
            *next = Some(next.map_or(due, |next| next.min(due)));
            return None;
        }
        let first = ages.pop_front()?;
        if first.waits() {
            return Some(first);
        }
    }
    None
}

/// A job's number and class, as the server's transport carries them.
fn encode(slot: u32, class: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(6);
    bytes.extend_from_slice(&slot.to_le_bytes());
    bytes.extend_from_slice(&class.to_le_bytes());
    bytes
}

pub(super) fn slot_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

pub(super) fn class_of(bytes: &[u8]) -> ClassId {
    let class = bytes.get(4..6).and_then(|bytes| bytes.try_into().ok());
    class.map_or(ClassId::UNKNOWN, |class| ClassId(u16::from_le_bytes(class)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::task::{Poll, Waker};

    const STUCK: Duration = Duration::from_secs(30);

    fn shared() -> Arc<Shared> {
        let (_, client) = curtail_net::Local::new(1).unwrap();
        let shared = Shared::new(Box::new([Gate::new("a", 1, None, 0)]), client);
        shared.gates[0].enter();
        shared.close();
        Arc::new(shared)
    }

    /// A request that waits to tell of the last job may be left behind: the end of the pool, and the
    /// thread that waits for the job, must get that job's lock all the same.
    #[test]
    fn a_jobs_lock_is_free_while_its_end_is_told() {
        for begins in [false, true] {
            let shared = shared();
            let state = Arc::new(State::new(0, 0, Box::new(|| Box::new(()))));
            if begins {
                state.begin(&shared.gates[0].in_progress);
            }
            let (tells, told) = channel();
            std::thread::scope(|scope| {
                let settling = lock(&shared.settled.0);
                scope.spawn(|| match begins {
                    false => shared.refuse_full(&state),
                    true => shared.ended(&state, Ok(Box::new(())), None),
                });
                scope.spawn(|| {
                    let begun = Instant::now();
                    while shared.under_way() > 0 && begun.elapsed() < STUCK {
                        std::thread::yield_now();
                    }
                    let ended = state.poll(Waker::noop());
                    tells.send(matches!(ended, Poll::Ready(_))).unwrap();
                });
                let ended = told.recv_timeout(STUCK);
                drop(settling);
                assert_eq!(ended, Ok(true), "begins: {begins}");
            });
            assert_eq!((shared.settle(STUCK), shared.gates[0].stats().in_progress), (0, 0));
        }
    }
}

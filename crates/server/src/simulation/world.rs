//! One server, and who acts next.

use super::app::Scripts;
use super::build::some_policy;
use super::random::Random;
use super::script::Script;
use super::transport::Played;
use crate::ask::{self, Asker, Loop};
use crate::control::{Command, Control};
use crate::dispatcher::Dispatcher;
use crate::engine::Engine;
use crate::remote::Remote;
use crate::stats::ClassStats;
use curtail_fiber::safepoint::{self, Mode, Safepoint};
use curtail_net::Outcome;
use curtail_policy::Nanos;
use curtail_rt::cancel::Cause;
use curtail_rt::clock;
use curtail_rt::context::RequestId;
use curtail_rt::fences;
use curtail_rt::thread::KThread;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// After so many steps without an end, something waits for ever.
const PATIENCE: u64 = 200_000;

/// The one that is played: handlers find it here.
static WORLD: AtomicPtr<World> = AtomicPtr::new(ptr::null_mut());

/// A kthread and its engine. The last one is the dispatcher's.
pub(super) struct Place {
    pub kthread: Box<KThread>,
    pub engine: *mut Engine,
    pub remote: Arc<Remote>,
    /// It has no core.
    pub parked: Cell<bool>,
}

impl Place {
    /// Its core is taken, or it has one again, as its kthread does it. It is not in the middle of a turn.
    fn set_parked(&self, parked: bool) {
        let queue = self.kthread.run_queue.get().expect("its engine is one");
        if parked {
            self.remote.absence.begin();
        }
        self.kthread.shared.set_parked(parked);
        // SAFETY: its kthread acts, and the engine is away.
        unsafe { (queue.moved)(queue.owner) };
        if !parked {
            self.remote.absence.end(fences::frequent);
        }
        self.parked.set(parked);
    }
}

/// All cells: handlers refer to it while it steps.
pub(super) struct World {
    pub places: Vec<Place>,
    pub dispatcher: *mut Dispatcher,
    pub control: Arc<Control>,
    pub line: Played,
    pub app: Arc<Scripts>,
    pub random: RefCell<Random>,
    /// Others act in the middle of a handler's computing.
    pub is_interlude: Cell<bool>,
    /// Who acts: a worker, or the dispatcher.
    pub acts: Cell<usize>,
    pub sent: Cell<u64>,
    pub to_send: u64,
    /// The workers' cores come and go.
    pub cores_move: bool,
    /// It has one worker, which is stuck now and then, and a spare one.
    pub has_spare: bool,
    pub alive: Cell<bool>,
    pub steps: Cell<u64>,
}

/// Another may act now: called by handlers while they compute.
pub(super) fn interlude() {
    // SAFETY: set while a world is played, which is while handlers run.
    if let Some(world) = unsafe { WORLD.load(Ordering::Relaxed).as_ref() } {
        world.interlude();
    }
}

/// Plays a server to its end; how many steps that took.
///
/// # Panics
/// Something does not hold.
pub(super) fn play(seed: u64) -> u64 {
    let world = super::build::world(seed);
    let this: *mut World = Box::into_raw(Box::new(world));
    WORLD.store(this, Ordering::Relaxed);
    // SAFETY: from a box; all that is changed in it meanwhile are cells.
    let world = unsafe { &*this };
    world.run();
    world.app.state.at_the_end();
    WORLD.store(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: nothing runs any more.
    let world = unsafe { Box::from_raw(this) };
    let steps = world.steps.get();
    world.end();
    steps
}

/// One turn of the dispatcher's loop.
struct OneTurn<'a> {
    dispatcher: &'a mut Dispatcher,
    is_over: bool,
    goes_on: bool,
}

impl Loop for OneTurn<'_> {
    fn asker(&mut self) -> &mut Asker {
        self.dispatcher.asker()
    }

    fn handle_answers(&mut self) {
        self.dispatcher.handle_answers();
    }

    fn turn(&mut self) -> bool {
        if std::mem::replace(&mut self.is_over, true) {
            return false;
        }
        self.goes_on = self.dispatcher.turn();
        self.goes_on
    }
}

impl World {
    fn run(&self) {
        while self.alive.get() {
            let steps = self.steps.get();
            assert!(steps < PATIENCE, "it comes to no end: {:?}", self.app.state.all());
            self.steps.set(steps + 1);
            self.disturb();
            let all_sent = self.sent.get() == self.to_send;
            if all_sent && steps.is_multiple_of(64) {
                self.app.gate.add_permits(64);
                self.control.post(Command::Shutdown);
            }
            let actor = self.random.borrow_mut().below(self.places.len() as u64) as usize;
            self.act(actor);
        }
    }

    /// What comes from outside: requests, time, departures, commands.
    fn disturb(&self) {
        let mut random = self.random.borrow_mut();
        if random.once_in(3) {
            let most = random.pick(&[200, 3_000, 50_000]);
            clock::advance(random.below(most));
        }
        if self.sent.get() < self.to_send && random.once_in(3) {
            let id = self.sent.get();
            self.sent.set(id + 1);
            self.app.state.sent(id);
            let bytes = Script::of(self.app.seed, id).payload(id);
            self.line.wire().come.push_back((id, bytes, clock::now()));
        }
        if random.once_in(40) && self.sent.get() > 0 {
            let id = random.below(self.sent.get());
            let mut all = self.app.state.all();
            all.get_mut(&id).into_iter().for_each(|it| it.gone = true);
            self.line.wire().departed = true;
        }
        match random.below(60) {
            0 => self.cancel_one(&mut random),
            1 => {
                let quantum = random.pick(&[None, Some(1_000), Some(5_000)]);
                self.control.post(Command::Quantum(quantum.map(Nanos)));
            }
            2 if random.once_in(4) => {
                self.control.post(Command::Switch(some_policy(&mut random)));
            }
            _ => {}
        }
    }

    fn cancel_one(&self, random: &mut Random) {
        // SAFETY: the dispatcher does not act now.
        let dispatcher = unsafe { &*self.dispatcher };
        let jobs: Vec<_> = dispatcher.sched.jobs().map(|(job, _)| job.id).collect();
        if !jobs.is_empty() {
            let job = random.pick(&jobs);
            let arrived_tsc = dispatcher.sched.data(job).message.arrived_tsc;
            let id = RequestId { place: u64::from(job.0), arrived_tsc };
            self.control.post(Command::Cancel(id, Cause::Asked));
        }
    }

    fn dispatcher_place(&self) -> usize {
        self.places.len() - 1
    }

    /// One of them takes a step, on its kthread.
    fn act(&self, actor: usize) {
        let before = self.acts.replace(actor);
        let kthread = safepoint::kthread();
        safepoint::set_kthread((&raw const *self.places[actor].kthread).cast());
        if actor == self.dispatcher_place() {
            // SAFETY: the dispatcher acts once at a time, and nothing else refers to it meanwhile.
            let dispatcher = unsafe { &mut *self.dispatcher };
            let mut turn = OneTurn { dispatcher, is_over: false, goes_on: true };
            ask::drive(&mut turn);
            self.alive.set(turn.goes_on && self.alive.get());
        } else {
            self.worker_acts(&self.places[actor]);
        }
        safepoint::set_kthread(kthread);
        self.acts.set(before);
    }

    /// A worker takes a turn, if it has a core.
    fn worker_acts(&self, place: &Place) {
        let once_in = |of| self.random.borrow_mut().once_in(of);
        if place.parked.get() {
            if !once_in(12) {
                return;
            }
            place.set_parked(false);
        }
        // SAFETY: this kthread's engine, which runs nothing now.
        unsafe { Engine::turn(place.engine, clock::now()) };
        if self.cores_move && once_in(24) {
            place.set_parked(true);
        }
    }

    fn interlude(&self) {
        let acts = self.acts.get();
        let others = self.places.len() as u64;
        let actor = {
            let mut random = self.random.borrow_mut();
            if self.is_interlude.get() || !random.once_in(4) {
                return;
            }
            let actor = random.below(others) as usize;
            if acts != self.dispatcher_place() && random.once_in(16) {
                let picks = self.places[acts].kthread.shared.picks();
                self.control.post(Command::Stuck { worker: acts, picks });
            }
            if self.has_spare && random.once_in(4) {
                self.control.tell_all_stuck(random.once_in(2));
            }
            actor
        };
        if actor == acts || !self.alive.get() {
            return;
        }
        self.is_interlude.set(true);
        // What is armed is the kthread's: the other one's is another.
        let deadline = Safepoint::this_thread().deadline();
        self.act(actor);
        Safepoint::this_thread().arm(Mode::Clock, 0, deadline);
        self.is_interlude.set(false);
    }

    /// Ends all, each on its kthread.
    fn end(self) {
        let on = |place: &Place| {
            safepoint::set_kthread((&raw const *place.kthread).cast());
        };
        on(self.places.last().expect("the dispatcher's"));
        // SAFETY: made by `World::new`, and used by nothing any more.
        let dispatcher = unsafe { Box::from_raw(self.dispatcher) };
        let counts = &dispatcher.base.entry.classes;
        let sum = |of: fn(&ClassStats) -> u64| counts.iter().map(of).sum::<u64>();
        let state = &self.app.state;
        let known = |which: Outcome| state.count(|outcome, _| outcome == which);
        assert_eq!(sum(|it| it.completed), known(Outcome::Done));
        assert_eq!(sum(|it| it.failed), known(Outcome::Failed));
        assert_eq!(sum(|it| it.orphaned), known(Outcome::Orphaned));
        assert_eq!(sum(|it| it.abandoned), known(Outcome::Abandoned));
        let cancelled = sum(|it| it.cancelled_queued + it.cancelled_running);
        assert_eq!(cancelled, known(Outcome::Cancelled));
        assert_eq!(dispatcher.in_system(), 0);
        assert!(dispatcher.config.byte_quota.is_empty(), "bytes of requests that have left");
        drop(dispatcher);
        for place in self.places {
            on(&place);
            if place.parked.get() {
                place.set_parked(false);
            }
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(place.engine) });
            drop(place.kthread);
        }
        safepoint::set_kthread(ptr::null());
    }
}

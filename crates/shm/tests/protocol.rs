//! A core changes hands: what kthreads do with their words ([`curtail_shm::follow`]) against what the
//! allocator decides from what they say, in every interleaving within small bounds
//! (`RUSTFLAGS="--cfg loom" cargo test -p curtail-shm --release --test protocol`), and without loom
//! with threads of the system, as they come.
//!
//! The daemon's loop is the test's own: it looks at all kthreads, asks the allocator, and carries out
//! what that orders, as `curtaild` does. Time is how often it has looked.

use curtail_alloc::{
    Allocator, Class, CoreId, HandOver, Holding, KthreadId, KthreadLook, Machine, Nanos, Order,
    Program, ProgramId, Queue, Settings,
};
use curtail_shm::follow::{Follower, look, park};
use curtail_shm::{CoreIndex, Slot, SlotLine, State, Word};
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    sync::{Arc, Condvar, Mutex},
    thread,
};
#[cfg(not(loom))]
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// What the kernel does: a sleeper has seen the word that it sleeps on.
#[derive(Default)]
struct Futex {
    lock: Mutex<()>,
    woken: Condvar,
}

/// A kthread, and its lines.
struct Kthread {
    line: SlotLine,
    state: State,
    futex: Futex,
    inbox_tail: AtomicU32,
    inbox_head: AtomicU32,
    /// How many messages come for it.
    messages: u32,
}

/// All kthreads, by their slots.
struct World {
    kthreads: Vec<Kthread>,
    /// How many have had all their messages.
    done: AtomicU32,
    ends: AtomicBool,
}

impl World {
    fn new(messages: &[u32]) -> Arc<Self> {
        let kthread = |&messages: &u32| Kthread {
            line: SlotLine::default(),
            state: State::default(),
            futex: Futex::default(),
            inbox_tail: AtomicU32::new(0),
            inbox_head: AtomicU32::new(0),
            messages,
        };
        let kthreads = messages.iter().map(kthread).collect();
        Arc::new(Self { kthreads, done: AtomicU32::new(0), ends: AtomicBool::new(false) })
    }

    fn wake(&self, Slot(slot): Slot) {
        let futex = &self.kthreads[slot as usize].futex;
        let _lock = futex.lock.lock().unwrap();
        futex.woken.notify_all();
    }

    /// What another thread does to have a kthread run.
    fn give(&self, slot: u32) {
        self.kthreads[slot as usize].inbox_tail.fetch_add(1, Ordering::Release);
    }

    fn are_done(&self) -> bool {
        self.done.load(Ordering::Acquire) as usize == self.kthreads.len()
    }
}

struct Here<'a> {
    world: &'a World,
    slot: usize,
}

impl Here<'_> {
    fn kthread(&self) -> &Kthread {
        &self.world.kthreads[self.slot]
    }

    /// Its life: parked at first, and whenever it has nothing to do.
    fn live(&self) {
        let kthread = self.kthread();
        let mut followed = park(self, Word::FIRST);
        let mut is_done = false;
        while !self.stops() {
            let tail = kthread.inbox_tail.load(Ordering::Acquire);
            kthread.inbox_head.store(tail, Ordering::Release);
            if tail == kthread.messages && !is_done {
                is_done = true;
                self.world.done.fetch_add(1, Ordering::Release);
            }
            let before = followed;
            followed = look(self, followed);
            if followed == before {
                // Without work it parks by itself.
                followed = park(self, followed);
            }
        }
    }
}

impl Follower for Here<'_> {
    fn word(&self) -> Word {
        self.kthread().line.word()
    }

    fn say_running(&self, generation: u32) {
        self.kthread().state.set_running(generation);
    }

    fn say_parked(&self, generation: u32) {
        self.kthread().state.set_parked(generation);
    }

    fn sleep(&self, word: Word) {
        let futex = &self.kthread().futex;
        let lock = futex.lock.lock().unwrap();
        if self.word() == word {
            drop(futex.woken.wait(lock).unwrap());
        }
    }

    fn wake_heir(&self) {
        if let Some(heir) = self.kthread().line.heir() {
            self.world.wake(heir);
        }
    }

    fn stops(&self) -> bool {
        self.world.ends.load(Ordering::Acquire)
    }
}

/// The daemon: each program has one kthread, whose slot is the program's place.
struct Daemon<'a> {
    world: &'a World,
    allocator: Allocator,
    programs: Vec<ProgramId>,
    now: Nanos,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    grants: u32,
    evictions: u32,
    wakes: u32,
    revoked: u32,
    moves: u32,
}

impl<'a> Daemon<'a> {
    /// One core, and a program for each kthread, guaranteed so many cores and so many besides.
    fn new(world: &'a World, settings: Settings, wishes: &[(u32, u32)]) -> Self {
        let mut allocator = Allocator::new(Machine::of(1), settings).unwrap();
        let program = |&(guaranteed, burstable): &(u32, u32)| {
            let class = Class::LatencyCritical;
            let program = Program { class, kthreads: 1, guaranteed, burstable };
            allocator.add_program(Nanos(0), program).unwrap()
        };
        let programs = wishes.iter().map(program).collect();
        Self { world, allocator, programs, now: Nanos(0), counts: Counts::default() }
    }

    /// Looks at all, and does what follows.
    fn turn(&mut self) {
        self.now = Nanos(self.now.0 + self.allocator.settings().interval.0);
        for at in 0..self.programs.len() {
            let look = self.look(at);
            self.allocator.look(self.now, self.programs[at], &[look]);
            while let Some(order) = self.allocator.poll_order(self.now) {
                self.carry_out(order);
            }
        }
    }

    /// In the order of `PageView::look`: the state first, a tail before its head.
    fn look(&self, at: usize) -> KthreadLook {
        let kthread = &self.world.kthreads[at];
        let (parked, generation) = kthread.state.look().expect("a state");
        let tail = kthread.inbox_tail.load(Ordering::Acquire);
        let head = kthread.inbox_head.load(Ordering::Relaxed);
        KthreadLook {
            parked,
            acknowledged: generation == kthread.line.word().generation(),
            inbox: Queue { head, tail },
            ..KthreadLook::IDLE
        }
    }

    fn slot(&self, kthread: KthreadId) -> Slot {
        let at = self.programs.iter().position(|it| *it == kthread.program).unwrap();
        Slot(at as u32)
    }

    fn carry_out(&mut self, order: Order) {
        let slot = self.slot(order.kthread());
        let line = |slot: Slot| &self.world.kthreads[slot.0 as usize].line;
        match order {
            Order::Grant { core, by, .. } => {
                self.counts.grants += 1;
                line(slot).grant(CoreIndex(core.0));
                match by {
                    HandOver::Evict(victim) => {
                        self.counts.evictions += 1;
                        line(self.slot(victim)).evict(Some(slot), 0);
                    }
                    HandOver::Line | HandOver::Kernel => self.world.wake(slot),
                }
            }
            Order::Wake { .. } => {
                self.counts.wakes += 1;
                self.world.wake(slot);
            }
            Order::Revoke { .. } => {
                self.counts.revoked += 1;
                line(slot).park();
            }
            Order::MoveToShared { .. } => self.counts.moves += 1,
            // No handler here: the next rung follows.
            Order::Signal { .. } | Order::Place { .. } => {}
        }
    }

    /// Until all have had their messages and the core is free by its books.
    fn serve(&mut self) {
        let begun = Instant::now();
        while !self.world.are_done() || self.allocator.holding(CoreId(0)) != Holding::Free {
            // By time: on a busy machine a million turns pass before a kthread has the processor.
            let lost = begun.elapsed() > Duration::from_secs(60);
            assert!(!lost, "a message or the core is lost: {:?}", self.counts);
            self.turn();
            thread::yield_now();
        }
        self.world.ends.store(true, Ordering::Release);
        for (slot, kthread) in (0..).zip(&self.world.kthreads) {
            kthread.line.park();
            self.world.wake(Slot(slot));
        }
    }
}

/// Small enough for loom.
fn settings(patient: bool) -> Settings {
    let (grace, give_up) = if patient { (1_000_000, 1_000_000) } else { (1, 1) };
    Settings {
        interval: Nanos(10),
        grace: Nanos(grace),
        give_up: Nanos(give_up),
        rest: Nanos(30),
        ..Settings::default()
    }
}

/// `preemptions`: how many of each interleaving are tried, unless `LOOM_MAX_PREEMPTIONS` says.
#[cfg(loom)]
fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(preemptions);
    model.max_branches = 20_000;
    model.check(f);
}

#[cfg(not(loom))]
fn model(_: usize, f: impl Fn() + Send + Sync + 'static) {
    let times = if cfg!(miri) { 5 } else { 300 };
    (0..times).for_each(|_| f());
}

/// Kthreads as threads.
fn start(world: &Arc<World>) -> Vec<thread::JoinHandle<()>> {
    let of = |slot| {
        let world = world.clone();
        thread::spawn(move || Here { world: &world, slot }.live())
    };
    (0..world.kthreads.len()).map(of).collect()
}

#[test]
fn what_comes_while_a_kthread_parks_is_not_lost() {
    model(2, || {
        let world = World::new(&[2]);
        world.give(0);
        let mut kthreads = start(&world);
        let giver = {
            let world = world.clone();
            thread::spawn(move || world.give(0))
        };
        kthreads.push(giver);
        Daemon::new(&world, settings(true), &[(1, 0)]).serve();
        kthreads.into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn an_eviction_meets_a_kthread_that_parks() {
    // Of all runs; no part of the model.
    static EVICTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    static PARKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    model(1, || {
        let world = World::new(&[1, 1]);
        world.give(0);
        let mut daemon = Daemon::new(&world, settings(true), &[(0, 1), (1, 0)]);
        // The victim has its core before it looks at anything.
        daemon.turn();
        world.give(1);
        let kthreads = start(&world);
        daemon.serve();
        assert!(daemon.counts.evictions <= 1 && daemon.counts.revoked == 0, "{:?}", daemon.counts);
        let seen = if daemon.counts.evictions == 1 { &EVICTED } else { &PARKED };
        seen.fetch_add(1, Ordering::Relaxed);
        kthreads.into_iter().for_each(|it| it.join().unwrap());
    });
    let seen = [&EVICTED, &PARKED].map(|count| count.load(Ordering::Relaxed));
    assert!(cfg!(not(loom)) || !seen.contains(&0), "only one of both was tried: {seen:?}");
}

#[test]
fn a_victim_that_is_late_and_one_that_runs_again() {
    model(1, || {
        // The victim has more to do after it was evicted.
        let world = World::new(&[2, 1]);
        world.give(0);
        let mut daemon = Daemon::new(&world, settings(true), &[(0, 1), (1, 0)]);
        daemon.turn();
        let kthreads = start(&world);
        world.give(1);
        daemon.turn();
        world.give(0);
        daemon.serve();
        kthreads.into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn grants_that_come_late_are_taken_back_and_given_again() {
    model(2, || {
        let world = World::new(&[1]);
        world.give(0);
        let mut daemon = Daemon::new(&world, settings(false), &[(1, 0)]);
        // Before there is a kthread to take it: granted, woken, taken back.
        (0..3).for_each(|_| daemon.turn());
        assert_eq!((daemon.counts.grants, daemon.counts.revoked), (1, 1));
        let kthreads = start(&world);
        daemon.serve();
        kthreads.into_iter().for_each(|it| it.join().unwrap());
    });
}

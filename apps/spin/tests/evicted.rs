//! A kthread that computes is to give its core to another program, under the core allocator itself:
//! by its heartbeat, by a signal, and where it follows neither, by being moved away.
//!
//! What happened is told by the allocator's counts. Both programs are runtimes of this process, each
//! with one kthread; the first computes all the time, the second is guaranteed the only core.

#[path = "common/daemon.rs"]
mod daemon;

use curtail::{RuntimeBuilder, SafepointKind, safepoint_kind, sync};
use curtail_shm::kthreads::allowed_cpus;
use daemon::{Running, builder, ended, program, until};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A machine that keeps a kthread from its core for a whole grace makes a round say nothing.
const ROUNDS: u32 = 20;

/// What the first program is told, and what it tells.
#[derive(Default)]
struct Told {
    turns: AtomicU64,
    leaves: AtomicBool,
    ends: AtomicBool,
}

impl Told {
    /// A loop with safepoints.
    #[inline(never)]
    fn compute(&self, stops: &AtomicBool) {
        while !stops.load(Ordering::Relaxed) {
            self.turn();
        }
    }

    #[inline(always)]
    fn turn(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        self.turns.store(black_box(turns.wrapping_mul(3).wrapping_add(1)), Ordering::Relaxed);
    }

    /// The same without any.
    #[inline(never)]
    #[unsafe(link_section = ".text.curtail_no_safepoint")]
    fn compute_deaf(&self) {
        while !self.leaves.load(Ordering::Relaxed) {
            self.turn();
        }
    }
}

/// The first program, once it computes.
fn computes(builder: RuntimeBuilder, told: &Arc<Told>, body: fn(&Told)) -> JoinHandle<()> {
    let before = told.turns.load(Ordering::Relaxed);
    let theirs = told.clone();
    let program = program(builder, move || body(&theirs));
    until("it computes", || told.turns.load(Ordering::Relaxed) != before);
    program
}

/// Programs come until one gets its core in a way that `shows`; what the counts rose by then.
fn evict_until(daemon: &Running, shows: fn(u64, u64) -> bool) {
    for _ in 0..ROUNDS {
        until("the first has the core", || daemon.status()["cores"][0]["state"] == "held");
        let counts = || ["by_eviction", "signals", "moves"].map(|name| daemon.count(name));
        let before = counts();
        ended(program(builder(&daemon.path, 1), || ()));
        let after = counts();
        let [evictions, signals, moves] = std::array::from_fn(|at| after[at] - before[at]);
        assert!(evictions > 0, "it needed the other's core");
        if shows(signals, moves) {
            return;
        }
    }
    panic!("in none of {ROUNDS} rounds");
}

#[test]
fn a_kthread_that_computes_follows_its_word_by_the_heartbeat() {
    if safepoint_kind() != SafepointKind::Clock {
        return; // Other safepoints do not time themselves.
    }
    let daemon = Running::start("heartbeat", Duration::from_secs(1));
    let told = Arc::new(Told::default());
    let first = computes(builder(&daemon.path, 0), &told, |told| told.compute(&told.ends));
    for _ in 0..3 {
        evict_until(&daemon, |signals, moves| signals + moves == 0);
    }
    told.ends.store(true, Ordering::Relaxed);
    ended(first);
}

#[test]
fn a_kthread_whose_safepoints_do_not_time_themselves_follows_the_signal() {
    if safepoint_kind() != SafepointKind::Flag {
        return; // See above and below.
    }
    let daemon = Running::start("flag", Duration::from_millis(100));
    let told = Arc::new(Told::default());
    let first = computes(builder(&daemon.path, 0), &told, |told| told.compute(&told.ends));
    for _ in 0..3 {
        evict_until(&daemon, |signals, moves| signals == 1 && moves == 0);
    }
    told.ends.store(true, Ordering::Relaxed);
    ended(first);
}

#[test]
fn a_kthread_in_a_critical_section_parks_when_it_leaves_that() {
    if safepoint_kind() == SafepointKind::None {
        return; // Leaving the section is a safepoint only where there are others.
    }
    let daemon = Running::start("section", Duration::from_millis(500));
    let told = Arc::new(Told::default());
    let first = computes(builder(&daemon.path, 0), &told, |told| {
        sync::no_preempt(|| told.compute(&told.leaves));
        told.compute(&told.ends);
    });
    let other = program(builder(&daemon.path, 1), || ());
    until("it is signalled", || daemon.count("signals") > 0);
    assert!(daemon.count("moves") > 0 || !other.is_finished(), "it can't give its core back yet");
    told.leaves.store(true, Ordering::Relaxed);
    ended(other);
    // It is late now where the machine is slow; but back in the ranks, and evicted once more.
    evict_until(&daemon, |_, moves| moves == 0);
    told.ends.store(true, Ordering::Relaxed);
    ended(first);
}

#[test]
fn a_kthread_that_follows_nothing_is_moved_away_and_comes_back() {
    let daemon = Running::start("moved", Duration::from_millis(20));
    let told = Arc::new(Told::default());
    let first = computes(builder(&daemon.path, 0), &told, |told| told.compute_deaf());
    ended(program(builder(&daemon.path, 1), || ()));
    assert_eq!((daemon.count("signals"), daemon.count("moves")), (1, 1));
    // It runs on, elsewhere, and is granted nothing before it has parked.
    let turns = told.turns.load(Ordering::Relaxed);
    until("it still runs", || told.turns.load(Ordering::Relaxed) != turns);
    assert_eq!(daemon.count("moves"), 1);
    told.leaves.store(true, Ordering::Relaxed);
    ended(first);
    // The core is not lost, and the next one is served on it.
    let cores = ended(program(builder(&daemon.path, 1), || allowed_cpus().unwrap()));
    assert_eq!(cores, [daemon.managed]);
}

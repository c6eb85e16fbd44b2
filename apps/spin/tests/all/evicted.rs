//! A kthread that computes is to give its core to another program, under the core allocator itself:
//! by its heartbeat, by its poll word, by a signal, and where it follows none, by being moved away.
//!
//! The allocator's counts say what happened. Both programs are runtimes of this process, each
//! with one kthread; the first computes all the time, the second is guaranteed the only core.

use crate::daemon;

use curtail::{RuntimeBuilder, SafepointKind, safepoint_kind, sync};
use curtail_fiber::safepoint::Safepoint;
use curtail_shm::kthreads::allowed_cpus;
use daemon::{Running, builder, ended, program, until};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A machine that keeps a kthread from its core for a whole grace makes a round say nothing.
const ROUNDS: u32 = 20;

/// What the first program reads, and what it writes.
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

    /// Computes without any safepoint, until the request is to leave.
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
fn a_kthread_whose_poll_word_the_allocator_raises_needs_no_signal() {
    if safepoint_kind() != SafepointKind::Flag {
        return; // Only these look at the poll word by themselves.
    }
    let daemon = Running::start("page", Duration::from_secs(1));
    let told = Arc::new(Told::default());
    let first = computes(builder(&daemon.path, 0), &told, |told| told.compute(&told.ends));
    let before = daemon.count("raised");
    for round in 1..=3 {
        evict_until(&daemon, |signals, moves| signals + moves == 0);
        assert!(daemon.count("raised") >= before + round);
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
    let builder = builder(&daemon.path, 0).poll_page(false);
    let first = computes(builder, &told, |told| told.compute(&told.ends));
    for _ in 0..3 {
        evict_until(&daemon, |signals, moves| signals == 1 && moves == 0);
    }
    assert_eq!(daemon.count("raised"), 0);
    told.ends.store(true, Ordering::Relaxed);
    ended(first);
}

/// How the child of a fork has ended that looked what memory it has.
const OWN_MEMORY: i32 = 7;

/// Whether the block of the calling thread's safepoints lies in memory that the allocator writes.
fn is_lent() -> bool {
    let block = Safepoint::this_thread().page().expect("a flag build").addr().get();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let has_block = |line: &&str| {
        let (from, rest) = line.split_once('-').unwrap();
        let (to, _) = rest.split_once(' ').unwrap();
        let [from, to] = [from, to].map(|text| usize::from_str_radix(text, 16).unwrap());
        (from..to).contains(&block)
    };
    maps.lines().find(has_block).expect("it is mapped").contains("curtail-poll-pages")
}

/// The child computes, and writes none of its parent's words.
fn fork_and_work(told: &Told) -> i32 {
    // SAFETY: the child computes, reads a file, and ends.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1);
    if child == 0 {
        Safepoint::this_thread().ask_from_handler();
        for _ in 0..1_000 {
            told.turn();
        }
        // SAFETY: ends the child.
        unsafe { libc::_exit(if is_lent() { 1 } else { OWN_MEMORY }) };
    }
    let mut status = 0;
    // SAFETY: our child, and a word for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

#[test]
fn a_kthreads_words_are_its_own_again_in_its_children_and_after_its_end() {
    if safepoint_kind() != SafepointKind::Flag {
        return; // Nothing is lent.
    }
    let daemon = Running::start("fork", Duration::from_secs(1));
    let told = Arc::new(Told::default());
    let (theirs, builder) = (told.clone(), builder(&daemon.path, 0));
    let first = std::thread::spawn(move || {
        let before = is_lent();
        let body = move || {
            let (lent, child) = (is_lent(), fork_and_work(&theirs));
            theirs.compute(&theirs.ends);
            (lent, child)
        };
        (before, builder.run(body), is_lent())
    });
    until("it computes", || told.turns.load(Ordering::Relaxed) != 0);
    // Its parent still follows the allocator.
    evict_until(&daemon, |signals, moves| signals + moves == 0);
    told.ends.store(true, Ordering::Relaxed);
    assert_eq!(ended(first), (false, (true, OWN_MEMORY), false));
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
    // As long as no other program needs the core, it keeps it; the allocator says for how long.
    let status = daemon.status();
    assert_eq!(status["cores"][0]["state"], "held", "{status}");
    assert!(status["cores"][0]["for_ns"].as_u64().is_some_and(|ns| ns > 0), "{status}");
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

//! Ticks against a loop in assembly, which holds a value of its own in every register, in the red
//! zone and in the flags. It is the application; everything else is not.

mod everything;
#[path = "../../fiber/tests/support/mod.rs"]
mod support;

use curtail_fiber::safepoint::{self, Block, Mode, Safepoint};
use curtail_fiber::{Label, Locals, StackPool};
use curtail_signal::{self as signal, Code, Owner, Refusal, Ticks};
use everything::{Image, Work, test_loop, test_loop_begin, test_loop_end, width};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{Fiber, Suspend, Task};

fn allow_the_loop() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let [begin, end, outside] =
            [test_loop_begin as *const (), test_loop_end as *const (), elsewhere as *const ()]
                .map(|function| function as usize);
        let program = begin.min(outside) & !0xfff..(end.max(outside) + 0x1000) & !0xfff;
        let application = std::iter::once(begin..end).collect();
        // SAFETY: the loop touches its registers and its stack.
        unsafe { signal::allow(Code { application, program }) };
    });
}

/// A test that fails must end: the loop gives up after so many rounds.
const ROUNDS: u64 = 4_000_000_000;

unsafe extern "C" fn on_tick(_: *mut Block) {
    crate::support::suspend(Suspend::Preempted);
}

fn now() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Sets all vector registers that there are to something else.
fn spoil() {
    let (before, mut after) = (Image::zero(), Image::zero());
    let mut work = Work {
        stop: AtomicU32::new(1),
        wide: width(),
        rounds: 2,
        before: &raw const before,
        after: &raw mut after,
    };
    // SAFETY: the images are as large as it takes.
    unsafe { test_loop(&raw mut work) };
}

/// Some nanoseconds a cycle; the test needs no more.
const NS_PER_CYCLE: u64 = 1 << 31;
const QUANTUM: u64 = 40_000;

/// A thread that can be interrupted, and its fiber.
struct Bench {
    owner: Owner,
    fiber: Fiber,
}

impl Bench {
    fn new() -> Self {
        allow_the_loop();
        Safepoint::this_thread().set_hook(Some(on_tick));
        let mut pool = StackPool::new(64 * 1024, Locals::Own).unwrap();
        Self { owner: Owner::new(NS_PER_CYCLE).unwrap(), fiber: Fiber::new(&mut pool).unwrap() }
    }

    /// A quantum of the fiber.
    fn run(&mut self, first: Option<Task>, keeps_time: bool) -> Suspend {
        let now = now();
        let quantum = if keeps_time { QUANTUM } else { u64::MAX / 4 };
        self.owner.arm(now, now + quantum, keeps_time);
        // SAFETY: the tasks' arguments live on the tests' stacks.
        let why = unsafe {
            match first {
                Some(task) => self.fiber.start(task, Label::default()),
                None => self.fiber.resume(),
            }
        };
        Safepoint::this_thread().disarm();
        why
    }

    fn ticks(&self) -> Ticks {
        self.owner.ticker().counts()
    }
}

fn task<T>(run: unsafe fn(*mut ()), argument: &mut T) -> Task {
    Task { run, argument: (&raw mut *argument).cast() }
}

unsafe fn run_loop(work: *mut ()) {
    // SAFETY: as the test made it.
    unsafe { test_loop(work.cast()) };
}

fn work(before: &Image, after: &mut Image, rounds: u64) -> Work {
    Work { stop: AtomicU32::new(0), wide: width(), rounds, before, after }
}

#[test]
fn every_register_survives_thousands_of_ticks() {
    let mut bench = Bench::new();
    let (before, mut after) = (Image::of(width()), Image::zero());
    let mut work = work(&before, &mut after, ROUNDS);
    let mut why = bench.run(Some(task(run_loop, &mut work)), true);
    let mut yields = 0;
    while matches!(why, Suspend::Preempted) {
        yields += 1;
        if yields == 3_000 {
            work.stop.store(1, Ordering::Relaxed);
        }
        spoil();
        why = bench.run(None, true);
    }
    assert!(matches!(why, Suspend::Done), "{why:?}");
    assert!(yields >= 3_000, "the loop gave up after {yields}: {:?}", bench.ticks());
    assert_eq!(after, before);
    assert!(bench.ticks().taken >= 3_000, "{:?}", bench.ticks());
}

#[test]
fn another_thread_ends_a_quantum() {
    let mut bench = Bench::new();
    let (before, mut after) = (Image::of(width()), Image::zero());
    let mut work = work(&before, &mut after, ROUNDS);
    let ticker = bench.owner.ticker();
    let done = AtomicU32::new(0);
    let (mut why, mut yields) = (Suspend::Yielded, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Ordering::Relaxed) == 0 {
                ticker.tick(now());
                std::thread::yield_now();
            }
        });
        why = bench.run(Some(task(run_loop, &mut work)), false);
        while matches!(why, Suspend::Preempted) {
            yields += 1;
            if yields == 200 {
                work.stop.store(1, Ordering::Relaxed);
            }
            why = bench.run(None, false);
        }
        done.store(1, Ordering::Relaxed);
    });
    assert!(matches!(why, Suspend::Done) && yields >= 200, "{yields} {:?}", bench.ticks());
    assert_eq!(after, before);
    // The last one may have been sent after its reader had ended.
    ticker.tick(now());
}

/// Not in the loop, so not the application's.
unsafe fn elsewhere(ticks: *mut ()) {
    // SAFETY: as the tests made it.
    let bench: &Bench = unsafe { &*ticks.cast::<Bench>() };
    let mut rounds = 0_u64;
    while bench.ticks().refused[Refusal::Runtime as usize] < 5 && rounds < ROUNDS {
        rounds += 1;
    }
}

#[test]
fn code_that_is_not_the_applications_is_not_interrupted() {
    let mut bench = Bench::new();
    let shared: *mut Bench = &raw mut bench;
    let why = bench.run(Some(Task { run: elsewhere, argument: shared.cast() }), true);
    assert!(matches!(why, Suspend::Done), "{why:?}");
    let ticks = bench.ticks();
    assert!(ticks.refused[Refusal::Runtime as usize] >= 5, "{ticks:?}");
    assert_eq!(ticks.taken, 0);
    // The first comes at the end of the quantum, the others by themselves.
    assert_eq!(ticks.received, ticks.taken + ticks.early + ticks.all_refused());
}

unsafe fn in_a_critical_section(work: *mut ()) {
    safepoint::enter_critical();
    // SAFETY: as the test made it.
    unsafe { test_loop(work.cast()) };
    safepoint::leave_critical();
}

#[test]
fn a_critical_section_ends_first() {
    let mut bench = Bench::new();
    let (before, mut after) = (Image::of(width()), Image::zero());
    let mut work = work(&before, &mut after, 50_000_000);
    let why = bench.run(Some(task(in_a_critical_section, &mut work)), true);
    assert!(matches!(why, Suspend::Preempted), "leaving the section yields: {why:?}");
    assert_eq!(after.general, before.general, "and nothing before it did");
    let ticks = bench.ticks();
    assert!(ticks.refused[Refusal::Critical as usize] > 0 && ticks.taken == 0, "{ticks:?}");
    assert!(matches!(bench.run(None, true), Suspend::Done));
}

unsafe fn with_x87(work: *mut ()) {
    // SAFETY: as the test made it; one value is pushed and popped again.
    unsafe {
        std::arch::asm!("fld1");
        test_loop(work.cast());
        std::arch::asm!("fstp st(0)");
    }
}

/// Descends until less than what a yield needs is left.
unsafe fn with_little_stack(work: *mut ()) {
    // The tops of stacks are up to 4 KiB apart.
    let mut stack = std::mem::MaybeUninit::<[u8; 64 * 1024 + 512]>::uninit();
    std::hint::black_box(stack.as_mut_ptr());
    // SAFETY: as the test made it.
    unsafe { test_loop(work.cast()) };
    std::hint::black_box(stack.as_mut_ptr());
}

#[test]
fn where_a_yield_is_not_possible_there_is_none() {
    type Run = unsafe fn(*mut ());
    let cases: [(Run, Refusal); 2] =
        [(with_x87, Refusal::Registers), (with_little_stack, Refusal::Stack)];
    for (run, reason) in cases {
        let mut bench = Bench::new();
        let (before, mut after) = (Image::of(width()), Image::zero());
        let mut work = work(&before, &mut after, 50_000_000);
        let why = bench.run(Some(task(run, &mut work)), true);
        let ticks = bench.ticks();
        assert!(matches!(why, Suspend::Done), "{reason:?}: {why:?} {ticks:?}");
        assert!(ticks.refused[reason as usize] > 0 && ticks.taken == 0, "{reason:?}: {ticks:?}");
        assert_eq!(after, before, "{reason:?}");
    }
}

/// Thread-locals are made while they are the kthread's: a tick then finds its owner all the same, and is
/// followed by another.
#[test]
fn no_tick_is_lost_where_thread_locals_are_made() {
    if curtail_fiber::image::support().is_err() {
        return;
    }
    allow_the_loop();
    let owner = Owner::new(NS_PER_CYCLE).unwrap();
    let received = || owner.ticker().counts().received;
    let mut pool = StackPool::new(64 * 1024, Locals::Own).unwrap();
    for round in 0..20_000 {
        let now = now();
        owner.arm(now, now + 2_000 + round % 40 * 500, true);
        drop(pool.take().unwrap());
    }
    let (before, until) = (received(), std::time::Instant::now() + Duration::from_secs(10));
    assert!(before > 0);
    while received() == before && std::time::Instant::now() < until {
        let now = now();
        owner.arm(now, now + QUANTUM, true);
    }
    assert!(received() > before, "the timer is thought to be running");
}

/// A safepoint in a quantum that a signal is to end leaves its deadline.
#[test]
fn a_safepoint_loses_no_tick() {
    allow_the_loop();
    Safepoint::this_thread().set_hook(Some(on_tick));
    let owner = Owner::new(NS_PER_CYCLE).unwrap();
    let received = || owner.ticker().counts().received;
    for _ in 0..20 {
        let (before, begun) = (received(), now());
        owner.arm(begun, begun + QUANTUM, true);
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while received() == before && std::time::Instant::now() < until {
            safepoint::here();
        }
        assert!(received() > before, "no tick came");
    }
}

#[test]
fn quanta_that_end_by_themselves_are_not_ended() {
    let mut bench = Bench::new();
    let nothing: unsafe fn(*mut ()) = |_| {};
    for _ in 0..10_000 {
        assert!(matches!(bench.run(Some(task(nothing, &mut ())), true), Suspend::Done));
    }
    let ticks = bench.ticks();
    assert_eq!(ticks.taken, 0, "{ticks:?}");
    assert_eq!(Safepoint::this_thread().depth(), 0);
    // Other safepoint modes are none of the ticks' business.
    Safepoint::this_thread().arm(Mode::Flag, now(), 0);
    bench.owner.ticker().tick(now());
    assert_eq!(bench.ticks().taken, 0);
    Safepoint::this_thread().disarm();
}

use super::*;

const QUANTUM: u64 = 100_000;

fn tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

unsafe extern "C" fn nothing(_: *mut Block) {}

/// How many cycles ahead the budget reaches that a quantum begins with.
fn ahead(safepoint: Safepoint, by_the_stub: bool) -> u64 {
    let now = tsc();
    safepoint.arm(Mode::Clock, now, now + QUANTUM);
    if by_the_stub {
        here();
    }
    // SAFETY: our own block.
    let block = unsafe { &*safepoint.block() };
    (u64::try_from(block.budget - block.edge).unwrap_or(0) << 10) / block.pace
}

#[test]
fn budgets_reach_to_the_deadline() {
    let safepoint = Safepoint::this_thread();
    safepoint.set_hook(Some(nothing));
    for by_the_stub in [false, true] {
        // Of several tries the most: the system may interrupt.
        let most = (0..20).map(|_| ahead(safepoint, by_the_stub)).max().unwrap();
        assert!(most > QUANTUM * 9 / 10 && most <= QUANTUM, "{most} {by_the_stub}");
    }
    safepoint.disarm();
    safepoint.set_hook(None);
}

#[test]
fn what_is_watched_keeps_the_hook_away_until_it_changes() {
    use std::cell::Cell;
    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }
    unsafe extern "C" fn count(_: *mut Block) {
        CALLS.set(CALLS.get() + 1);
    }
    let safepoint = Safepoint::this_thread();
    let (word, other, third) = (AtomicU32::new(7), AtomicU32::new(0), AtomicU32::new(0));
    let watch = Watch::new(QUANTUM, Watch::ANY);
    safepoint.set_hook(Some(count));
    let calls = |until: u64| {
        // SAFETY: both live longer than this test's quanta.
        unsafe {
            let words = [(&raw const word, 7), (&raw const other, 0), (&raw const third, 0)];
            watch.set(words, until);
            safepoint.set_watch(&raw const watch);
        }
        let before = CALLS.get();
        for _ in 0..3 {
            let now = tsc();
            safepoint.arm(Mode::Clock, now - QUANTUM, now);
            here();
        }
        CALLS.get() - before
    };
    assert_eq!(calls(u64::MAX), 0, "nothing has changed");
    assert_eq!((watch.take_passed(), watch.take_passed()), (3, 0));
    assert_eq!(calls(0), 3, "it is late");
    for changed in [&word, &other, &third] {
        let usual = changed.swap(9, Ordering::Relaxed);
        assert_eq!(calls(u64::MAX), 3);
        changed.store(usual, Ordering::Relaxed);
    }
    // It goes on with a whole quantum.
    assert_eq!(calls(u64::MAX), 0);
    assert!(safepoint.deadline() > tsc() - QUANTUM);
    // A minute after the deadline.
    let strict = Watch::new(QUANTUM, 1_000);
    // SAFETY: as above.
    unsafe {
        strict.set([(&raw const word, 7), (&raw const other, 0), (&raw const third, 0)], u64::MAX);
        safepoint.set_watch(&raw const strict);
    }
    let (before, now) = (CALLS.get(), tsc());
    safepoint.arm(Mode::Clock, now - (1 << 37), now - (1 << 37) + 1);
    here();
    assert_eq!(CALLS.get() - before, 1, "so late that the hook is to know");
    safepoint.disarm();
    // SAFETY: none is watched.
    unsafe { safepoint.set_watch(std::ptr::null()) };
    safepoint.set_hook(None);
}

/// How close to the deadline counts as there.
#[test]
fn the_slack_is_a_share_of_the_quantum() {
    let safepoint = Safepoint::this_thread();
    // SAFETY: our own block; nothing else looks at it meanwhile.
    let block = || unsafe { &mut *safepoint.block() };
    for mode in [Mode::Clock, Mode::Flag] {
        let slack = |quantum| {
            let now = tsc();
            safepoint.arm(mode, now, now + quantum);
            block().slack
        };
        assert_eq!(slack(1_000), 96, "a look at the clock has its time");
        assert_eq!(slack(5_200), 273);
        assert_eq!(slack(26_000), 1_368);
        assert_eq!(slack(1 << 40), 4_096, "a flag is seen in time");
    }
    // In mode FLAG the poll word is looked at as often, and in time by slow programs.
    safepoint.set_hook(Some(nothing));
    for (quantum, work) in [(5_200, 2 * 273), (26_000, 2_400), (1 << 40, 2_400)] {
        let now = tsc();
        safepoint.arm(Mode::Flag, now, now + quantum);
        assert_eq!(block().budget, work);
        block().budget = -1;
        here();
        assert_eq!(block().budget, work);
    }

    thread_local! {
        static FIRED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    unsafe extern "C" fn fire(_: *mut Block) {
        FIRED.set(true);
    }
    safepoint.set_hook(Some(fire));
    const MINUTE: u64 = 1 << 37;
    for (slack, fires) in [(MINUTE * 2, true), (MINUTE / 2, false)] {
        FIRED.set(false);
        let now = tsc();
        safepoint.arm(Mode::Clock, now, now + MINUTE);
        block().slack = slack as i64;
        here();
        assert_eq!(FIRED.get(), fires, "{slack}");
    }
    safepoint.disarm();
    safepoint.set_hook(None);
}

#[test]
fn a_raised_word_yields_at_the_deadline_and_not_before() {
    use std::cell::Cell;
    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }
    unsafe extern "C" fn count(_: *mut Block) {
        CALLS.set(CALLS.get() + 1);
    }
    let safepoint = Safepoint::this_thread();
    // SAFETY: our own block.
    let is_raised = || unsafe { (*safepoint.block()).poll.load(Ordering::Relaxed) } != 0;
    safepoint.set_hook(Some(count));
    let now = tsc();
    safepoint.arm(Mode::Raised, now, now + (1 << 40));
    for _ in 0..3 {
        here();
        assert!(is_raised(), "a safepoint that polls would look no more");
    }
    assert_eq!(CALLS.get(), 0, "before the deadline");
    safepoint.arm(Mode::Raised, now, tsc());
    enter_critical();
    here();
    assert_eq!(CALLS.get(), 0, "in a critical section");
    leave_critical();
    assert_eq!(CALLS.get(), 1, "behind it");
    here();
    assert_eq!(CALLS.get(), 2);
    assert!(safepoint.last_reading().is_some_and(|read| read > now), "it has read the clock");
    // What was raised is taken back by the first safepoint that finds nothing to yield for.
    safepoint.disarm();
    here();
    assert!(!is_raised());
    assert_eq!(CALLS.get(), 2);
    safepoint.set_hook(None);
}

use super::*;

const QUANTUM: u64 = 100_000;
/// `LEAST_REACH_CYCLES`.
const LEAST: u64 = 1024;

unsafe extern "C" fn nobody(_: *mut Block) {}

fn tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// How many cycles ahead the budget reaches.
fn granted(safepoint: Safepoint) -> u64 {
    // SAFETY: our own block.
    let block = unsafe { &*safepoint.block };
    (u64::try_from(block.budget - block.edge).unwrap() << 10) / block.pace
}

/// The first budget of a quantum that begins now.
fn ahead(safepoint: Safepoint) -> u64 {
    let now = tsc();
    safepoint.arm(Mode::Clock, now, now + QUANTUM);
    let ahead = granted(safepoint);
    safepoint.disarm();
    ahead
}

/// The one that the stub grants right after, of several tries the most: the system may interrupt.
fn ahead_by_the_stub(safepoint: Safepoint) -> u64 {
    let look = || {
        let now = tsc();
        safepoint.arm(Mode::Clock, now, now + QUANTUM);
        here();
        granted(safepoint)
    };
    let most = (0..20).map(|_| look()).max().unwrap();
    safepoint.disarm();
    most
}

/// Quanta that have ended at `now + end`, when a safepoint comes.
fn quanta(safepoint: Safepoint, count: u32, end: i64) {
    for _ in 0..count {
        let deadline = tsc().wrapping_add_signed(end);
        safepoint.arm(Mode::Clock, deadline - QUANTUM, deadline);
        here();
    }
    safepoint.disarm();
}

#[test]
fn who_is_late_looks_at_the_clock_earlier() {
    let safepoint = Safepoint::this_thread();
    safepoint.set_hook(Some(nobody));
    assert!(ahead(safepoint) > QUANTUM * 9 / 10, "{}", ahead(safepoint));
    assert!(ahead_by_the_stub(safepoint) > QUANTUM * 9 / 10);
    quanta(safepoint, 400, -5_000);
    let least = QUANTUM / 2 + LEAST;
    assert!(ahead(safepoint).abs_diff(least) < 100, "{}", ahead(safepoint));
    assert!(ahead_by_the_stub(safepoint).abs_diff(least) < 2_000);
    // In time, but for a few that the system interrupts. Each adds one part in 4,096.
    quanta(safepoint, 8_000, 200);
    let later = ahead(safepoint);
    assert!(later > least + LEAST && later < least + 8 * LEAST, "{later}");
    // In quanta of less than twice the least, looking earlier does not help.
    for _ in 0..400 {
        let now = tsc();
        safepoint.arm(Mode::Clock, now - 10_000, now - 8_000);
        here();
    }
    assert_eq!(ahead(safepoint), later);
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
    let (word, other) = (AtomicU32::new(7), AtomicU32::new(0));
    let watch = Watch::new(QUANTUM);
    safepoint.set_hook(Some(count));
    let calls = |until: u64| {
        // SAFETY: both live longer than this test's quanta.
        unsafe {
            watch.set([(&raw const word, 7), (&raw const other, 0)], until);
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
    assert_eq!(calls(0), 3, "it is late");
    for changed in [&word, &other] {
        let usual = changed.swap(9, Ordering::Relaxed);
        assert_eq!(calls(u64::MAX), 3);
        changed.store(usual, Ordering::Relaxed);
    }
    // It goes on with a whole quantum.
    assert_eq!(calls(u64::MAX), 0);
    assert!(safepoint.deadline() > tsc() - QUANTUM);
    safepoint.disarm();
    // SAFETY: none is watched.
    unsafe { safepoint.set_watch(std::ptr::null()) };
    safepoint.set_hook(None);
}

//! Recordings of threads: why each left its core, and when it was woken.

use curtail::sync::{Arc, Mutex, Semaphore};
use curtail::timeline::{EventKind, Timeline};
use std::sync::atomic::{AtomicBool, Ordering};

/// There is one recording at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn of_class(timeline: &mut Timeline, class: u16) -> Vec<EventKind> {
    let events = timeline.take();
    events.iter().filter(|event| event.class == class).map(|event| event.kind).collect()
}

fn spawn(class: u16, f: impl FnOnce() + Send + 'static) -> curtail::JoinHandle<()> {
    curtail::Builder::new().class(class).spawn(f).unwrap()
}

/// Lets others run until it is so.
fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        curtail::yield_now();
    }
}

#[test]
fn why_a_thread_left_its_core_and_when_it_was_woken_is_recorded() {
    const CLASS: u16 = 7;
    let _one = ONE_AT_A_TIME.lock();
    curtail::Runtime::builder().kthreads(1).run(|| {
        let mut timeline = Timeline::start().unwrap();
        let (permits, began) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
        let (wanted, begins) = (permits.clone(), began.clone());
        let thread = spawn(CLASS, move || {
            begins.store(true, Ordering::Relaxed);
            let permit = wanted.acquire();
            curtail::yield_now();
            drop(permit);
        });
        until(&began);
        permits.add_permits(1);
        thread.join().unwrap();
        let kinds = of_class(&mut timeline, CLASS);
        let expected = [
            EventKind::RanUntilBlocked,
            EventKind::Woken,
            EventKind::RanUntilYield,
            EventKind::RanToEnd,
        ];
        assert_eq!(kinds, expected);
        // One that is run by who joins it, which waits meanwhile.
        spawn(CLASS, || ()).join().unwrap();
        assert_eq!(of_class(&mut timeline, CLASS), [EventKind::RanToEnd]);
    });
}

/// What ran when a recording ended is not taken for what runs when the next one begins.
#[test]
fn a_recording_has_nothing_of_the_one_before() {
    const CLASS: u16 = 9;
    let _one = ONE_AT_A_TIME.lock();
    curtail::Runtime::builder().kthreads(1).run(|| {
        let timeline = Timeline::start().unwrap();
        let first = Arc::new(Mutex::new(Some(timeline)));
        let (permits, began) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
        let (wanted, ends, begins) = (permits.clone(), first.clone(), began.clone());
        let thread = spawn(CLASS, move || {
            drop(ends.lock().unwrap().take());
            begins.store(true, Ordering::Relaxed);
            drop(wanted.acquire());
        });
        until(&began);
        // The thread has ended the first recording while it ran, and waits.
        let mut second = Timeline::start().unwrap();
        curtail::yield_now();
        curtail::yield_now();
        assert_eq!(of_class(&mut second, CLASS), []);
        permits.add_permits(1);
        thread.join().unwrap();
        assert_eq!(of_class(&mut second, CLASS), [EventKind::Woken, EventKind::RanToEnd]);
    });
}

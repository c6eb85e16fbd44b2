use super::*;
use crate::thread::parker::Parker;
use crate::thread::stalls::StallPlace;
use curtail_ring::CachePadded;
use std::sync::mpsc::channel;

/// Until it has been told of twice, or so many looks have passed.
fn told(limit: Duration, looks: u32, asleep: bool) -> (Vec<Stall>, Vec<StallPlace>) {
    let shared = Shared::new(Arc::new(CachePadded::new(Parker::under(None))), None);
    shared.set_mail(Box::new(|| true));
    let (sender, stalls) = channel();
    let watching = Watching::default();
    let mut watchdog = Watchdog {
        limit,
        on_stall: Some(Arc::new(move |stall| sender.send(stall.clone()).unwrap())),
        stalls: watching.stalls(),
        watched: Watched { kthreads: [shared.clone()].into(), usual: 1, first: 0, first_spare: 1 },
        runs_by_clock: false,
        seen: Vec::new(),
        sleeps: 0,
        is_stuck: Box::new(|_, _| ()),
    };
    std::thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let (end, ends) = channel::<()>();
        let kthread = &shared;
        scope.spawn(move || {
            kthread.set_lives(true);
            ready.send(()).unwrap();
            // The machine waits for its waker, or in a system call of the program's.
            let waits = || ends.recv().unwrap_or_default();
            if asleep {
                kthread.parker.sleep(|| false, waits)
            } else {
                waits()
            }
            kthread.set_lives(false);
        });
        is_ready.recv().unwrap();
        for _ in 0..looks {
            let _ = watchdog.look();
            std::thread::park_timeout(limit / 2);
        }
        drop(end);
    });
    drop(watchdog);
    (stalls.into_iter().collect(), watching.stalls().list())
}

#[test]
fn a_kthread_in_its_own_sleep_is_no_stall_until_that_is_long() {
    let limit = Duration::from_millis(2);
    let (stalls, places) = told(limit, 50, false);
    assert!(!stalls[0].asleep, "{stalls:?}");
    assert_eq!(places.iter().map(|place| place.count).sum::<u64>(), 1, "{places:?}");
    let (stalls, places) = told(limit, 250, true);
    assert_eq!(places, [], "it is no stall of the program's");
    let [first, ..] = &stalls[..] else { panic!("a long one is told") };
    assert!(first.asleep && first.duration >= limit * LONG_SLEEP, "{stalls:?}");
    assert!(first.to_string().ends_with("to others"), "{first}");
}

//! Cancelled jobs: those that have not begun leave, those that have run when nothing else does. Under
//! every policy with a dispatcher, and by a record played again.

use curtail_policy::*;
use curtail_sched::record::{Call, Reader, Tap};
use curtail_sched::*;
use std::sync::{Arc, Mutex};

const W0: WorkerId = WorkerId(0);

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

fn setup(spec: Spec) -> Setup {
    Setup { spec, workers: 1, jobs: 64, seed: 1, pins: true, keeps_room: false }
}

fn each(f: impl Fn(Scheduler<()>, &str)) {
    for entry in dispatched() {
        let spec = Spec::preset(entry.name).unwrap();
        // The one worker may be kept free for some classes, and then no other class gets it.
        f(Scheduler::new(setup(spec), None), entry.name);
    }
}

fn arrive(sched: &mut Scheduler<()>, now: Nanos) -> JobId {
    let hint = Some(us(1));
    sched.handle_arrival(now, Arrival { class: ClassId(0), at: now, hint }, |_| ()).unwrap()
}

fn tell(sched: &mut Scheduler<()>, now: Nanos, job: JobId, what: EventKind) {
    sched.handle_event(now, W0, Event { job, attained: us(1), what });
}

/// All that there is to do; what was asked for is no matter.
fn poll(sched: &mut Scheduler<()>, now: Nanos) -> (Vec<JobId>, Vec<JobId>) {
    let (mut ran, mut dropped) = (Vec::new(), Vec::new());
    while let Some(action) = sched.poll_action(now) {
        match action {
            Action::Run { job, on, .. } if on == W0 => ran.push(job),
            Action::Run { job, .. } => {
                // A dispatcher that works itself: it is done at once.
                let event = Event { job, attained: us(1), what: EventKind::Ended };
                sched.handle_event(now, WorkerId::DISPATCHER, event);
            }
            Action::Drop { job } => dropped.push(job),
            Action::Preempt { .. } => {}
        }
    }
    (ran, dropped)
}

#[test]
fn what_has_not_begun_leaves_without_being_run() {
    each(|mut sched, name| {
        // Cancelled before the policy was asked for the first time.
        let jobs = [0; 5].map(|_| arrive(&mut sched, us(0)));
        for job in [jobs[0], jobs[2], jobs[4]] {
            sched.handle_cancel(us(0), job, false);
            sched.handle_cancel(us(0), job, false);
        }
        let (mut ran, mut dropped) = (Vec::new(), Vec::new());
        for step in 1..20 {
            let (sent, left) = poll(&mut sched, us(step));
            sent.iter().for_each(|&job| tell(&mut sched, us(step), job, EventKind::Ended));
            ran.extend(sent);
            dropped.extend(left);
        }
        dropped.sort_unstable_by_key(|job| job.0);
        assert_eq!(dropped, [jobs[0], jobs[2], jobs[4]], "{name}");
        assert!(sched.is_empty() && sched.waiting() == 0, "{name}");
        assert!(ran.iter().all(|job| [jobs[1], jobs[3]].contains(job)), "{name}");
    });
}

#[test]
fn what_has_begun_runs_when_nothing_else_does() {
    each(|mut sched, name| {
        let last = arrive(&mut sched, us(0));
        assert_eq!(poll(&mut sched, us(0)).0, [last], "{name}");
        sched.handle_cancel(us(1), last, true);
        if sched.is_two_level() {
            // Its worker has it, and tells when it has ended; the policy does not count it.
            assert_eq!(sched.waiting(), 0, "{name}");
            tell(&mut sched, us(2), last, EventKind::Blocked);
            tell(&mut sched, us(3), last, EventKind::Resumed);
            return tell(&mut sched, us(4), last, EventKind::Ended);
        }
        tell(&mut sched, us(2), last, EventKind::Preempted);
        // Nothing else: it goes on.
        assert_eq!(poll(&mut sched, us(2)).0, [last], "{name}");
        // Others come: it is asked for its place, and gets it back when they have all ended.
        let others = [0; 3].map(|_| arrive(&mut sched, us(3)));
        let mut sent = poll(&mut sched, us(3)).0;
        assert!(!sent.contains(&last), "{name}");
        tell(&mut sched, us(4), last, EventKind::Preempted);
        for step in 5..40 {
            sent.extend(poll(&mut sched, us(step)).0);
            if sched.len() > 1 && !sent.is_empty() {
                let job = sent.remove(0);
                assert_ne!(job, last, "{name}: others are there");
                let what = if step < 8 { EventKind::Preempted } else { EventKind::Ended };
                tell(&mut sched, us(step), job, what);
            }
        }
        assert_eq!(sent, [last], "{name}");
        assert!(others.iter().all(|&job| sched.whereabouts(job).is_none()), "{name}");
        tell(&mut sched, us(41), last, EventKind::Ended);
        assert!(sched.is_empty(), "{name}");
    });
}

#[test]
fn what_waits_for_something_is_woken_behind_the_others() {
    each(|mut sched, name| {
        let last = arrive(&mut sched, us(0));
        assert_eq!(poll(&mut sched, us(0)).0, [last], "{name}");
        tell(&mut sched, us(1), last, EventKind::Blocked);
        sched.handle_cancel(us(1), last, true);
        if sched.is_two_level() {
            tell(&mut sched, us(3), last, EventKind::Resumed);
            return tell(&mut sched, us(4), last, EventKind::Ended);
        }
        let other = arrive(&mut sched, us(2));
        assert_eq!(poll(&mut sched, us(2)).0, [other], "{name}");
        tell(&mut sched, us(3), last, EventKind::Woken);
        assert_eq!(poll(&mut sched, us(3)).0, [], "{name}");
        tell(&mut sched, us(4), other, EventKind::Ended);
        assert_eq!(poll(&mut sched, us(4)).0, [last], "{name}");
        tell(&mut sched, us(5), last, EventKind::Ended);
        assert!(sched.is_empty(), "{name}");
    });
}

#[test]
fn a_record_has_it_all() {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let to = bytes.clone();
    let drain = Box::new(move |mut chunk: Vec<u8>| {
        to.lock().unwrap().append(&mut chunk);
        Some(chunk)
    });
    let spec = Spec::preset("ps").unwrap();
    let mut sched = Scheduler::new(setup(spec), Some(Tap::new(drain)));
    let (first, second) = (arrive(&mut sched, us(0)), arrive(&mut sched, us(0)));
    poll(&mut sched, us(0));
    sched.handle_cancel(us(1), second, false);
    sched.handle_cancel(us(1), first, true);
    tell(&mut sched, us(2), first, EventKind::Ended);
    assert_eq!(poll(&mut sched, us(2)).1, [second]);
    drop(sched);
    let (bytes, mut reader, mut calls) = (bytes.lock().unwrap(), Reader::default(), Vec::new());
    let mut rest = &bytes[8..];
    while !rest.is_empty() {
        let (call, used) = reader.read(rest).unwrap();
        calls.push(call);
        rest = &rest[used..];
    }
    assert!(calls.contains(&Call::Cancel { now: us(1), job: second, begun: false }));
    assert!(calls.contains(&Call::Cancel { now: us(1), job: first, begun: true }));
    let dropped = Call::Poll { now: us(2), action: Some(Action::Drop { job: second }) };
    assert!(calls.contains(&dropped), "{calls:?}");
}

//! What happens when: the times that a scheduler names, quanta that are watched, and what follows
//! from the order of what happens at one instant.

use curtail_policy::*;
use curtail_sched::*;

const W0: WorkerId = WorkerId(0);

fn scheduler(policy: &str, workers: usize) -> Scheduler<()> {
    let spec = Spec::preset(policy).unwrap();
    Scheduler::new(Setup { spec, workers, jobs: 16, seed: 1, pins: true, keeps_room: false }, None)
}

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

fn arrive(sched: &mut Scheduler<()>, now: Nanos) -> JobId {
    sched.handle_arrival(now, Arrival { class: ClassId(0), at: now, hint: None }, |_| ()).unwrap()
}

fn tell(sched: &mut Scheduler<()>, now: Nanos, job: JobId, what: EventKind) {
    sched.handle_event(now, W0, Event { job, attained: us(1), what });
}

/// The next action, which sends a job to the first worker.
fn sent(sched: &mut Scheduler<()>, now: Nanos) -> Option<JobId> {
    sched.poll_action(now).map(|action| match action {
        Action::Run { job, on: W0, .. } => job,
        other => panic!("{other:?}"),
    })
}

#[test]
fn who_gave_way_looks_again_after_a_pause_when_nobody_waits() {
    for policy in ["ps", "tq", "srpt"] {
        let mut sched = scheduler(policy, 1);
        let job = arrive(&mut sched, us(0));
        assert_eq!(sent(&mut sched, us(0)), Some(job));
        assert_eq!(sched.poll_timeout(), None);
        tell(&mut sched, us(2), job, EventKind::Yielded);
        assert_eq!(sched.poll_timeout(), Some(us(2) + PAUSE), "{policy}");
        assert_eq!(sent(&mut sched, us(6)), None);
        assert_eq!(sched.whereabouts(job), Some(Where::Blocked(W0)));
        assert_eq!(sent(&mut sched, us(7)), Some(job), "{policy}");
        assert_eq!(sched.poll_timeout(), None);
        tell(&mut sched, us(8), job, EventKind::Ended);
        assert!(sched.is_empty());
    }
}

/// A policy that ranks jobs would give it its place back each time. Another has it first.
#[test]
fn who_gave_way_waits_until_another_has_had_its_place() {
    let mut sched = scheduler("fcfs", 1);
    let (first, second, third) =
        (arrive(&mut sched, us(0)), arrive(&mut sched, us(0)), arrive(&mut sched, us(0)));
    assert_eq!(sent(&mut sched, us(0)), Some(first));
    tell(&mut sched, us(1), first, EventKind::Yielded);
    assert_eq!(sent(&mut sched, us(1)), Some(second));
    assert_eq!(sched.poll_timeout(), Some(us(1) + PATIENCE), "the third waits");
    assert_eq!(sent(&mut sched, us(100)), None);
    tell(&mut sched, us(101), second, EventKind::Ended);
    assert_eq!(sched.poll_timeout(), Some(us(1) + PAUSE), "another had its place");
    assert_eq!(sent(&mut sched, us(101)), Some(third), "it came before");
    tell(&mut sched, us(102), third, EventKind::Ended);
    assert_eq!(sent(&mut sched, us(102)), Some(first));
}

#[test]
fn patience_ends() {
    let mut sched = scheduler("jbsq", 1);
    let jobs: Vec<JobId> = (0..4).map(|_| arrive(&mut sched, us(0))).collect();
    assert_eq!([sent(&mut sched, us(0)), sent(&mut sched, us(0))], [Some(jobs[0]), Some(jobs[1])]);
    tell(&mut sched, us(1), jobs[0], EventKind::Yielded);
    assert_eq!(sent(&mut sched, us(1)), Some(jobs[2]));
    let end = sched.poll_timeout().unwrap();
    assert_eq!(end, us(1) + PATIENCE);
    assert_eq!(sent(&mut sched, end), None, "the inbox is full");
    assert_eq!(sched.whereabouts(jobs[0]), Some(Where::Waiting));
}

#[test]
fn a_watched_quantum_is_looked_at_when_it_is_over() {
    let mut watch = Watch::new(1, Some(us(5)));
    assert!(watch.is_due(us(10), W0), "nothing is known yet");
    assert!(!watch.look(us(10), W0, Some(us(8))));
    assert!(!watch.is_due(us(12), W0) && watch.is_due(us(13), W0));
    assert!(watch.look(us(13), W0, Some(us(8))));
    assert!(!watch.look(us(18), W0, Some(us(15))), "another quantum");
    assert!(!watch.is_due(us(19), W0) && watch.look(us(20), W0, Some(us(15))));
    assert!(!watch.look(us(25), W0, None), "nothing runs");
    assert!(!watch.is_due(us(25), W0) && watch.is_due(us(26), W0), "it may begin by itself");
    watch.set_quantum(None);
    assert!(!watch.look(us(30), W0, Some(us(1))), "to completion");
}

/// `auto` gives each job a quantum of its own: it is that one which is watched.
#[test]
fn a_quantum_of_its_own_is_watched() {
    let mut watch = Watch::new(1, Some(us(5)));
    watch.sent(us(0), W0, Some(us(2)));
    assert!(!watch.look(us(0), W0, Some(us(1))));
    assert!(!watch.is_due(us(2), W0) && watch.is_due(us(3), W0));
    assert!(watch.look(us(3), W0, Some(us(1))));
}

#[test]
fn nothing_waits_nothing_yields() {
    let mut sched = scheduler("shinjuku", 1);
    let (first, second) = (arrive(&mut sched, us(10)), arrive(&mut sched, us(10)));
    assert_eq!(sent(&mut sched, us(10)), Some(first));
    assert_eq!(sched.quantum_over(us(16), W0), Expiry::Yield);
    tell(&mut sched, us(17), first, EventKind::Preempted);
    assert_eq!(sent(&mut sched, us(17)), Some(second));
    tell(&mut sched, us(23), second, EventKind::Ended);
    assert_eq!(sent(&mut sched, us(23)), Some(first));
    assert_eq!(sched.quantum_over(us(28), W0), Expiry::Continue, "no job waits");
}

#[test]
fn a_place_is_contended_where_somebody_waits_who_wants_it() {
    for (policy, short_waits, long_waits) in [("ps", true, true), ("srpt", true, false)] {
        let mut sched = scheduler(policy, 1);
        let arrive = |sched: &mut Scheduler<()>, hint| {
            let arrival = Arrival { class: ClassId(0), at: us(0), hint: Some(us(hint)) };
            sched.handle_arrival(us(0), arrival, |_| ()).unwrap()
        };
        let first = arrive(&mut sched, 50);
        assert_eq!(sent(&mut sched, us(0)), Some(first));
        assert!(!sched.contended(us(1), W0), "no job waits");
        let _ = arrive(&mut sched, 80);
        assert_eq!(sched.contended(us(1), W0), long_waits, "{policy}");
        let _ = arrive(&mut sched, 10);
        assert_eq!(sched.contended(us(1), W0), short_waits, "{policy}");
    }
}

/// While a job runs on a work-conserving dispatcher, nothing is decided; and there it stays.
#[test]
fn the_dispatcher_runs_one_job_at_a_time_and_keeps_it() {
    let spec = Spec::preset("concord").unwrap();
    let setup = Setup { spec, workers: 1, jobs: 16, seed: 1, pins: false, keeps_room: false };
    let mut sched = Scheduler::new(setup, None);
    let jobs: Vec<JobId> = (0..5).map(|_| arrive(&mut sched, us(0))).collect();
    let on = WorkerId::DISPATCHER;
    assert_eq!([sent(&mut sched, us(0)), sent(&mut sched, us(0))], [Some(jobs[0]), Some(jobs[1])]);
    let here = |action| {
        matches!(action, Some(Action::Run { job, on, quantum: Some(_) })
        if on == WorkerId::DISPATCHER && job == jobs[2])
    };
    assert!(here(sched.poll_action(us(0))));
    tell(&mut sched, us(1), jobs[0], EventKind::Ended);
    assert_eq!(sched.poll_action(us(1)), None, "it is busy");
    assert_eq!(sched.quantum_over(us(5), on), Expiry::Yield);
    sched.handle_event(
        us(5),
        on,
        Event { job: jobs[2], attained: us(5), what: EventKind::Preempted },
    );
    assert_eq!(sent(&mut sched, us(5)), Some(jobs[3]));
    assert!(here(sched.poll_action(us(5))), "others may be migrated, this one not");
}

#[test]
#[should_panic(expected = "job 0 is waiting; what was told is about one that is on worker 0")]
fn an_event_that_does_not_fit_is_refused() {
    let mut sched = scheduler("fcfs", 1);
    let job = arrive(&mut sched, us(0));
    tell(&mut sched, us(0), job, EventKind::Ended);
}

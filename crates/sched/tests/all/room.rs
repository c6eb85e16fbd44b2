//! Who is let in: each class has slots for itself, and of each so many wait as its plan says.

use curtail_policy::*;
use curtail_sched::*;

const W0: WorkerId = WorkerId(0);
const SHORT: ClassId = ClassId(0);
const LONG: ClassId = ClassId(1);

/// Of two classes, on one worker.
fn setup(policy: &str, jobs: usize) -> Setup {
    let mut spec = Spec::preset(policy).unwrap();
    spec.classes = vec![ClassPlan::default(); 2];
    Setup { spec, workers: 1, jobs, seed: 1, pins: true, keeps_room: true }
}

/// A scheduler, and what it has sent away.
struct Desk {
    sched: Scheduler<()>,
    now: Nanos,
    on: Vec<(JobId, WorkerId)>,
}

impl Desk {
    fn new(setup: Setup) -> Self {
        Self { sched: Scheduler::new(setup, None), now: Nanos(1_000), on: Vec::new() }
    }

    fn settle(&mut self) {
        while let Some(action) = self.sched.poll_action(self.now) {
            match action {
                Action::Run { job, on, .. } => self.on.push((job, on)),
                Action::Preempt { .. } | Action::Drop { .. } => {}
            }
            if self.on.last().is_some_and(|&(_, on)| on == WorkerId::DISPATCHER) {
                break;
            }
        }
    }

    fn arrive(&mut self, class: ClassId) -> bool {
        self.now += Nanos(10);
        let arrival = Arrival { class, at: self.now, hint: None };
        let admitted = self.sched.handle_arrival(self.now, arrival, |_| ()).is_ok();
        self.settle();
        admitted
    }

    /// How many of so many are let in.
    fn flood(&mut self, class: ClassId, requests: usize) -> usize {
        (0..requests).filter(|_| self.arrive(class)).count()
    }

    /// The job that was sent away first has news.
    fn tell(&mut self, what: EventKind) {
        let (job, on) = self.on.remove(0);
        self.now += Nanos(100);
        let attained = Nanos(self.sched.get(job).0.attained.0 + 100);
        self.sched.handle_event(self.now, on, Event { job, attained, what });
        self.settle();
    }

    fn drain(&mut self) {
        while !self.on.is_empty() {
            self.tell(EventKind::Ended);
        }
        assert!(self.sched.is_empty(), "{} are left", self.sched.len());
    }
}

#[test]
fn a_flood_of_long_requests_refuses_long_ones_only() {
    for entry in dispatched() {
        let mut desk = Desk::new(setup(entry.name, 40));
        // Twice: whatever left has given its room back.
        for _ in 0..2 {
            assert_eq!(desk.flood(LONG, 100), 30, "{}", entry.name);
            assert!(desk.sched.is_short() && !desk.sched.is_full());
            assert_eq!(desk.flood(ClassId::UNKNOWN, 5), 0, "{}", entry.name);
            assert_eq!(desk.flood(SHORT, 100), 10, "{}", entry.name);
            assert!(desk.sched.is_full());
            desk.drain();
        }
    }
}

#[test]
fn bounds_hold_under_every_policy() {
    for entry in dispatched() {
        let mut setup = setup(entry.name, 64);
        setup.spec.plan_mut(1).bound = Some(4);
        setup.spec.work_conserving = false;
        let two_level = setup.spec.is_two_level();
        let inbox = if two_level { 0 } else { usize::from(setup.spec.jbsq) };
        let mut desk = Desk::new(setup);
        assert_eq!(desk.flood(LONG, 20), 4 + inbox, "{}", entry.name);
        assert_eq!(desk.flood(SHORT, 20), 20, "{}", entry.name);
        assert!(!desk.arrive(LONG), "{}", entry.name);
        desk.drain();
        assert_eq!(desk.flood(LONG, 20), 4 + inbox, "{}", entry.name);
    }
}

/// Long requests that were all cut once still fill their queue.
#[test]
fn what_was_preempted_counts_as_waiting() {
    for policy in ["darc-ps", "ps", "shinjuku", "srpt", "shinjuku-mq", "auto"] {
        let mut setup = setup(policy, 64);
        setup.spec.plan_mut(1).bound = Some(3);
        let mut desk = Desk::new(setup);
        assert_eq!(desk.flood(LONG, 10), 4, "{policy}");
        for _ in 0..8 {
            desk.tell(EventKind::Preempted);
            assert_eq!(desk.sched.waiting(), 3);
            assert!(!desk.arrive(LONG), "{policy}");
        }
        desk.tell(EventKind::Ended);
        assert!(desk.arrive(LONG) && !desk.arrive(LONG), "{policy}");
        desk.drain();
    }
}

#[test]
fn cancelled_and_blocked_requests_give_their_room_back() {
    for policy in ["fcfs", "ps", "darc", "srpt"] {
        let mut setup = setup(policy, 40);
        setup.spec.plan_mut(1).bound = Some(5);
        let mut desk = Desk::new(setup);
        assert_eq!(desk.flood(LONG, 10), 6, "{policy}");
        let waiting: Vec<JobId> = desk.sched.jobs().map(|(job, _)| job.id).collect();
        let runs = desk.on[0].0;
        for &job in waiting.iter().filter(|job| **job != runs).take(2) {
            desk.sched.handle_cancel(desk.now, job, false);
        }
        // It blocks, and what waits first is placed; those that were cancelled leave.
        desk.tell(EventKind::Blocked);
        let event = Event { job: runs, attained: Nanos(100), what: EventKind::Woken };
        desk.sched.handle_event(desk.now, W0, event);
        desk.settle();
        desk.drain();
        assert_eq!(desk.flood(LONG, 10), 6, "{policy}");
        desk.drain();
        assert_eq!(desk.flood(SHORT, 100), 30, "{policy}");
    }
}

#[test]
fn a_switch_takes_the_room_along() {
    let mut desk = Desk::new(setup("fcfs", 40));
    assert_eq!(desk.flood(LONG, 12), 12);
    for policy in ["tq", "darc-ps", "srpt", "fcfs"] {
        let spec = Box::new(setup(policy, 40).spec);
        desk.sched.handle_command(desk.now, Command::Policy { spec, pins: true });
        desk.settle();
    }
    assert_eq!(desk.flood(LONG, 100), 18);
    assert_eq!(desk.flood(SHORT, 100), 10);
    // A policy that knows another number of classes divides the room anew.
    let mut spec = setup("fcfs", 40).spec;
    spec.classes = vec![ClassPlan::default(); 10];
    let spec = Box::new(spec);
    desk.sched.handle_command(desk.now, Command::Policy { spec, pins: true });
    assert_eq!(desk.flood(ClassId(7), 1), 0, "there is no slot");
    desk.drain();
    assert_eq!(desk.flood(LONG, 100), 22);
    assert_eq!((2..10).map(|class| desk.flood(ClassId(class), 9)).sum::<usize>(), 16);
}

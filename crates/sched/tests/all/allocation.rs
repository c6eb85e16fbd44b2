//! A scheduler allocates nothing once it is made: neither for jobs that come and go nor for those that
//! block and give way.

use curtail_policy::*;
use curtail_sched::*;

const JOBS: usize = 96;
const WORKERS: usize = 4;

struct Driver {
    sched: Scheduler<[u64; 3]>,
    /// By worker, the dispatcher last.
    running: [Option<JobId>; WORKERS + 1],
    blocked: [Option<WorkerId>; JOBS],
    ended: u64,
}

impl Driver {
    fn tell(&mut self, now: Nanos, on: WorkerId, job: JobId, what: EventKind) {
        self.ended += u64::from(what == EventKind::Ended);
        self.sched.handle_event(now, on, Event { job, attained: now, what });
    }

    fn round(&mut self, round: u64) {
        let now = Nanos(round * 2_000);
        while !self.sched.is_full() {
            let class = ClassId((round % 3) as u16);
            let arrival = Arrival { class, at: now, hint: Some(Nanos(round % 7 * 500)) };
            if self.sched.handle_arrival(now, arrival, |id| [u64::from(id.0); 3]).is_err() {
                break;
            }
        }
        for id in (0..JOBS).filter(|_| round.is_multiple_of(3)) {
            if let Some(on) = self.blocked[id].take() {
                self.tell(now, on, JobId(id as u32), EventKind::Woken);
            }
        }
        while let Some(action) = self.sched.poll_action(now) {
            let Action::Run { job, on, .. } = action else { continue };
            let at = if on == WorkerId::DISPATCHER { WORKERS } else { on.index() };
            // A worker does the latest that it got; what it did before has ended.
            if let Some(before) = self.running[at].replace(job) {
                self.tell(now, on, before, EventKind::Ended);
            }
        }
        for at in 0..=WORKERS {
            let Some(job) = self.running[at].take() else { continue };
            let on = if at == WORKERS { WorkerId::DISPATCHER } else { WorkerId(at as u16) };
            let draw = (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) + u64::from(job.0);
            let what = match draw % 8 {
                0..4 => EventKind::Ended,
                4 => EventKind::Blocked,
                5 => EventKind::Yielded,
                _ if self.sched.is_two_level() && at < WORKERS => EventKind::Ended,
                _ => EventKind::Preempted,
            };
            if what == EventKind::Blocked {
                self.blocked[job.0 as usize] = Some(on);
            }
            self.tell(now, on, job, what);
        }
    }
}

#[test]
fn none_after_making() {
    for entry in dispatched() {
        let spec = Spec::preset(entry.name).unwrap();
        let setup =
            Setup { spec, workers: WORKERS, jobs: JOBS, seed: 1, pins: true, keeps_room: false };
        if setup.spec.validate(WORKERS).is_err() {
            continue;
        }
        let sched = Scheduler::new(setup, None);
        let (running, blocked) = ([None; WORKERS + 1], [None; JOBS]);
        let mut driver = Driver { sched, running, blocked, ended: 0 };
        let counted = allocation_counter::measure(|| (0..3_000).for_each(|it| driver.round(it)));
        assert_eq!(counted.count_total, 0, "{}", entry.name);
        assert!(driver.ended > 3_000, "{}: {}", entry.name, driver.ended);
    }
}

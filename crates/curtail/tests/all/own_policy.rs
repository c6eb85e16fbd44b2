//! A policy of the program's own serves, is switched to and away from, and is asked at the times that
//! it names.

use crate::common;

use common::{Verbs, preset, serve};
use curtail::policy::{Decision, Job, JobId, Nanos, Policy, Refused, Size, Spec, WorkerId};
use curtail_sim::{ReplayError, replay};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// First come, first served, one job a worker; nothing starts before it has been there for a while.
struct Patient {
    pause: Nanos,
    waiting: VecDeque<(Nanos, Job)>,
    free: Vec<bool>,
    placed: Arc<AtomicU64>,
}

impl Patient {
    fn push(&mut self, from: Nanos, job: Job) {
        self.waiting.push_back((from, job));
    }

    fn set_free(&mut self, on: WorkerId, free: bool) {
        if on != WorkerId::DISPATCHER {
            self.free[on.index()] = free;
        }
    }
}

impl Policy for Patient {
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused> {
        self.push(now + self.pause, job);
        Ok(())
    }

    fn yielded(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.push(now, job);
        self.set_free(on, true);
    }

    fn completed(&mut self, _now: Nanos, on: WorkerId, _job: JobId, _attained: Nanos) {
        self.set_free(on, true);
    }

    fn blocked(&mut self, _now: Nanos, on: WorkerId, _job: JobId) {
        self.set_free(on, true);
    }

    fn woken(&mut self, now: Nanos, _on: WorkerId, job: Job) {
        self.push(now, job);
    }

    fn resumed(&mut self, _now: Nanos, on: WorkerId, _job: JobId) {
        self.set_free(on, false);
    }

    fn decide(&mut self, now: Nanos) -> Decision {
        let place = |job: &Job| match job.pinned {
            Some(WorkerId::DISPATCHER) => Some(WorkerId::DISPATCHER),
            Some(on) => self.free[on.index()].then_some(on),
            None => self.free.iter().position(|free| *free).map(|it| WorkerId(it as u16)),
        };
        let due = self.waiting.iter().enumerate().filter(|(_, (from, _))| *from <= now);
        let Some((at, on)) = due.filter_map(|(at, (_, job))| Some((at, place(job)?))).next() else {
            return Decision::Idle;
        };
        let (_, job) = self.waiting.remove(at).unwrap();
        self.set_free(on, false);
        self.placed.fetch_add(1, Ordering::Relaxed);
        let quantum = (on == WorkerId::DISPATCHER).then_some(Nanos(2_000));
        Decision::Run { job, on, quantum }
    }

    fn wants_place(&self, _now: Nanos, _on: WorkerId) -> bool {
        false
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.waiting.iter().map(|(from, _)| *from).min()
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn evict(&mut self) -> Option<Job> {
        self.waiting.pop_front().map(|(_, job)| job)
    }

    fn adopt(&mut self, _now: Nanos, on: WorkerId, _job: Job) {
        self.set_free(on, false);
    }
}

fn patient(pause: Nanos, placed: &Arc<AtomicU64>) -> Spec {
    let placed = placed.clone();
    Spec::own("patient", move |_, Size { workers, jobs, .. }| {
        let (waiting, free) = (VecDeque::with_capacity(jobs), vec![true; workers]);
        Box::new(Patient { pause, waiting, free, placed: placed.clone() })
    })
}

#[test]
fn it_serves_and_is_asked_when_it_wants_to_be() {
    let placed = Arc::new(AtomicU64::new(0));
    let pause = Nanos::from_micros(3_000);
    let spec = patient(pause, &placed);
    let (_, report) = serve(
        Verbs,
        |server| server.policy(spec).workers(2),
        |client, handle| {
            for i in 0..5 {
                let answer = client.submit(format!("echo {i}").into_bytes()).unwrap();
                assert_eq!(answer.wait().unwrap(), i.to_string().into_bytes());
            }
            assert_eq!(common::look(handle).policy, "patient");
        },
    );
    assert_eq!(placed.load(Ordering::Relaxed), 5);
    let waits = &report.classes[0].queueing_ns;
    assert_eq!(waits.len(), 5);
    assert!(waits.min() >= pause.0 * 99 / 100, "{} ns", waits.min());
}

#[test]
fn it_is_switched_to_and_away_from_and_its_record_says_so() {
    let placed = Arc::new(AtomicU64::new(0));
    let spec = patient(Nanos::ZERO, &placed);
    let path = std::env::temp_dir().join(format!("curtail-own-{}", std::process::id()));
    let file = path.clone();
    serve(
        Verbs,
        |server| server.policy(preset("ps")).workers(2).record(file),
        move |client, handle| {
            for next in [spec.clone(), preset("tq"), spec.clone(), preset("concord"), spec] {
                let pending: Vec<_> =
                    (0..40).map(|_| client.submit(b"spin 20000".to_vec()).unwrap()).collect();
                handle.switch(next).unwrap();
                pending.into_iter().for_each(|answer| drop(answer.wait().unwrap()));
            }
        },
    );
    assert!(placed.load(Ordering::Relaxed) > 0);
    let error = replay(File::open(&path).unwrap()).unwrap_err();
    assert!(matches!(error, ReplayError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("`patient` is a policy of the program's own"), "{error}");
    std::fs::remove_file(path).unwrap();
}

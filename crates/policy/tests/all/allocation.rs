//! No policy allocates once it is built: neither on its first event nor when it is full.

use curtail_policy::*;

const JOBS: usize = 96;
const WORKERS: usize = 4;

/// What a job does next, when it has been on a worker.
fn outcome(draw: u32) -> u32 {
    (draw.wrapping_mul(0x9e37_79b9) >> 16) % 8
}

/// Fills the policy with jobs and lets them run, yield, block, wake and complete in turn; returns
/// how many completed.
fn play(policy: &mut AnyPolicy, cores: &mut [AnyCore], two_level: bool, rounds: u32) -> u32 {
    let mut blocked = [None::<(WorkerId, Job)>; JOBS];
    let mut free = [true; JOBS];
    let mut completed = 0;
    for round in 0..rounds {
        let now = Nanos(u64::from(round));
        for (id, free) in free.iter_mut().enumerate().filter(|(_, free)| **free) {
            let class = ClassId([0, 1, 2, u16::MAX][(round as usize + id) % 4]);
            let hint = id.is_multiple_of(3).then_some(Nanos(700 * (id as u64 % 5)));
            let job = Job { hint, ..Job::new(JobId(id as u32), class, now) };
            *free = policy.arrive(now, job).is_err();
        }
        for (on, job) in blocked.iter_mut().filter_map(|slot| slot.take_if(|_| round % 3 == 0)) {
            policy.woken(now, on, job);
            if two_level && on != WorkerId::DISPATCHER {
                cores[on.index()].ready(now, job);
            }
        }
        let mut here = None;
        loop {
            match policy.decide(now) {
                Decision::Idle => break,
                // The job that runs there stops in this round anyway.
                Decision::Preempt { .. } => {}
                Decision::Run { job, on: WorkerId::DISPATCHER, .. } => {
                    here = Some(job);
                    break;
                }
                Decision::Run { job, on, .. } => cores[on.index()].ready(now, job),
            }
        }
        let on_workers = cores.iter_mut().map(|core| core.pick(now).map(|(job, _)| job));
        let running: [Option<Job>; WORKERS] = {
            let mut running = [None; WORKERS];
            running.iter_mut().zip(on_workers).for_each(|(slot, job)| *slot = job);
            running
        };
        let places = (0..WORKERS).map(|worker| WorkerId(worker as u16));
        let places = places.chain([WorkerId::DISPATCHER]).zip(running.into_iter().chain([here]));
        for (on, job) in places.filter_map(|(on, job)| Some((on, job?))) {
            let attained = job.attained + Nanos(1_000);
            let job = Job { attained, pinned: Some(on), ..job };
            match outcome(round * 131 + job.id.0) {
                0..3 => {
                    policy.completed(now, on, job.id, attained);
                    free[job.id.0 as usize] = true;
                    completed += 1;
                }
                3 => {
                    policy.blocked(now, on, job.id);
                    blocked[job.id.0 as usize] = Some((on, job));
                }
                _ if two_level && on != WorkerId::DISPATCHER => {
                    policy.serviced(on, u64::from(round));
                    cores[on.index()].ready(now, job);
                }
                _ => policy.yielded(now, on, job),
            }
        }
    }
    completed
}

#[test]
fn none_after_building() {
    let tq = Spec::preset("tq").expect("it is in the catalogue");
    let variants = Ties::ALL.iter().flat_map(|&ties| CoreKind::ALL.iter().map(move |&c| (ties, c)));
    let variants = variants.map(|(ties, core)| {
        tq.clone().with_ties(ties).and_then(|tq| tq.with_core(core)).expect("tq has them all")
    });
    let presets = dispatched().map(|entry| Spec::preset(entry.name).expect("it exists"));
    let planned = dispatched().map(|entry| {
        let mut spec = Spec::preset(entry.name).expect("it exists");
        spec.plan_mut(2).weight = 2;
        spec.clone().with_preemptive(true).unwrap_or(spec)
    });
    for spec in presets.chain(variants).chain(planned) {
        let mut policy = spec.build(WORKERS, JOBS, 3);
        let mut cores: Vec<AnyCore> = (0..WORKERS).map(|_| spec.build_core(JOBS)).collect();
        let mut completed = 0;
        let counted = allocation_counter::measure(|| {
            completed = play(&mut policy, &mut cores, spec.is_two_level(), 6_000);
        });
        assert_eq!(counted.count_total, 0, "{spec:?}");
        assert!(completed > 5_000, "{spec:?}: {completed} completed");
    }
}

/// DARC makes new reservations all the time when classes trade their service times and all requests
/// wait for too long.
#[test]
fn none_when_reservations_change() {
    for name in ["darc", "darc-static", "darc-ps"] {
        let mut spec = Spec::preset(name).expect("it is in the catalogue");
        (spec.darc.window, spec.darc.slowdown) = (16, 1);
        let mut policy = spec.build(WORKERS, JOBS, 3);
        let counted = allocation_counter::measure(|| {
            for round in 0..2_000_u64 {
                let now = Nanos(round * 1_000_000);
                for id in 0..16 {
                    let arrived = Nanos(now.0.saturating_sub(900_000));
                    let job = Job::new(JobId(id), ClassId((id % 7) as u16), arrived);
                    policy.arrive(now, job).expect("there is room");
                }
                while let Decision::Run { job, on, .. } = policy.decide(now) {
                    let class = (u64::from(job.class.0) + round / 8) % 7;
                    policy.completed(now, on, job.id, Nanos(100 << (2 * class)));
                }
            }
        });
        let AnyPolicy::Darc(darc) = &policy else { panic!("it is DARC") };
        assert!(darc.updates() > 100, "{name}: {} updates", darc.updates());
        assert_eq!(counted.count_total, 0, "{name}");
    }
}

#[test]
fn the_counter_counts() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}

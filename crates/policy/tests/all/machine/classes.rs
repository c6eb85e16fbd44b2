//! What the type-aware policies must answer: the order of waiting jobs under those that rank them,
//! the class that is next under those that have a queue for each.

use super::expect::{Answer, held};
use super::{At, Machine, Record};
use curtail_policy::*;
use std::ops::Range;

/// A class's mean, by its definition: that of at most 64 samples, then moving.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mean(f64, f64);

impl Mean {
    pub(crate) fn record(&mut self, sample: Nanos) {
        self.1 = (self.1 + 1.0).min(64.0);
        self.0 += (sample.0 as f64 - self.0) / self.1;
    }
}

/// What runs alone on a worker since it was placed there.
#[derive(Clone, Copy)]
pub(crate) struct Occupant {
    pub(crate) slot: usize,
    rank: u64,
    since: Nanos,
    attained: Nanos,
}

/// The number of a class, the unknown ones together as the last.
pub(crate) fn class(machine: &Machine, record: &Record) -> usize {
    usize::from(record.job.class.0).min(machine.spec.class_count())
}

pub(crate) fn is_ranked(spec: &Spec) -> bool {
    use Dispatch::{Edf, FixedPriority, Sjf, Srpt};
    matches!(spec.dispatch, FixedPriority | Sjf | Srpt | Edf)
}

/// What it must answer is in `darc_histories.rs`; here it takes part in switches, and may leave
/// places free.
pub(crate) fn is_darc(spec: &Spec) -> bool {
    matches!(spec.dispatch, Dispatch::Darc | Dispatch::DarcStatic)
}

/// Its order follows from what it measured; here it takes part in switches, and must not leave a
/// place free that a waiting job may have.
pub(crate) fn is_auto(spec: &Spec) -> bool {
    spec.dispatch == Dispatch::Auto
}

pub(crate) fn is_typed(spec: &Spec) -> bool {
    use Dispatch::{Cscq, Drr, MultiQueue, StaticPartition, Wrr};
    matches!(spec.dispatch, Wrr | Drr | MultiQueue | StaticPartition | Cscq)
}

fn service(machine: &Machine, class: usize) -> Option<Nanos> {
    let mean = machine.means[class];
    let measured = (mean.1 > 0.0).then_some(Nanos(mean.0 as u64));
    machine.spec.plan(class).service.or(measured)
}

fn deadline(machine: &Machine, class: usize) -> Nanos {
    let derived = service(machine, class).map(|mean| Nanos(10 * mean.0));
    machine.spec.plan(class).deadline.or(derived).unwrap_or(Nanos(0))
}

/// The rank of a job that is queued now; 0 under policies that do not rank.
pub(crate) fn rank(machine: &Machine, record: &Record) -> u64 {
    let class = class(machine, record);
    let job = &record.job;
    let known = class < machine.spec.class_count();
    let expected = match (job.hint, known) {
        (Some(hint), _) => hint.0,
        (None, true) => service(machine, class).unwrap_or(Nanos(0)).0,
        (None, false) => u64::MAX,
    };
    match machine.spec.dispatch {
        Dispatch::Sjf => expected,
        Dispatch::Srpt if expected == u64::MAX => u64::MAX,
        Dispatch::Srpt if expected > job.attained.0 => expected - job.attained.0,
        Dispatch::Srpt => job.attained.0,
        Dispatch::FixedPriority | Dispatch::Edf if !known => u64::MAX,
        Dispatch::FixedPriority => {
            machine.spec.plan(class).priority.map_or(class as u64, u64::from)
        }
        Dispatch::Edf => (job.arrived + deadline(machine, class)).0,
        _ => 0,
    }
}

pub(crate) fn occupant(machine: &Machine, slot: usize) -> Occupant {
    let record = &machine.jobs[slot];
    let attained = record.told;
    let told = Record { job: Job { attained, ..record.job }, ..*record };
    Occupant { slot, rank: rank(machine, &told), since: machine.now, attained }
}

/// What keeps the order of running jobs.
fn lasting(machine: &Machine, it: &Occupant) -> u64 {
    let srpt = machine.spec.dispatch == Dispatch::Srpt;
    if srpt { it.since.0.saturating_add(it.rank) } else { it.rank }
}

/// The rank now of a running job.
fn standing(machine: &Machine, it: &Occupant) -> u64 {
    match lasting(machine, it) {
        end if machine.spec.dispatch != Dispatch::Srpt || end == u64::MAX => end,
        end if end > machine.now.0 => end - machine.now.0,
        _ => it.attained.0 + (machine.now.0 - it.since.0),
    }
}

/// The least rank of those that wait and may run on `worker`.
fn waiting_rank(machine: &Machine, worker: usize, pinned: bool) -> Option<u64> {
    let on = Some(WorkerId(worker as u16));
    let waiting = machine.queue.iter().map(|&slot| &machine.jobs[slot]);
    let may = |record: &&Record| record.job.pinned.is_none() || pinned && record.job.pinned == on;
    waiting.filter(may).map(|record| record.rank).min()
}

/// Whether a job that ranks before it wants the place of what runs on `worker`.
pub(crate) fn outranked(machine: &Machine, worker: usize) -> bool {
    waiting_rank(machine, worker, true).is_some_and(|rank| {
        machine.occupants[worker].is_none_or(|it| standing(machine, &it) > rank)
    })
}

/// Asking for that place now makes sense.
pub(crate) fn may_preempt(machine: &Machine, worker: usize) -> bool {
    let spec = &machine.spec;
    if is_auto(spec) {
        let asks = spec.shares() && spec.jbsq == 1 && !machine.asked[worker];
        return asks && machine.running[worker].is_some() && !machine.queue.is_empty();
    }
    if is_darc(spec) {
        return spec.shares() && machine.running[worker].is_some();
    }
    is_ranked(spec)
        && spec.shares()
        && spec.jbsq == 1
        && machine.occupants[worker].is_some()
        && !machine.asked[worker]
        && outranked(machine, worker)
}

/// Nothing is left to ask: no job that waits ranks before the last in the order of those that run.
pub(crate) fn all_asked(machine: &Machine) -> bool {
    let spec = &machine.spec;
    if !is_ranked(spec) || !spec.shares() || spec.jbsq != 1 || machine.asked.contains(&true) {
        return true;
    }
    let occupants = machine.occupants.iter().enumerate();
    let running = occupants.filter_map(|(worker, it)| Some((worker, (*it)?)));
    let last = running.max_by_key(|(_, it)| (lasting(machine, it), machine.jobs[it.slot].ticket));
    last.is_none_or(|(worker, it)| {
        waiting_rank(machine, worker, false).is_none_or(|rank| standing(machine, &it) <= rank)
    })
}

/// How many workers each class gets: one each, then one at a time to the class with the most weight
/// for twice what it has and one more; with fewer workers than classes, neighbours share.
fn partition(machine: &Machine) -> Vec<Range<usize>> {
    let workers = machine.workers();
    let classes = machine.spec.classes.len();
    if classes == 0 {
        return vec![0..workers; machine.spec.class_count()];
    }
    if classes > workers {
        let group = |class: usize| class * workers / classes;
        return (0..classes).map(|class| group(class)..group(class) + 1).collect();
    }
    let mut sizes = vec![1; classes];
    for _ in classes..workers {
        let claim = |class: usize| {
            f64::from(machine.spec.plan(class).weight) / (2.0 * sizes[class] as f64 + 1.0)
        };
        let best = (0..classes).map(claim).fold(0.0, f64::max);
        let next = (0..classes).find(|&class| claim(class) == best).unwrap();
        sizes[next] += 1;
    }
    let ends = sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(*end - size..*end)
    });
    ends.collect()
}

/// The workers that jobs of the class may run on.
pub(crate) fn home(machine: &Machine, class: usize) -> Range<usize> {
    if machine.spec.dispatch != Dispatch::StaticPartition {
        return 0..machine.workers();
    }
    let groups = partition(machine);
    groups[class.min(groups.len() - 1)].clone()
}

/// The oldest job of the class that can be placed, where it is in the queue, and its worker.
fn head(machine: &Machine, wanted: usize) -> Option<(usize, usize, WorkerId)> {
    let bound = usize::from(machine.spec.jbsq);
    let has_place = |worker: usize| held(machine, worker) < bound;
    let pinned_to = |worker: usize| {
        let on = Some(WorkerId(worker as u16));
        machine.queue.iter().any(|&slot| machine.jobs[slot].job.pinned == on)
    };
    let home = home(machine, wanted);
    let shortest = home.min_by_key(|&w| (held(machine, w), pinned_to(w), w)).unwrap();
    machine.queue.iter().enumerate().find_map(|(at, &slot)| {
        let record = &machine.jobs[slot];
        let on = match record.job.pinned {
            _ if class(machine, record) != wanted => return None,
            None if has_place(shortest) => WorkerId(shortest as u16),
            Some(on) if on != WorkerId::DISPATCHER && has_place(on.index()) => on,
            _ => return None,
        };
        Some((at, slot, on))
    })
}

/// What a policy with a queue for each class may do; nothing: it must not place a job.
pub(crate) fn typed(machine: &Machine) -> Vec<Answer> {
    let known = machine.spec.class_count();
    let heads: Vec<_> = (0..=known).map(|class| head(machine, class)).collect();
    let run = |class: usize| {
        let (_, slot, on) = heads[class]?;
        Some(Answer::Run { slot, on: vec![on] })
    };
    let ready = (0..known).filter(|&class| heads[class].is_some());
    let chosen: Vec<usize> = match machine.spec.dispatch {
        Dispatch::StaticPartition => ready.min_by_key(|&class| heads[class]).into_iter().collect(),
        Dispatch::MultiQueue => {
            let ratio = |class: usize| {
                let arrived = machine.jobs[heads[class].unwrap().1].job.arrived;
                let aim = deadline(machine, class).0.max(1);
                // Small enough numbers to be compared exactly after the multiplication.
                (u128::from((machine.now - arrived).0 + 1) << 64) / u128::from(aim)
            };
            let best = ready.clone().map(ratio).max();
            let best = ready.clone().filter(|&class| Some(ratio(class)) == best);
            best.min_by_key(|&class| heads[class]).into_iter().collect()
        }
        Dispatch::Cscq => return cycle_stealing(machine, &heads, &run),
        _ => ready.collect(),
    };
    let chosen = if chosen.is_empty() { vec![known] } else { chosen };
    chosen.into_iter().filter_map(run).collect()
}

type Head = Option<(usize, usize, WorkerId)>;

fn cycle_stealing(
    machine: &Machine,
    heads: &[Head],
    run: &dyn Fn(usize) -> Option<Answer>,
) -> Vec<Answer> {
    let known = machine.spec.class_count();
    let groups = partition(machine);
    let alike = machine.spec.classes.is_empty();
    let owns = |class: usize| alike || class == 0 || groups[class - 1] != groups[class];
    let k = usize::from(machine.spec.jbsq);
    let share = |class: usize| if owns(class) { groups[class].len() * k } else { 0 };
    let holds = |wanted: usize| {
        let on_worker =
            |at| matches!(at, At::Ready(on) | At::Running(on) if on != WorkerId::DISPATCHER);
        machine.jobs.iter().filter(|r| on_worker(r.at) && class(machine, r) == wanted).count()
    };
    let mut order: Vec<usize> = (0..known).collect();
    order.sort_by_key(|&class| (service(machine, class), class));
    // From that place on, all together hold less than they may.
    let fits = |at: usize| {
        let shares: usize = order[at..].iter().map(|&class| share(class)).sum();
        let held: usize = order[at..].iter().map(|&class| holds(class)).sum();
        at == 0 || held + holds(known) < shares.max(1)
    };
    let may = |at: usize| (0..=at).all(fits);
    let able = |at: &usize| may(*at) && heads[order[*at]].is_some();
    let able: Vec<usize> = (0..known).filter(able).map(|at| order[at]).collect();
    let own = able.iter().copied().filter(|&class| holds(class) < share(class));
    let chosen = own.min_by_key(|&class| heads[class]).or(able.first().copied());
    let unknown = may(known - 1).then_some(known);
    chosen.or(unknown).and_then(run).into_iter().collect()
}

/// Any job that may run where a place is free; for thieves, and for those who save places.
pub(crate) fn anything(machine: &Machine) -> Vec<Answer> {
    let bound = usize::from(machine.spec.jbsq);
    let places: Vec<WorkerId> = (0..machine.workers())
        .filter(|&worker| held(machine, worker) < bound)
        .map(|worker| WorkerId(worker as u16))
        .collect();
    let mut answers = Vec::new();
    for &slot in &machine.queue {
        let on = match machine.jobs[slot].job.pinned {
            None => places.clone(),
            Some(on) => places.iter().copied().filter(|&place| place == on).collect(),
        };
        if !on.is_empty() {
            answers.push(Answer::Run { slot, on });
        }
    }
    // A worker that has something may leave others' queues alone.
    let pinned = |slot: &usize| machine.jobs[*slot].job.pinned;
    let idle = (0..machine.workers()).any(|worker| held(machine, worker) == 0);
    let loose = machine.queue.iter().any(|slot| pinned(slot).is_none());
    let own = machine.queue.iter().any(|slot| pinned(slot).is_some_and(|on| places.contains(&on)));
    let must = (idle && loose || own) && !is_darc(&machine.spec);
    if !must && !answers.is_empty() {
        answers.push(Answer::Idle);
    }
    answers
}

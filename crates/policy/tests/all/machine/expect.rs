//! What the policies must answer, from their definitions alone: scans over the machine's books, with
//! no state of their own.

use super::{At, Machine, classes};
use curtail_policy::*;

/// A decision that may be due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This job, to any of these.
    Run {
        slot: usize,
        on: Vec<WorkerId>,
    },
    Idle,
}

fn count(machine: &Machine, at: impl Fn(At) -> bool) -> usize {
    machine.jobs.iter().filter(|record| at(record.at)).count()
}

/// How many jobs a worker holds, blocked ones not counted.
pub(crate) fn held(machine: &Machine, worker: usize) -> usize {
    let on = WorkerId(worker as u16);
    count(machine, |at| at == At::Ready(on) || at == At::Running(on))
}

fn unfinished(machine: &Machine, worker: usize) -> usize {
    let on = WorkerId(worker as u16);
    held(machine, worker) + count(machine, |at| at == At::Blocked(on))
}

/// The quanta of a worker's unfinished jobs.
pub(crate) fn quanta(machine: &Machine, worker: usize) -> u64 {
    let on = WorkerId(worker as u16);
    let here = |at| [At::Ready(on), At::Running(on), At::Blocked(on)].contains(&at);
    machine.jobs.iter().filter(|record| here(record.at)).map(|record| record.quanta).sum()
}

/// How long a job may run there.
pub(crate) fn slice(machine: &Machine, on: WorkerId) -> Option<Nanos> {
    if on == WorkerId::DISPATCHER {
        return Some(machine.quantum.unwrap_or(Nanos::from_micros(5)));
    }
    machine.quantum.filter(|_| machine.spec.shares())
}

/// Whether the job that runs on `worker` must yield when its quantum ends.
pub(crate) fn wanted(machine: &Machine, worker: usize) -> bool {
    let on = WorkerId(worker as u16);
    let may_come = |slot: &usize| machine.jobs[*slot].job.pinned.is_none_or(|place| place == on);
    let at_home = |slot: &usize| {
        let record = &machine.jobs[*slot];
        let home = classes::home(machine, classes::class(machine, record));
        record.job.pinned.is_some() || home.contains(&worker)
    };
    let waits = if classes::is_ranked(&machine.spec) {
        classes::outranked(machine, worker)
    } else {
        // A two-level policy has not said yet where those go that have just arrived.
        let mut queue = machine.queue.iter();
        !machine.spec.is_two_level() && queue.any(|slot| may_come(slot) && at_home(slot))
    };
    let wanted = waits || held(machine, worker) > 1;
    machine.spec.shares() && wanted
}

/// Which of the ready jobs a worker runs next.
pub(crate) fn pick(machine: &Machine, worker: usize) -> Option<usize> {
    let ready = &machine.ready[worker];
    match machine.spec.core {
        CoreKind::Fcfs | CoreKind::Ps => ready.front().copied(),
        // `min_by_key` takes the first of equals: the one that was ready first.
        CoreKind::Las => ready.iter().copied().min_by_key(|&slot| machine.jobs[slot].job.attained),
    }
}

/// The decisions that are right now; others than [`Decision::Preempt`].
pub(crate) fn decisions(machine: &Machine) -> Vec<Answer> {
    if machine.spec.is_two_level() {
        return vec![two_level(machine)];
    }
    let placing = match machine.spec.dispatch {
        Dispatch::Steal | Dispatch::Darc | Dispatch::DarcStatic | Dispatch::Auto => {
            classes::anything(machine)
        }
        _ if classes::is_typed(&machine.spec) => classes::typed(machine),
        _ => return vec![central(machine)],
    };
    let parked = parked(machine);
    match placing.as_slice() {
        [] | [Answer::Idle] if !parked.is_empty() => parked,
        [] => vec![Answer::Idle],
        [.., Answer::Idle] => [placing, parked].concat(),
        _ => placing,
    }
}

/// What may go on on the dispatcher: the first that waits for that; any, where the order follows
/// from what the policy measured.
fn parked(machine: &Machine) -> Vec<Answer> {
    let parked = |slot: &&usize| machine.jobs[**slot].job.pinned == Some(WorkerId::DISPATCHER);
    let choice = if classes::is_auto(&machine.spec) { usize::MAX } else { 1 };
    machine.queue.iter().filter(parked).take(choice).map(|&slot| at_dispatcher(slot)).collect()
}

/// The first of those that are wanted, in the policy's order.
fn first(machine: &Machine, wanted: impl Fn(&super::Record) -> bool) -> Option<usize> {
    let wanted = |slot: &usize| wanted(&machine.jobs[*slot]);
    let waiting = machine.queue.iter().copied().filter(wanted);
    let key = |&slot: &usize| (machine.jobs[slot].rank, machine.jobs[slot].ticket);
    if classes::is_ranked(&machine.spec) { waiting.min_by_key(key) } else { { waiting }.next() }
}

fn at_dispatcher(slot: usize) -> Answer {
    Answer::Run { slot, on: vec![WorkerId::DISPATCHER] }
}

fn central(machine: &Machine) -> Answer {
    let bound = usize::from(machine.spec.jbsq);
    let has_place = |worker: usize| held(machine, worker) < bound;
    let some_place = (0..machine.workers()).any(has_place);
    let goes = first(machine, |record| match record.job.pinned {
        None => some_place,
        Some(WorkerId::DISPATCHER) => false,
        Some(on) => has_place(on.index()),
    });
    if let Some(slot) = goes {
        let pinned_to = |worker: usize| {
            let on = Some(WorkerId(worker as u16));
            first(machine, |record| record.job.pinned == on).is_some()
        };
        let shortest = (0..machine.workers())
            .min_by_key(|&worker| (held(machine, worker), pinned_to(worker), worker))
            .expect("there are workers");
        let on = machine.jobs[slot].job.pinned.unwrap_or(WorkerId(shortest as u16));
        return Answer::Run { slot, on: vec![on] };
    }
    let parked = first(machine, |record| record.job.pinned == Some(WorkerId::DISPATCHER));
    let steals = machine.spec.work_conserving && !some_place;
    let fresh = first(machine, |record| steals && !record.started && record.job.pinned.is_none());
    parked.or(fresh).map_or(Answer::Idle, at_dispatcher)
}

fn two_level(machine: &Machine) -> Answer {
    let Some(slot) = first(machine, |record| record.job.pinned != Some(WorkerId::DISPATCHER))
    else {
        return machine.queue.front().map_or(Answer::Idle, |&slot| at_dispatcher(slot));
    };
    let on = machine.jobs[slot].job.pinned.map_or_else(|| balanced(machine), |on| vec![on]);
    Answer::Run { slot, on }
}

/// The workers that a load balancer may choose.
fn balanced(machine: &Machine) -> Vec<WorkerId> {
    let workers: Vec<usize> = (0..machine.workers()).collect();
    let load = |worker: usize| unfinished(machine, worker);
    let least = workers.iter().map(|&w| load(w)).min().expect("there are workers");
    let shortest: Vec<usize> = workers.iter().copied().filter(|&w| load(w) == least).collect();
    let chosen = match (machine.spec.dispatch, machine.spec.ties) {
        (Dispatch::Jsq, Ties::Msq) => {
            let most = shortest.iter().map(|&w| quanta(machine, w)).max();
            let first = shortest.into_iter().find(|&w| Some(quanta(machine, w)) == most);
            first.into_iter().collect()
        }
        (Dispatch::Jsq, Ties::Random) => shortest,
        // Not one that is longer than every other.
        (Dispatch::Jsq, Ties::PowerOfTwo) => {
            let beats = |w: usize| workers.iter().any(|&v| v != w && load(w) <= load(v));
            workers.iter().copied().filter(|&w| workers.len() == 1 || beats(w)).collect()
        }
        (Dispatch::RoundRobin, _) => vec![machine.turns % workers.len()],
        _ => workers,
    };
    chosen.into_iter().map(|worker| WorkerId(worker as u16)).collect()
}

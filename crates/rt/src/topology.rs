//! Which cores there are, who gets which, and how an idle thread waits.

use crate::clock::Clock;
use crate::quota::{Quota, cpu_quota};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// How a thread without work waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// It spins so long before it sleeps.
    pub spin_cycles: u64,
    /// At the end it waits so long for threads that handlers have spawned.
    pub patience_cycles: u64,
    /// Others need its core: it lets them run in between.
    pub shares_core: bool,
}

/// The cores this process may use, in order.
#[must_use]
pub fn allowed_cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Where threads are to run that were given no cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// As many as may be busy all the time.
    pub cores: Vec<usize>,
    /// There is a quota below the cores that are allowed: then which cores they are is the kernel's
    /// choice, as others have the same quota on the same cores, and what spins takes time from what
    /// works.
    pub quota: Option<Quota>,
}

impl Usable {
    /// By affinity and by quota.
    pub fn now() -> Self {
        Self::of(allowed_cores(), cpu_quota())
    }

    fn of(mut cores: Vec<usize>, quota: Option<Quota>) -> Self {
        let quota = quota.filter(|quota| quota.threads() < cores.len());
        cores.truncate(quota.map_or(usize::MAX, Quota::threads));
        Self { cores, quota }
    }
}

/// What is wrong with a list of cores to run on, in a sentence.
pub fn check_cores(cores: &[usize]) -> Result<(), String> {
    let allowed = allowed_cores();
    for (index, core) in cores.iter().enumerate() {
        if !allowed.contains(core) {
            return Err(format!("the process may not use core {core}"));
        }
        if cores[..index].contains(core) {
            return Err(format!("core {core} is named twice"));
        }
    }
    Ok(())
}

/// The cores of the first thread that was pinned, before it was.
static BEFORE: OnceLock<Option<CpuSet>> = OnceLock::new();

/// Lets the calling thread run wherever the process could before threads were pinned: it may have
/// been made by one that is.
pub(crate) fn unpin() {
    if let Some(Some(set)) = BEFORE.get() {
        // It runs anyway, on fewer cores.
        let _ = sched_setaffinity(None, set);
    }
}

/// Pins the calling thread. Failure is told, not fatal: it runs anyway, less evenly.
pub fn pin(core: usize) -> Result<(), String> {
    BEFORE.get_or_init(|| sched_getaffinity(None).ok());
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| format!("cannot pin to core {core}: {error}"))
}

/// Which thread runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Each dispatcher's core; none: wherever the kernel puts them.
    pub dispatchers: Vec<usize>,
    /// Each worker's core.
    pub workers: Vec<usize>,
    /// Every dispatcher and worker has a core to itself.
    pub dedicated: bool,
    /// Nothing is pinned, and nothing polls or spins for long: there is a quota.
    pub floats: bool,
    /// What the user should know.
    pub note: Option<String>,
}

impl Layout {
    /// `cores`: the ones to use, first the dispatchers'. With too few of them workers share, and
    /// the dispatchers float.
    pub fn plan(cores: &[usize], workers: usize, dispatchers: usize) -> Self {
        let dedicated = cores.len() >= workers + dispatchers;
        if dedicated {
            let (own, others) = cores.split_at(dispatchers);
            let workers = others[..workers].to_vec();
            let dispatchers = own.to_vec();
            return Self { dispatchers, workers, dedicated, floats: false, note: None };
        }
        let who = match dispatchers {
            1 => "a dispatcher".to_owned(),
            n => format!("{n} dispatchers"),
        };
        Self {
            dispatchers: Vec::new(),
            workers: (1..=workers).map(|index| cores[index % cores.len()]).collect(),
            dedicated,
            floats: false,
            note: Some(format!(
                "{workers} workers and {who} share {} core{}: expect latencies of the kernel's \
                 scheduler, not of Curtail's",
                cores.len(),
                if cores.len() == 1 { "" } else { "s" }
            )),
        }
    }

    /// Of elastic workers: they get their cores from a core allocator.
    pub fn elastic(cores: &[usize], workers: usize) -> Self {
        let spread = (0..workers).map(|index| cores[index % cores.len()]).collect();
        Self {
            dispatchers: Vec::new(),
            workers: spread,
            dedicated: false,
            floats: false,
            note: None,
        }
    }

    /// The placement under a quota.
    pub fn under(mut self, quota: Option<Quota>) -> Self {
        let Some(quota) = quota else { return self };
        self.dispatchers.clear();
        self.floats = true;
        let said = format!(
            "the control group has a quota of {} cores, for which threads are planned: they are \
             not pinned, and sleep soon when there is no work",
            (quota.cores() * 100.0).round() / 100.0
        );
        self.note = Some(self.note.map_or(said.clone(), |note| format!("{said}; {note}")));
        self
    }

    /// How the threads of this layout wait.
    pub fn idle(&self, clock: &Clock) -> Idle {
        let spin_ns = if self.dedicated && !self.floats { 10_000_000 } else { 20_000 };
        Idle {
            spin_cycles: clock.cycles(spin_ns),
            patience_cycles: clock.cycles(1_000_000_000),
            shares_core: !self.dedicated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_its_own_core_where_there_are_enough() {
        let layout = Layout::plan(&[4, 5, 6, 7], 3, 1);
        assert_eq!((layout.dispatchers, layout.workers), (vec![4], vec![5, 6, 7]));
        let layout = Layout::plan(&[0, 1], 1, 1);
        assert_eq!(
            (layout.dispatchers, layout.workers, layout.dedicated),
            (vec![0], vec![1], true)
        );
        let layout = Layout::plan(&[0, 1, 2, 3, 4], 2, 2);
        assert_eq!((layout.dispatchers, layout.workers), (vec![0, 1], vec![2, 3]));
    }

    #[test]
    fn a_quota_below_the_cores_says_how_many_threads_there_are() {
        let quota = |time_us| Some(Quota { time_us, period_us: 100_000 });
        let all: Vec<usize> = (0..64).collect();
        let two = Usable::of(all.clone(), quota(250_000));
        assert_eq!((two.cores.len(), two.quota), (2, quota(250_000)));
        assert_eq!(Usable::of(all.clone(), quota(50_000)).cores.len(), 1);
        assert_eq!(Usable::of(all.clone(), None), Usable { cores: all.clone(), quota: None });
        // One that is no less than the cores allow changes nothing.
        assert_eq!(Usable::of(vec![3, 4], quota(200_000)).quota, None);
        let pinned = Layout::plan(&two.cores, 1, 1);
        let layout = pinned.clone().under(two.quota);
        assert!(layout.floats && layout.dispatchers.is_empty() && layout.note.is_some());
        let clock = Clock::get();
        assert!(layout.idle(&clock).spin_cycles < pinned.idle(&clock).spin_cycles / 100);
        assert_eq!(pinned.clone().under(None), pinned);
    }

    #[test]
    fn too_few_cores_are_shared_and_it_is_said() {
        for (cores, workers) in [(vec![3], 1), (vec![3], 4), (vec![0, 1], 2), (vec![0, 1], 5)] {
            let layout = Layout::plan(&cores, workers, 1);
            assert!(!layout.dedicated && layout.note.is_some() && layout.dispatchers.is_empty());
            assert_eq!(layout.workers.len(), workers);
            assert!(layout.workers.iter().all(|core| cores.contains(core)));
        }
        let spread = Layout::plan(&[0, 1], 2, 1).workers;
        assert_ne!(spread[0], spread[1]);
    }
}

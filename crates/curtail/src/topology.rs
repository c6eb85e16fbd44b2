//! Which cores there are, who gets which, and how an idle thread waits.

use crate::clock::Clock;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// How a thread without work waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
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
pub(crate) fn pin(core: usize) -> Result<(), String> {
    BEFORE.get_or_init(|| sched_getaffinity(None).ok());
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| format!("cannot pin to core {core}: {error}"))
}

/// Who runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Each dispatcher's core; none: wherever the kernel puts them.
    pub dispatchers: Vec<usize>,
    /// Each worker's core.
    pub workers: Vec<usize>,
    /// Everybody has a core to itself.
    pub dedicated: bool,
    /// What the user should know.
    pub note: Option<String>,
}

impl Layout {
    /// `cores`: the ones to use, first the dispatchers'. With too few of them workers share, and
    /// the dispatchers float.
    pub(crate) fn plan(cores: &[usize], workers: usize, dispatchers: usize) -> Self {
        let dedicated = cores.len() >= workers + dispatchers;
        if dedicated {
            let (own, others) = cores.split_at(dispatchers);
            let workers = others[..workers].to_vec();
            return Self { dispatchers: own.to_vec(), workers, dedicated, note: None };
        }
        let who = match dispatchers {
            1 => "a dispatcher".to_owned(),
            n => format!("{n} dispatchers"),
        };
        Self {
            dispatchers: Vec::new(),
            workers: (1..=workers).map(|index| cores[index % cores.len()]).collect(),
            dedicated,
            note: Some(format!(
                "{workers} workers and {who} share {} core{}: expect latencies of the kernel's \
                 scheduler, not of Curtail's",
                cores.len(),
                if cores.len() == 1 { "" } else { "s" }
            )),
        }
    }

    /// Of elastic workers: they get their cores from a core allocator.
    pub(crate) fn elastic(cores: &[usize], workers: usize) -> Self {
        let spread = (0..workers).map(|index| cores[index % cores.len()]).collect();
        Self { dispatchers: Vec::new(), workers: spread, dedicated: false, note: None }
    }

    /// How the threads of this layout wait.
    pub(crate) fn idle(&self, clock: &Clock) -> Idle {
        let spin_ns = if self.dedicated { 10_000_000 } else { 20_000 };
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

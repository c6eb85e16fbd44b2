//! What this process shows: its servers, pools and runtimes, as long as they run.

use crate::look::Look;
use crate::socket;
use curtail::{Handle, Nanos, Preempt, Stats, Ticks, WorkerId, WorkerStats};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// By what it is looked at.
pub(crate) enum Source {
    Server(Handle),
    Threads(curtail::Look),
}

/// One of them, and what does not change of it.
pub(crate) struct Shown {
    pub name: String,
    pub listen: String,
    pub start: Instant,
    source: Source,
}

static ALL: Mutex<Vec<Arc<Shown>>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Arc<Shown>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows it from now on. Where the socket can't be made, that is logged.
pub(crate) fn show(name: &str, listen: &str, source: Source) {
    let (name, listen) = (name.to_owned(), listen.to_owned());
    all().push(Arc::new(Shown { name, listen, start: Instant::now(), source }));
    if let Err(error) = socket::open() {
        tracing::warn!(%error, "`curtail top` cannot look at this program");
    }
}

/// Those that run, with what they say; the others are forgotten.
pub(crate) fn looks() -> Vec<(Arc<Shown>, Stats)> {
    let shown = all().clone();
    let look = |shown: Arc<Shown>| shown.stats().map(|stats| (shown, stats));
    let looks: Vec<_> = shown.iter().cloned().filter_map(look).collect();
    let lives = |one: &Arc<Shown>| looks.iter().any(|(other, _)| Arc::ptr_eq(one, other));
    let asked = |one: &Arc<Shown>| shown.iter().any(|other| Arc::ptr_eq(one, other));
    all().retain(|one| lives(one) || !asked(one) || one.may_begin());
    looks
}

/// The one of that name, or the first, with what it says.
pub(crate) fn look(name: &str) -> Option<Look> {
    let mut looks = looks();
    let is_meant = |(shown, _): &(Arc<Shown>, Stats)| name.is_empty() || shown.name == name;
    let index = looks.iter().position(is_meant)?;
    let (shown, stats) = looks.swap_remove(index);
    Some(Look::new(shown, stats))
}

/// What Prometheus reads: all figures of all that this process shows, as text.
#[must_use]
pub fn metrics() -> String {
    crate::metrics::text(&looks())
}

impl Shown {
    /// It has been built, and may not have begun to run.
    fn may_begin(&self) -> bool {
        match &self.source {
            Source::Server(handle) => handle.is_alive(),
            Source::Threads(_) => false,
        }
    }

    /// `None`: it has ended, or not begun.
    fn stats(&self) -> Option<Stats> {
        match &self.source {
            Source::Server(handle) => handle.stats(),
            Source::Threads(look) => look.kthreads().map(|kthreads| of_threads(look, &kthreads)),
        }
    }
}

/// A runtime of threads, as if it were a server without classes.
fn of_threads(look: &curtail::Look, kthreads: &[curtail::KthreadStats]) -> Stats {
    let worker = |kthread: &curtail::KthreadStats| WorkerStats {
        worker: WorkerId(kthread.kthread as u16),
        holds: kthread.alive,
        preemptions: kthread.preemptions,
        has_core: kthread.has_core,
        tid: Some(kthread.tid),
    };
    let waiting = kthreads.iter().map(|kthread| kthread.waiting).sum();
    Stats {
        classes: Vec::new(),
        unknown: curtail::ClassStats::none(),
        decided: None,
        malformed: 0,
        unsent: 0,
        in_system: kthreads.iter().map(|kthread| kthread.alive).sum::<usize>() + waiting,
        waiting,
        preemptions: kthreads.iter().map(|kthread| kthread.preemptions).sum(),
        workers: kthreads.iter().map(worker).collect(),
        policy: "threads".to_owned(),
        quantum: look.quantum().map(|quantum| Nanos(quantum.as_nanos() as u64)),
        preempt: if look.quantum().is_some() { Preempt::Clock } else { Preempt::Never },
        preempt_note: None,
        ticks: Ticks::default(),
        oldest: Vec::new(),
        transports: Vec::new(),
        stalls: look.stalls(),
    }
}

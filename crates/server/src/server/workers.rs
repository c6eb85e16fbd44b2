//! A dispatcher's workers: kthreads with an engine each.

use super::RunError;
use super::domain::Settings;
use crate::dispatcher::{Spares, WorkerLink, config_of};
use crate::engine::{Config, Counts, Engine, Links, Orders, ServerShared};
use crate::remote::Remote;
use curtail_policy::WorkerId;
use curtail_ring::spsc;
use curtail_rt::clock;
use curtail_rt::thread::{KthreadPool, KthreadReport, KthreadState, Plan, Quanta, SPARES};
use std::sync::{Arc, Mutex, PoisonError};

/// Messages under way to a worker; more wait at the dispatcher.
const INBOX: usize = 512;
/// News under way to the dispatcher; more wait at the worker.
const OUTBOX: usize = 512;

/// What the workers' engines have counted, once they have ended.
type Counted = Arc<Mutex<Vec<Counts>>>;

/// Started workers.
pub(super) struct Workers {
    pub kthreads: KthreadPool,
    remotes: Vec<Arc<Remote>>,
    counted: Counted,
}

/// What they leave behind.
pub(crate) struct WorkerReports {
    pub lives: Vec<KthreadReport>,
    pub counts: Vec<Counts>,
}

/// What a worker's engine is made from, on its thread.
struct Parts {
    links: Links,
    remote: Arc<Remote>,
    config: Config,
    shared: ServerShared,
}

/// An engine as long as its kthread lives.
struct Life {
    engine: Box<Engine>,
    counted: Counted,
}

impl Drop for Life {
    fn drop(&mut self) {
        let counts = self.engine.take_counts();
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).push(counts);
    }
}

/// Starts a dispatcher's workers, one on each of the cores; the spare ones are still to be started.
pub(super) fn start(
    common: &Settings<'_>,
    mut kthreads: KthreadPool,
    (cores, quanta): (&[usize], Option<Quanta>),
    (dispatcher, shared): (&Arc<Remote>, &ServerShared),
) -> Result<(Vec<WorkerLink>, Spares, Workers), RunError> {
    let config = config_of(common.spec, &common.choice, common.kind, cores.len());
    let mut links = Vec::new();
    let mut remotes = Vec::new();
    let mut parts = Vec::new();
    for index in 0..cores.len() + SPARES {
        let (messages, inbox) = spsc::channel(INBOX);
        let (events, news) = spsc::channel(OUTBOX);
        let remote = Arc::new(Remote::of(kthreads.peer(index).clone()));
        let orders: Arc<Orders> = Arc::new(Mutex::new(None));
        let own = Links {
            inbox,
            events,
            orders: orders.clone(),
            dispatcher: (!common.busy).then(|| dispatcher.clone()),
        };
        links.push(WorkerLink::new(messages, news, remote.clone(), orders));
        remotes.push(remote.clone());
        let (config, shared) = (config.clone(), shared.clone());
        parts.push(Some(Parts { links: own, remote, config, shared }));
    }
    let plan = Plan {
        first: usize::from(shared.first_worker),
        first_spare: usize::from(shared.first_spare),
        cores: cores.to_vec(),
        floats: common.layout.floats,
        tasks: common.tasks,
        quanta,
    };
    let counted = Counted::default();
    let (parts, counts) = (Arc::new(Mutex::new(parts)), counted.clone());
    let (spec, capacity) = (common.spec.clone(), common.capacity);
    let enter = move |index: usize| {
        let taken = parts.lock().unwrap_or_else(PoisonError::into_inner)[index].take();
        let Parts { links, remote, config, shared } = taken.expect("each worker starts once");
        let core = spec.build_core(capacity);
        let engine =
            Engine::new(WorkerId(index as u16), shared, config, core, Some(links), remote)?;
        Ok(Box::new(Life { engine, counted: counts.clone() }) as KthreadState)
    };
    kthreads.start(&plan, enter).map_err(|(index, error)| RunError::Worker {
        worker: shared.in_server(WorkerId(index as u16)),
        error,
    })?;
    let spares = Spares::new(links.split_off(cores.len()), kthreads.start_spare());
    Ok((links, spares, Workers { kthreads, remotes, counted }))
}

impl Workers {
    /// Ends the workers and collects what they report.
    pub(super) fn stop(mut self, notes: &mut Vec<String>) -> WorkerReports {
        // It yields what it runs, which the dispatcher, or the quantum, does not have it do any more.
        let lives = self.kthreads.stop(notes, |index| {
            if let Some(poll) = self.remotes[index].poll.get() {
                poll.raise();
            }
            if let Some(ticker) = self.remotes[index].ticker.get() {
                ticker.tick(clock::now());
            }
        });
        let counts =
            std::mem::take(&mut *self.counted.lock().unwrap_or_else(PoisonError::into_inner));
        WorkerReports { lives, counts }
    }
}

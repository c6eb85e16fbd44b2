//! The workers' threads: started, stopped, reported.

use super::RunError;
use super::domain::Settings;
use crate::dispatcher::{WorkerLink, config_of};
use crate::engine::{Config, Engine, ServerShared};
use crate::remote::Remote;
use crate::worker::{Links, Orders, WorkerReport, work};
use curtail_policy::WorkerId;
use curtail_ring::spsc;
use curtail_rt::clock;
use curtail_rt::topology::pin;
use curtail_rt::wait;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The target of what is logged here.
const LOG: &str = "curtail::server::workers";

/// Messages under way to a worker; more wait at the dispatcher.
const INBOX: usize = 512;
/// News under way to the dispatcher; more wait at the worker.
const OUTBOX: usize = 512;

/// How long a worker may take to come back from what it runs, at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// A started worker thread.
pub(super) struct Started {
    report: Receiver<WorkerReport>,
    thread: thread::JoinHandle<()>,
    remote: Arc<Remote>,
    /// In the server.
    number: u16,
}

/// Starts a dispatcher's workers, one on each of the cores.
pub(super) fn start(
    common: &Settings<'_>,
    (cores, dispatcher): (&[usize], &Arc<Remote>),
    shared: &ServerShared,
) -> Result<(Vec<WorkerLink>, Vec<Started>), RunError> {
    let mut links = Vec::new();
    let mut started = Vec::new();
    let config = config_of(common.spec, &common.choice, common.kind, cores.len());
    for (index, &core) in cores.iter().enumerate() {
        let id = WorkerId(index as u16);
        match start_one(common, (id, core), (dispatcher, shared), config.clone()) {
            Ok((link, thread)) => {
                links.push(link);
                started.push(thread);
            }
            Err(error) => {
                stop(started, &mut Vec::new());
                return Err(RunError::Worker { worker: shared.in_server(id), error });
            }
        }
    }
    Ok((links, started))
}

fn start_one(
    common: &Settings<'_>,
    (id, core): (WorkerId, usize),
    (dispatcher, shared): (&Arc<Remote>, &ServerShared),
    config: Config,
) -> Result<(WorkerLink, Started), String> {
    let (messages, inbox) = spsc::channel(INBOX);
    let (events, news) = spsc::channel(OUTBOX);
    let remote = Arc::new(Remote::new());
    let orders: Arc<Orders> = Arc::new(Mutex::new(None));
    let links = Links {
        events,
        remote: remote.clone(),
        orders: orders.clone(),
        dispatcher: (!common.busy).then(|| dispatcher.clone()),
    };
    let core_policy = common.spec.build_core(common.capacity);
    let (shared, idle) = (shared.clone(), common.layout.idle(&shared.clock));
    let number = shared.in_server(id).0;
    let floats = common.layout.floats;
    let own = remote.clone();
    let (ready, is_ready) = sync_channel(1);
    let (report, reported): (SyncSender<WorkerReport>, _) = sync_channel(1);
    let life = move || {
        if let Some(Err(problem)) = (!floats).then(|| pin(core)) {
            tracing::warn!(target: LOG, %problem, worker = number);
        }
        match Engine::new(id, shared, config, core_policy, Some(inbox), own) {
            Ok(engine) => {
                let _ = ready.send(Ok(()));
                let _ = report.send(work(engine, links, idle));
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    };
    let thread = thread::Builder::new()
        .name(format!("curtail-{number}"))
        .spawn(life)
        .map_err(|error| error.to_string())?;
    match is_ready.recv() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error),
        Err(_) => return Err("it ended by a panic of the runtime".to_owned()),
    }
    let link = WorkerLink::new(messages, news, remote.clone(), orders);
    Ok((link, Started { report: reported, thread, remote, number }))
}

/// Ends the workers and collects what they report. One that never comes back (a handler in an
/// endless loop without a safepoint) is left behind, and that is said.
pub(super) fn stop(started: Vec<Started>, notes: &mut Vec<String>) -> Vec<WorkerReport> {
    for worker in &started {
        worker.remote.signals.stop.store(true, Ordering::Release);
        worker.remote.parker.unpark();
    }
    let mut reports = Vec::new();
    for worker in started {
        let index = worker.number;
        match report_of(&worker) {
            Ok(report) => {
                reports.push(report);
                let _ = worker.thread.join();
            }
            Err(RecvTimeoutError::Disconnected) => {
                let _ = worker.thread.join();
                notes.push(format!("worker {index} ended by a panic of the runtime"));
            }
            Err(RecvTimeoutError::Timeout) => {
                // Its other requests run no more, whenever it comes back.
                wait::forget(&worker.remote.kthread, |_| true);
                notes.push(format!("worker {index} is stuck in a request and was left behind"));
            }
        }
    }
    reports
}

/// Waits for a worker's report, and has it yield what it runs, which the dispatcher, or the quantum,
/// does not any more. Again and again: a quantum that begins takes the wish back.
fn report_of(worker: &Started) -> Result<WorkerReport, RecvTimeoutError> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(poll) = worker.remote.poll.get() {
            poll.raise();
        }
        if let Some(ticker) = worker.remote.ticker.get() {
            ticker.tick(clock::now());
        }
        match worker.report.recv_timeout(Duration::from_millis(5)) {
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
            report => return report,
        }
    }
}

//! A server without a dispatcher (Shenango §5): each request is a thread, and the kthreads schedule
//! them by themselves, each from its own queue, and from the others' when that is empty.
//!
//! * `port`: packets that a core allocator receives; `receive`: threads that receive datagrams;
//! * `accept`: threads that accept TCP connections; `connection`: a connection's thread, which reads;
//! * `ingress_loop`: the calling thread: other transports, commands, the end;
//! * `ingress`: where the ingress loop's requests come in; `quota`: how many there may be;
//! * `request`: a request and its thread;
//! * `context`: a kthread's part: the handler, and what is around it;
//! * `counters`: what a kthread counts; `looks`: looks at single requests; `asked`: requests that are to be cancelled.

mod accept;
mod asked;
mod connection;
mod context;
mod counters;
mod ingress;
mod ingress_loop;
mod looks;
mod port;
mod quota;
mod receive;
mod request;

use super::domain::{Domain, Settings};
use super::{RunError, StartError};
use crate::ask::{Asker, EntryState};
use crate::classify::Classifier;
use crate::engine::Counts;
use crate::remote::Remote;
use crate::report::{cpu, noise, total_cycles};
use crate::stats::Report;
use crate::transport_loop::TransportLoop;
use accept::AcceptQueue;
use asked::Asked;
use context::{KthreadsShared, WorkerContext};
use counters::KthreadCounters;
use curtail_fiber::safepoint::Mode;
use curtail_fiber::ticks::Ticks;
use curtail_net::{Datagrams, Reply, Streams, Transport};
use curtail_policy::{PreemptKind, Spec, SpecError, WorkerId};
use curtail_ring::CachePadded;
use curtail_rt::clock::{self, Clock};
use curtail_rt::preempt::{Choice, Preempt};
use curtail_rt::thread::{
    KThread, KthreadPool, KthreadReport, KthreadState, Plan, Port, Quanta, SPARES, Watch,
};
use curtail_rt::topology::pin;
use ingress::Ingress;
use ingress_loop::IngressLoop;
use looks::Looks;
pub(super) use port::PortLine;
use quota::AdmissionQuota;
use receive::LongSleep;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Kthreads of one server.
pub(super) const MOST_KTHREADS: usize = 64;

/// Whether a server can be of that kind with these settings.
pub(super) fn check(
    spec: &Spec,
    preempt: Preempt,
    workers: usize,
    dispatchers: usize,
) -> Result<(), StartError> {
    let setting = |text: String| Err(StartError::Setting(text));
    let unwatched = |preempt| {
        let policy = spec.name.clone();
        Err(StartError::Policy(SpecError::Unwatched { policy, preempt }))
    };
    match preempt {
        Preempt::Flag => return unwatched(PreemptKind::Flag),
        Preempt::Signal => return unwatched(PreemptKind::Signal),
        Preempt::Auto | Preempt::Never | Preempt::Clock => {}
    }
    if dispatchers > 1 {
        return setting(format!("`{}` has no dispatcher, so it has not several", spec.name));
    }
    if workers > MOST_KTHREADS {
        return setting(format!("`{}`: {workers} workers, of {MOST_KTHREADS} at most", spec.name));
    }
    Ok(())
}

/// What the kthreads read by themselves, and which transport's it is.
struct Lent {
    streams: Vec<(u16, Streams)>,
    datagrams: Vec<(u16, Datagrams)>,
}

impl Lent {
    fn of(domain: &Domain, transports: &mut [Box<dyn Transport>]) -> Self {
        let mut lent = Self { streams: Vec::new(), datagrams: Vec::new() };
        for (index, line) in transports.iter_mut().enumerate() {
            lent.streams.extend(line.lend_streams().map(|streams| (index as u16, streams)));
            // Kthreads that give their cores back could not look at their sockets.
            if domain.kthreads.elastic().is_none()
                && let Some(datagrams) = line.lend_datagrams(domain.workers.len())
            {
                datagrams.unwatch(&domain.waiter);
                lent.datagrams.push((index as u16, datagrams));
            }
        }
        lent
    }
}

fn quota(settings: &Settings<'_>, classes: usize) -> AdmissionQuota {
    let size = (settings.capacity, settings.memory);
    AdmissionQuota::new(size, classes, settings.spec, settings.keeps_room)
}

/// Runs such a server, the ingress loop on the calling thread, until all is done.
pub(super) fn run(
    domain: Domain,
    settings: &Settings<'_>,
    mut transports: Vec<Box<dyn Transport>>,
) -> Result<Report, RunError> {
    let clock = Clock::get();
    let names = settings.app.classes().into_iter().map(|class| class.name);
    let names: Vec<String> = names.chain(["unknown".to_owned()]).collect();
    let lent = Lent::of(&domain, &mut transports);
    let busy = settings.busy && transports.iter().any(|line| line.brings());
    let replies = transports.iter().map(|line| line.reply()).collect();
    let beat_cycles =
        domain.kthreads.elastic().map(|_| settings.allocator_config.heartbeat_cycles());
    let port = domain.kthreads.elastic().and_then(|elastic| elastic.port().cloned());
    let common = common(settings, &domain, &names, (replies, &lent), busy, port);
    let idle = settings.layout.idle(&clock);
    let plan = plan(settings, &domain.kthreads);
    let quanta = plan.quanta.clone();
    let mode = plan.quanta.as_ref().map_or(Mode::Off, |quanta| quanta.mode);
    let (_kthread, asker) = asker(settings, &common, &domain.remote)?;
    let kthreads = start(domain.kthreads, &plan, &common, lent)?;
    let _watch = watch(settings, &kthreads, &common, mode);
    let pinned = settings.layout.dispatchers.first().copied().map(pin);
    let mut notes: Vec<String> = pinned.and_then(Result::err).into_iter().collect();
    let entry = EntryState::new(asker, names, common.replies.clone());
    let links = (domain.control.0.clone(), domain.remote, domain.waiter);
    let mut ingress_loop = IngressLoop {
        base: TransportLoop::new(settings.loop_config(busy), entry, transports, links),
        ingress: Ingress::new(common, kthreads),
        spec: settings.spec.clone(),
        quanta,
        beat_cycles,
        look_at_lent: 0,
        brought: 0,
        asked: Vec::new(),
    };
    let begun = clock::now();
    let ended = catch_unwind(AssertUnwindSafe(|| ingress_loop.run(settings.drain)));
    let watched = clock::now() - begun;
    drop(domain.control);
    if ended.is_ok() && ingress_loop.in_system() == 0 {
        ingress_loop.ingress.kthreads.settle(Duration::from_nanos(clock.ns(idle.patience_cycles)));
    }
    let lives = ingress_loop.ingress.kthreads.stop(&mut notes, |_| {});
    ingress_loop.ingress.give_up();
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
    Ok(report(ingress_loop, &lives, watched, notes))
}

/// Has the kthreads watched, as long as the answer lives, and spare ones started.
fn watch(
    settings: &Settings<'_>,
    kthreads: &KthreadPool,
    common: &KthreadsShared,
    mode: Mode,
) -> Option<Watch> {
    let (spares, has_port) = (kthreads.spares(), common.port.is_some());
    let looked = move |stuck| {
        // What came by the port is answered by kthreads that the core allocator knows.
        if !has_port {
            spares(stuck);
        }
    };
    settings.watchdog.watch(kthreads.watched(), mode, |_, _| {}, looked)
}

/// What the kthreads and the ingress loop have in common.
fn common(
    settings: &Settings<'_>,
    domain: &Domain,
    names: &[String],
    (replies, lent): (Arc<[Arc<dyn Reply>]>, &Lent),
    busy: bool,
    port: Option<Arc<Port>>,
) -> Arc<KthreadsShared> {
    let seats = domain.workers.len() + SPARES;
    let counters = |_| CachePadded::new(KthreadCounters::new(names.iter().cloned()));
    Arc::new(KthreadsShared {
        app: settings.app.clone(),
        replies,
        done: CachePadded::default(),
        counters: (0..seats).map(counters).collect(),
        clock: Clock::get(),
        ingress_loop: (!busy).then(|| domain.remote.clone()),
        classifier: Arc::new(Classifier::new(settings.app.clone(), names.len() - 1)),
        quota: quota(settings, names.len() - 1),
        malformed: AtomicU64::new(0),
        port,
        rules: settings.rules.clone(),
        asked: Asked::default(),
        looks: Looks::new(seats),
        long_sleep: LongSleep::new(!lent.datagrams.is_empty()),
        accept_queues: domain.workers.clone().map(|_| AcceptQueue::default()).collect(),
    })
}

fn plan(settings: &Settings<'_>, kthreads: &KthreadPool) -> Plan {
    // Also where nothing is cut now: the policy may change.
    let cut = Spec::preset("shenango-ps").expect("a policy");
    let could_be_cut = is_cut(&Choice::make(settings.wished, &cut, settings.kind, false));
    let elastic = kthreads.elastic().is_some();
    let quanta = could_be_cut.then(|| {
        let quanta = settings.quanta(Mode::Clock);
        let beat = elastic.then(|| settings.allocator_config.heartbeat_cycles());
        set_quanta(&quanta, settings.spec, &settings.choice, beat);
        quanta
    });
    let beats = || settings.beats().filter(|_| elastic);
    Plan {
        first: 0,
        first_spare: settings.layout.workers.len(),
        cores: settings.layout.workers.clone(),
        floats: settings.layout.floats,
        tasks: settings.tasks,
        quanta: quanta.or_else(beats),
    }
}

/// From the next quantum on, quanta as the policy has them. `beat`: how often, in cycles, a request without
/// one looks whether its core is wanted.
fn set_quanta(quanta: &Quanta, spec: &Spec, choice: &Choice, beat: Option<u64>) {
    /// From one tick to the next where nothing is cut: the watchdog sees them.
    const TICK_NS: u64 = 1_000_000;
    let clock = Clock::get();
    let quantum = spec.quantum.filter(|_| spec.shares() && is_cut(choice));
    let quantum = quantum.map(|quantum| clock.cycles(quantum.0));
    quanta.set(quantum, beat.unwrap_or_else(|| clock.cycles(TICK_NS)));
}

/// What the ingress loop asks the application with, on the calling thread.
fn asker(
    settings: &Settings<'_>,
    common: &KthreadsShared,
    remote: &Remote,
) -> Result<(Box<KThread>, Asker), RunError> {
    let error = |error| RunError::Worker { worker: WorkerId::DISPATCHER, error };
    let (app, classifier) = ((common.app.clone(), common.rules.clone()), common.classifier.clone());
    let kthread = KThread::new(remote.kthread.clone(), settings.tasks, None, None)
        .map_err(|problem| error(problem.to_string()))?;
    let asker = Asker::new(app, classifier, settings.tasks.stack_size, settings.memory);
    Ok((kthread, asker.map_err(error)?))
}

fn is_cut(choice: &Choice) -> bool {
    choice.effective == Preempt::Clock
}

fn start(
    mut kthreads: KthreadPool,
    plan: &Plan,
    common: &Arc<KthreadsShared>,
    lent: Lent,
) -> Result<KthreadPool, RunError> {
    let (common, usual) = (common.clone(), kthreads.len());
    let enter = move |index| {
        let context = WorkerContext::new(common.clone(), index)?;
        if index >= usual {
            return Ok(context as KthreadState);
        }
        for (transport, streams) in &lent.streams {
            accept::start(&common, streams, *transport)
                .map_err(|error| format!("it cannot accept connections: {error}"))?;
        }
        for (transport, datagrams) in &lent.datagrams {
            receive::start(&common, datagrams, *transport)
                .map_err(|error| format!("it cannot receive datagrams: {error}"))?;
        }
        if let Some(port) = &common.port {
            port::start(&common, port).map_err(|error| format!("its port: {error}"))?;
        }
        Ok(context as KthreadState)
    };
    kthreads
        .start(plan, enter)
        .map_err(|(index, error)| RunError::Worker { worker: WorkerId(index as u16), error })?;
    Ok(kthreads)
}

fn report(
    ingress_loop: IngressLoop,
    lives: &[KthreadReport],
    watched: u64,
    notes: Vec<String>,
) -> Report {
    let ran = |counters: &CachePadded<KthreadCounters>| counters.ran_cycles();
    let app_cycles = ingress_loop.ingress.common.counters.iter().map(ran).sum();
    let gaps = ingress_loop.base.kthread.gaps();
    let (classes, unknown) = ingress_loop.classes();
    Report {
        policy: ingress_loop.spec.name.clone(),
        preempt: ingress_loop.base.config.choice.effective,
        preempt_note: ingress_loop.base.config.choice.note.clone(),
        quantum: ingress_loop.spec.quantum,
        workers: ingress_loop.ingress.kthreads.len(),
        preemptions: ingress_loop.preemptions(),
        late_ns: Counts::default().late_ns,
        ticks: Ticks::default(),
        cpu: cpu(lives, app_cycles),
        noise: noise(lives, gaps, total_cycles(lives) + watched),
        classes,
        unknown,
        decided: None,
        malformed: ingress_loop.malformed(),
        unsent: ingress_loop.base.unsent(),
        abandoned: ingress_loop.in_system(),
        notes,
    }
}

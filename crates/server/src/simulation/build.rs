//! How a played server is put together.

use super::app::Scripts;
use super::random::Random;
use super::state::State;
use super::transport::{Played, Wire};
use super::world::{Place, World};
use crate::app::ErasedApp;
use crate::ask::{Asker, EntryState};
use crate::classify::Classifier;
use crate::control::Control;
use crate::dispatcher::{
    Dispatcher, DispatcherConfig, Spares, WorkerLink, config_of, own_config, thread_mode,
};
use crate::engine::{Engine, Links, Orders, ServerShared};
use crate::jobs::ByteQuota;
use crate::message::JobBuffers;
use crate::remote::Remote;
use crate::server::{ClassRule, Rules};
use crate::transport_loop::{LoopConfig, TransportLoop};
use curtail_fiber::safepoint::{self, Kind};
use curtail_net::{Reply, Waiter};
use curtail_policy::{Nanos, Spec, WorkerId, dispatched};
use curtail_ring::spsc;
use curtail_rt::cancel::OnCancel;
use curtail_rt::clock::Clock;
use curtail_rt::context::NEVER;
use curtail_rt::preempt::{Choice, Preempt};
use curtail_rt::sync::Semaphore;
use curtail_rt::thread::{Grace, KThread, Quanta, TaskSettings};
use curtail_sched::Setup;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Jobs at once, and messages in a ring: few, so that both are full now and then.
const JOBS: usize = 12;
const RING: usize = 4;
const STACK: usize = 128 << 10;

fn names() -> [String; 4] {
    ["one", "two", "three", "unknown"].map(str::to_owned)
}

/// A policy that has a dispatcher, which ends quanta by the clock or not at all.
pub(super) fn some_policy(random: &mut Random) -> Spec {
    let all: Vec<_> = dispatched().collect();
    let mut spec = Spec::preset(random.pick(&all).name).expect("it is in the catalogue");
    if spec.quantum.is_some() {
        spec.quantum = Some(Nanos(random.pick(&[500, 2_000, 8_000])));
    }
    spec
}

/// The server of that seed.
pub(super) fn world(seed: u64) -> World {
    let mut random = Random::new(seed);
    let (workers, to_send) = (1 + random.below(3) as usize, 1 + random.below(40));
    // Of no random number, so that other seeds go as they went before.
    let spares = usize::from(seed % 8 == 7);
    let workers = if spares > 0 { 1 } else { workers };
    let mut spec = some_policy(&mut random);
    let choice = Choice::make(Preempt::Clock, &spec, Kind::Clock, true);
    choice.limit(&mut spec, Kind::Clock);
    let line = Played {
        state: Arc::new(State::default()),
        wire: Arc::new(Mutex::new(Wire::default())),
        closed: false,
    };
    let app = Arc::new(Scripts {
        seed,
        state: line.state.clone(),
        locks: Default::default(),
        held: Default::default(),
        gate: Semaphore::new(0),
    });
    let last = workers + spares;
    let remotes: Vec<_> = (0..=last).map(|_| Arc::new(Remote::new())).collect();
    let control = Arc::new(Control::new(remotes[last].clone()));
    let rules = rules(&mut random);
    // What is abandoned with a lock has that for ever.
    let abandons = rules.iter().any(|it| matches!(it.on_cancel, Some(OnCancel::Abandon { .. })));
    let grace = if abandons { Grace::Ban } else { random.pick(&[Grace::Ban, Grace::None]) };
    let shared = server_shared((workers, &rules), app.clone(), &line, &control);
    let (places, links) = places(&spec, &choice, grace, (&shared, &remotes));
    let setup = Setup {
        spec,
        workers,
        jobs: JOBS,
        seed,
        pins: random.once_in(3),
        keeps_room: random.once_in(2),
    };
    let mut dispatcher =
        dispatcher(setup, choice, (shared, links, &line), (places[last].engine, &remotes[last]));
    safepoint::set_kthread(ptr::null());
    let cores_move = seed % 4 == 1;
    dispatcher.cores_move = cores_move;
    World {
        acts: Cell::new(last),
        places,
        dispatcher: Box::into_raw(Box::new(dispatcher)),
        control,
        line,
        app,
        random: RefCell::new(random),
        is_interlude: Cell::new(false),
        sent: Cell::new(0),
        to_send,
        cores_move,
        has_spare: spares > 0,
        alive: Cell::new(true),
        steps: Cell::new(0),
    }
}

/// The kthreads with their engines, the dispatcher's last, and the workers as that sees them. The
/// dispatcher's kthread is the caller's then.
fn places(
    spec: &Spec,
    choice: &Choice,
    grace: Grace,
    (shared, remotes): (&ServerShared, &[Arc<Remote>]),
) -> (Vec<Place>, Vec<WorkerLink>) {
    let tasks = TaskSettings { grace, ..TaskSettings::with_stack(STACK) };
    let (last, workers) = (remotes.len() - 1, usize::from(shared.workers));
    let (mut places, mut links) = (Vec::new(), Vec::new());
    for (index, remote) in remotes.iter().enumerate() {
        safepoint::set_kthread(ptr::null());
        let kthread = KThread::new(remote.kthread.clone(), tasks, None, None);
        let kthread = kthread.expect("memory for a stack");
        let is_worker = index < last;
        let (own, link) = is_worker.then(|| ring(remote, &remotes[last])).unzip();
        links.extend(link);
        let (id, config) = match is_worker {
            true => (WorkerId(index as u16), config_of(spec, choice, Kind::Clock, workers)),
            false => (WorkerId::DISPATCHER, own_config(spec, choice, Kind::Clock)),
        };
        let core = spec.build_core(JOBS);
        let engine = Engine::new(id, shared.clone(), config, core, own, remote.clone());
        let engine = Box::into_raw(engine.expect("an engine"));
        places.push(Place { kthread, engine, remote: remote.clone(), parked: Cell::new(false) });
    }
    (places, links)
}

/// On its kthread.
fn dispatcher(
    setup: Setup,
    choice: Choice,
    (shared, mut workers, line): (ServerShared, Vec<WorkerLink>, &Played),
    (own, own_remote): (*mut Engine, &Arc<Remote>),
) -> Dispatcher {
    let classifier = Arc::new(Classifier::new(shared.app.clone(), 3));
    let app: (Arc<dyn ErasedApp>, _) = (shared.app.clone(), shared.rules.clone());
    let asker = Asker::new(app, classifier, STACK, 4_096).expect("memory for a stack");
    let entry = EntryState::new(asker, names(), shared.replies.clone());
    let config = LoopConfig {
        wished: Preempt::Clock,
        choice,
        kind: Kind::Clock,
        busy: true,
        shares_core: false,
    };
    let waiter = Waiter::new(&[]).expect("a descriptor");
    let links = (shared.control.clone(), own_remote.clone(), waiter);
    let base = TransportLoop::new(config, entry, vec![Box::new(line.clone())], links);
    let config = DispatcherConfig {
        spares: Spares::new(workers.split_off(setup.workers), || true),
        workers,
        own,
        elastic: None,
        byte_quota: ByteQuota::new(600, 3, setup.keeps_room),
        shared,
    };
    let mut dispatcher = Dispatcher::new(config, base, setup, None);
    dispatcher.begin(Duration::from_secs(3_600));
    dispatcher
}

fn ring(remote: &Arc<Remote>, dispatcher: &Arc<Remote>) -> (Links, WorkerLink) {
    let (messages, inbox) = spsc::channel(RING);
    let (events, news) = spsc::channel(RING);
    let orders: Arc<Orders> = Arc::default();
    let dispatcher = Some(dispatcher.clone());
    let own = Links { inbox, events, orders: orders.clone(), dispatcher };
    (own, WorkerLink::new(messages, news, remote.clone(), orders))
}

fn rules(random: &mut Random) -> Vec<ClassRule> {
    let rule = |class: String| {
        let most = random.below(3) as usize;
        let rare = if random.once_in(8) { OnCancel::Abandon { most } } else { OnCancel::End };
        let on_cancel = Some(random.pick(&[OnCancel::Finish, OnCancel::End, rare]));
        ClassRule { class, deadline: None, on_cancel }
    };
    names().into_iter().take(3).map(rule).collect()
}

fn server_shared(
    (workers, rules): (usize, &[ClassRule]),
    app: Arc<Scripts>,
    line: &Played,
    control: &Arc<Control>,
) -> ServerShared {
    ServerShared {
        app,
        buffers: Arc::new(JobBuffers::new(JOBS)),
        replies: Arc::new([Arc::new(line.clone()) as Arc<dyn Reply>]),
        clock: Clock::get(),
        thread_quanta: Quanta::of_all(thread_mode(Kind::Clock), 0, false),
        beat: None,
        jobs: JOBS,
        workers: workers as u16,
        first_worker: 0,
        first_spare: workers as u16,
        rules: Arc::new(Rules::new(&names(), rules).expect("rules for its classes")),
        control: control.clone(),
        index: 0,
        deadlines: (0..JOBS).map(|_| AtomicU64::new(NEVER)).collect(),
    }
}

//! Which requests a server under the core allocator leaves out of its undisturbed figures: those that
//! the machine held up, and none that waited for a core.
//!
//! In both tests a signal's handler holds up the worker in the middle of a request, whatever that does.
//! In the first the allocator takes the worker's core meanwhile.

use crate::daemon;

use curtail::clock::{self, Clock};
use curtail::net::{Completion, Intake, Local, LocalClient, Reply, Status, Ticket, Transport};
use curtail::{
    App, Class, ClassId, DispatcherMode, Handle, Report, Response, SafepointKind, Server, Spec,
    WorkerId, safepoint_kind, yield_now,
};
use curtail_workload::Recorder;
use daemon::{Running, STUCK, builder, ended, program, until};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long something holds up a request: much longer than what counts as a gap.
const HELD: Duration = Duration::from_millis(2);
/// So long a heartbeat that a busy machine hardly ever holds up a worker just when one ends.
const LONG_BEAT: Duration = Duration::from_secs(1);
/// Rounds, so many that not each is held up.
const ROUNDS: u32 = 20;
/// Turns of a request that take longer than a heartbeat.
const MANY: u64 = 1_000_000;

/// What requests read, and what they write.
#[derive(Default)]
struct Told {
    turns: AtomicU64,
    ends: AtomicBool,
}

/// Its requests compute until they are to end.
struct Computes(Arc<Told>);

impl App for Computes {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("any")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, (): &(), _: &[u8], _: &mut Response) {
        let told = &*self.0;
        // Other safepoints look when they are asked to, or never.
        let by_hand = safepoint_kind() != SafepointKind::Clock;
        while !told.ends.load(Ordering::Relaxed) {
            let turns = told.turns.load(Ordering::Relaxed);
            told.turns.store(turns + 1, Ordering::Relaxed);
            if by_hand {
                yield_now();
            }
        }
    }
}

/// Tells what becomes of the requests.
struct Telling {
    local: Local,
    to: Sender<Completion>,
}

impl Transport for Telling {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        self.local.poll(now_tsc, into)
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.local.reply()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.local.wait_fds()
    }

    fn completed(&mut self, completion: &Completion) {
        let _ = self.to.send(*completion);
        self.local.completed(completion);
    }

    fn close(&mut self) {
        self.local.close();
    }

    fn describe(&self) -> String {
        self.local.describe()
    }
}

static STANDS: AtomicBool = AtomicBool::new(false);
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// The interrupted thread stands still until it may go on.
#[inline(never)]
#[unsafe(link_section = ".text.curtail_no_preempt")]
extern "C" fn stand_still(_: i32) {
    STANDS.store(true, Ordering::SeqCst);
    while !GOES_ON.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
    STANDS.store(false, Ordering::SeqCst);
}

/// Whatever happens, the thread goes on.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        GOES_ON.store(true, Ordering::SeqCst);
    }
}

/// A server of one worker.
struct Serving {
    told: Arc<Told>,
    client: LocalClient,
    completions: Receiver<Completion>,
    handle: Handle,
    thread: JoinHandle<Report>,
}

impl Serving {
    fn start(daemon: &Running, beat: Option<Duration>) -> Self {
        // SAFETY: zeroes are a valid `sigaction`; the handler touches atomics alone.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stand_still as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
        }
        let told = Arc::new(Told::default());
        let (local, client) = Local::new(4).unwrap();
        let (to, completions) = channel();
        let server = Server::builder(Computes(told.clone()));
        let server = match beat {
            Some(beat) => server.heartbeat(beat),
            None => server,
        };
        let server = server
            .policy(Spec::preset("shenango").unwrap())
            .workers(1)
            .dispatcher(DispatcherMode::Blocking)
            .watchdog(None)
            .transport(Box::new(Telling { local, to }))
            .daemon(&daemon.path)
            .build()
            .unwrap();
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run().unwrap());
        Self { told, client, completions, handle, thread }
    }

    fn turns(&self) -> u64 {
        self.told.turns.load(Ordering::Relaxed)
    }

    /// A request, once it computes.
    fn begin(&self) -> Ticket {
        self.told.ends.store(false, Ordering::Relaxed);
        let before = self.turns();
        let ticket = self.client.submit(vec![0]).unwrap();
        until("it computes", || self.turns() != before);
        ticket
    }

    /// Ends the request: what became of it.
    fn finish(&self, ticket: Ticket) -> Completion {
        self.told.ends.store(true, Ordering::Relaxed);
        let completion = self.completions.recv_timeout(STUCK).unwrap();
        assert!(ticket.wait_timeout(STUCK).is_ok());
        completion
    }

    /// Holds up the worker while `f` runs, and for so long at least.
    fn held_up<T>(&self, least: Duration, f: impl FnOnce() -> T) -> T {
        let tid = self.handle.stats().unwrap().workers[0].tid.unwrap();
        GOES_ON.store(false, Ordering::SeqCst);
        let release = Release;
        // SAFETY: a signal that has a handler, to a thread of this process.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as i32, libc::SIGUSR1) };
        assert_eq!(sent, 0);
        until("it stands still", || STANDS.load(Ordering::SeqCst));
        let begun = Instant::now();
        let result = f();
        until("long enough", || begun.elapsed() >= least);
        drop(release);
        until("it goes on", || !STANDS.load(Ordering::SeqCst));
        result
    }

    fn end(self) -> Report {
        self.handle.shutdown();
        until("the server ends", || self.thread.is_finished());
        self.thread.join().unwrap()
    }
}

fn ns(cycles: u64) -> u64 {
    Clock::get().ns(cycles)
}

/// Has the core for so long: from when to when (TSC).
fn keep_core() -> (u64, u64) {
    let from = clock::now();
    while ns(clock::now() - from) < HELD.as_nanos() as u64 {
        std::hint::spin_loop();
    }
    (from, clock::now())
}

#[test]
fn what_waits_for_a_core_that_the_allocator_took_stays_in_the_figures() {
    // No rung but the first.
    let daemon = Running::start("kept", STUCK);
    let serving = Serving::start(&daemon, Some(LONG_BEAT));
    // The heartbeat is over meanwhile, where there is one.
    let held = match safepoint_kind() {
        SafepointKind::Clock => LONG_BEAT + HELD,
        _ => HELD,
    };
    let mut recorder = Recorder::new(1);
    for _ in 0..ROUNDS {
        let request = serving.begin();
        let evictions = daemon.count("by_eviction");
        let other = serving.held_up(held, || {
            let other = program(builder(&daemon.path, 1), keep_core);
            until("it is to give its core back", || daemon.count("by_eviction") > evictions);
            other
        });
        let (from, to) = ended(other);
        let completion = serving.finish(request);
        let Completion { arrived_tsc, started_tsc, finished_tsc, disturbed, .. } = completion;
        assert!(started_tsc < from && to < finished_tsc, "the other had the core meanwhile");
        let sojourn_ns = ns(finished_tsc - arrived_tsc);
        assert!(u128::from(sojourn_ns) > held.as_nanos());
        recorder.record(0, sojourn_ns, 1_000, disturbed);
        if !disturbed {
            break;
        }
    }
    let kept = recorder.undisturbed();
    assert!(kept.count() == 1, "the allocator alone held up requests in {ROUNDS} rounds");
    assert!(kept.sojourn.max() >= held.as_nanos() as f64);
    serving.end();
}

#[test]
fn what_the_machine_held_up_is_left_out_of_the_undisturbed_figures() {
    if safepoint_kind() != SafepointKind::Clock {
        return; // Others do not know when they are late.
    }
    let daemon = Running::start("left-out", Duration::from_secs(1));
    let serving = Serving::start(&daemon, None);
    let mut recorder = Recorder::new(1);
    for _ in 0..3 {
        let request = serving.begin();
        serving.held_up(HELD, || ());
        let turns = serving.turns();
        until("a safepoint looks at the clock", || serving.turns() > turns + MANY);
        let Completion { arrived_tsc, finished_tsc, disturbed, .. } = serving.finish(request);
        recorder.record(0, ns(finished_tsc - arrived_tsc), 1_000, disturbed);
    }
    assert_eq!((recorder.overall().count(), recorder.undisturbed().count()), (3, 0));
    let report = serving.end();
    assert!(report.noise.gaps >= 3 && report.noise.lost_share > 0.0, "{:?}", report.noise);
}

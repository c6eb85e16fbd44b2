//! A request that no other waits for: the ends of its quanta are seen to without the hook, until another
//! one comes.

use crate::common;

use common::{STUCK, preset, serve};
use curtail::{App, ClassId, Nanos, Preempt, Response, WorkerId};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const QUANTUM: Nanos = Nanos::from_micros(2);
/// The hook is called as often, whatever happens (`engine::CLOSELY_NS`), less a quantum and a look.
const AT_LEAST_US: u64 = 7;
/// Its other calls: where the request begins, where the other one comes, and whenever the core was
/// another program's.
const OTHER_CALLS: u64 = 100;

#[derive(Default)]
struct Seen {
    /// Of processor time.
    ran_us: AtomicU64,
    runs_alone: AtomicBool,
    other_ran: AtomicBool,
}

/// Of the calling kernel thread.
fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// `l` runs alone for a while, and then until an `s` has been served.
struct Lonely(Arc<Seen>);

impl App for Lonely {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request == b"s" {
            self.0.other_ran.store(true, Ordering::Release);
            return response.write(b"served");
        }
        let (begun, on_core) = (Instant::now(), cpu_us());
        while !self.0.other_ran.load(Ordering::Acquire) && begun.elapsed() < STUCK {
            curtail::safepoint();
            let alone = begun.elapsed() > Duration::from_millis(2);
            self.0.runs_alone.store(alone, Ordering::Release);
        }
        self.0.ran_us.store(cpu_us() - on_core, Ordering::Relaxed);
        response.write(b"cut");
    }
}

/// Others wait at the worker, or centrally.
#[test]
fn quanta_pass_without_the_hook_until_another_request_comes() {
    for name in ["tq", "ps"] {
        let seen = Arc::new(Seen::default());
        let (app, watched) = (Lonely(seen.clone()), seen.clone());
        let spec = preset(name).with_quantum(QUANTUM).unwrap();
        let (answers, report) = serve(
            app,
            |server| server.policy(spec).preempt(Preempt::Clock).workers(1),
            move |client, _| {
                let long = client.submit(b"l".to_vec()).unwrap();
                let begun = Instant::now();
                while !watched.runs_alone.load(Ordering::Acquire) {
                    assert!(begun.elapsed() < STUCK, "the request does not run");
                    std::thread::yield_now();
                }
                let short = client.call(b"s".to_vec()).unwrap();
                (short, long.wait().unwrap())
            },
        );
        assert_eq!(answers, (b"served".to_vec(), b"cut".to_vec()), "{name}");
        assert!(report.preemptions > 0, "{name}");
        let calls = report.late_ns.len();
        let most = OTHER_CALLS + seen.ran_us.load(Ordering::Relaxed) / AT_LEAST_US;
        assert!(calls <= most, "{name}: the hook was called {calls} times, not {most}");
    }
}

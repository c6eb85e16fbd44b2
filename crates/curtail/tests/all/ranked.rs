//! Policies that rank requests, in the real runtime: a place is asked for in the middle of a
//! quantum, and the application's hints reach the policy.

use crate::common;

use common::{preset, serve};
use curtail::policy::Spec;
use curtail::{App, Class, ClassId, DispatcherMode, Nanos, Preempt, Response, WorkerId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Requests are a letter: `l`, which goes on until an `s` has been served, or too long; and `s`.
#[derive(Default)]
struct Rivals {
    long_runs: AtomicBool,
    short_ran: AtomicBool,
    hints: AtomicU32,
}

/// Several seconds, at any clock rate.
const TOO_LONG: u64 = 4_000_000_000;

struct Shared(Arc<Rivals>);

impl App for Shared {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        ["short", "long"].into_iter().map(Class::named).collect()
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request == b"l"))
    }

    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        self.0.hints.fetch_add(1, Ordering::Relaxed);
        assert_ne!(request, b"p", "a hint that panics costs no request anything");
        Some(if request == b"l" { Nanos::from_micros(60_000_000) } else { Nanos::from_micros(1) })
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request != b"l" {
            self.0.short_ran.store(true, Ordering::Release);
            return response.write(b"served");
        }
        self.0.long_runs.store(true, Ordering::Release);
        for step in 0..TOO_LONG {
            if step % 32 == 0 {
                curtail::safepoint();
                if self.0.short_ran.load(Ordering::Acquire) {
                    return response.write(b"cut");
                }
            }
        }
        response.write(b"in the way");
    }
}

/// A short request comes while a long one runs: how many pre-emptions, and how many hints were asked
/// for, until the short one has been served and then the long one.
fn short_passes_long(mut spec: Spec, preempt: Preempt) -> (u64, u32) {
    spec.plan_mut(0).deadline = Some(Nanos::from_micros(1));
    spec.plan_mut(1).deadline = Some(Nanos::from_micros(60_000_000));
    let rivals = Arc::new(Rivals::default());
    let (app, seen) = (Shared(rivals.clone()), rivals.clone());
    let name = spec.name.clone();
    let (answers, report) = serve(
        app,
        // On few cores the dispatcher would sleep, and flags be replaced by clocks.
        |server| {
            let server = server.policy(spec).preempt(preempt).workers(1);
            match preempt {
                Preempt::Flag => server.dispatcher(DispatcherMode::Busy),
                _ => server,
            }
        },
        move |client, _| {
            let long = client.submit(b"l".to_vec()).unwrap();
            while !seen.long_runs.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let short = client.call(b"s".to_vec()).unwrap();
            (short, long.wait().unwrap())
        },
    );
    assert_eq!(answers, (b"served".to_vec(), b"cut".to_vec()), "{name}, {preempt}");
    assert_eq!((report.preempt, report.preempt_note), (preempt, None), "{name}");
    (report.preemptions, rivals.hints.load(Ordering::Relaxed))
}

/// Without a quantum's end to help: quanta are a minute.
#[test]
fn a_place_is_asked_for_in_the_middle_of_a_quantum() {
    let minute = Nanos::from_micros(60_000_000);
    let preemptive = |name| preset(name).with_preemptive(true).unwrap();
    for spec in [preset("srpt"), preemptive("fp"), preemptive("edf")] {
        let hints = if spec.name == "srpt" { 2 } else { 0 };
        for preempt in [Preempt::Flag, Preempt::Clock] {
            let spec = spec.clone().with_quantum(minute).unwrap();
            assert_eq!(short_passes_long(spec, preempt), (1, hints), "{preempt}");
        }
    }
}

#[test]
fn queues_for_each_class_take_turns_at_the_ends_of_quanta() {
    let preemptive = |name| preset(name).with_preemptive(true).unwrap();
    for spec in [preset("shinjuku-mq"), preemptive("wrr"), preemptive("drr"), preemptive("cscq")] {
        for preempt in [Preempt::Flag, Preempt::Clock] {
            let (preemptions, hints) = short_passes_long(spec.clone(), preempt);
            assert!(preemptions > 0 && hints == 0, "{}, {preempt}: {preemptions}", spec.name);
        }
    }
}

#[test]
fn a_hint_that_panics_is_none() {
    std::panic::set_hook(Box::new(|_| {}));
    let app = Shared(Arc::new(Rivals::default()));
    let (answer, report) = serve(
        app,
        |server| server.policy(preset("sjf")).workers(1).drain(Duration::from_secs(20)),
        |client, _| client.call(b"p".to_vec()).unwrap(),
    );
    assert_eq!(answer, b"served");
    assert_eq!((report.classes[0].completed, report.malformed), (1, 0));
}

//! Pre-emption by signal: handlers without any safepoint, as compilers make them.

use crate::common;

use common::{look, preset, serve};
use curtail::net::Local;
use curtail::{App, Class, ClassId, DispatcherMode, Nanos, Preempt, Refusal, Response};
use curtail::{Server, ServerBuilder, Ticks, WorkerId, sync};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

const QUANTUM: Nanos = Nanos(20_000);

/// Requests are a verb and a number, as text; no verb has a safepoint.
#[derive(Default)]
struct Plain {
    shared: sync::Mutex<[u64; 2]>,
    torn: AtomicU64,
}

impl App for Plain {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        ["short", "long"].into_iter().map(Class::named).collect()
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(!request.starts_with(b"echo")))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let text = std::str::from_utf8(request).unwrap();
        let (verb, argument) = text.split_once(' ').unwrap();
        let number: u64 = argument.parse().unwrap();
        let answer = match verb {
            "echo" => number,
            "spin" => spin(number),
            "float" => float(number).to_bits(),
            "allocate" => allocate(number),
            "locked" => self.locked(number),
            "outside" => outside(number),
            "together" => sync::no_preempt(|| spin(number)),
            other => panic!("no such verb: {other}"),
        };
        response.write(answer.to_string().as_bytes());
    }
}

/// A chain of operations that no compiler shortens.
#[inline(never)]
fn spin(steps: u64) -> u64 {
    let mut x = black_box(1_u64);
    for step in 0..steps {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(black_box(step));
    }
    x
}

/// Computes so many steps in vector registers, as far as the compiler goes.
#[inline(never)]
fn float(steps: u64) -> f64 {
    let mut lanes: [f64; 16] = black_box(std::array::from_fn(|lane| lane as f64));
    let factors: [f64; 16] = black_box(std::array::from_fn(|lane| 1.0 + 1e-9 * lane as f64));
    for _ in 0..steps {
        for (lane, factor) in lanes.iter_mut().zip(factors) {
            *lane = *lane * factor + 0.5;
        }
    }
    lanes.iter().sum()
}

/// Allocates, resizes, fills and frees all the time; each block knows what it is to hold.
#[inline(never)]
fn allocate(rounds: u64) -> u64 {
    let mut kept: Vec<Vec<u64>> = Vec::new();
    let mut x = 1_u64;
    for round in 0..rounds {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = (x >> 56) as usize + 1;
        let mut block = vec![round; length];
        block.push(round);
        kept.push(block);
        if kept.len() > 32 {
            let block = kept.swap_remove((x >> 40) as usize % kept.len());
            assert!(block.iter().all(|value| *value == block[0]), "a block was overwritten");
        }
    }
    rounds
}

/// Half of its time in a library: not interrupted there, but in between.
#[inline(never)]
fn outside(rounds: u64) -> u64 {
    let (from, mut to) = (vec![7_u8; 1 << 16], vec![0_u8; 1 << 16]);
    for _ in 0..rounds {
        black_box(&mut to).copy_from_slice(black_box(&from));
        spin(2_000);
    }
    u64::from(to[1]) + rounds
}

impl Plain {
    /// Two numbers that are equal whenever the lock is free.
    fn locked(&self, rounds: u64) -> u64 {
        for _ in 0..rounds {
            let mut pair = self.shared.lock().unwrap();
            if pair[0] != pair[1] {
                self.torn.fetch_add(1, Ordering::Relaxed);
            }
            pair[0] += 1;
            spin(300);
            pair[1] += 1;
        }
        self.torn.load(Ordering::Relaxed)
    }
}

fn by_signal(server: ServerBuilder) -> ServerBuilder {
    let spec = preset("tq").with_quantum(QUANTUM).unwrap();
    // Unwatched: where ticks are late, no spare worker does what they are to do.
    server.policy(spec).preempt(Preempt::Signal).workers(1).watchdog(None)
}

/// Both ways to keep time: the dispatcher's ticks, and the worker's own timer.
const WAYS: [DispatcherMode; 2] = [DispatcherMode::Busy, DispatcherMode::Blocking];

fn text(verb: &str, number: u64) -> Vec<u8> {
    format!("{verb} {number}").into_bytes()
}

fn number(answer: &[u8]) -> u64 {
    std::str::from_utf8(answer).unwrap().parse().unwrap()
}

#[test]
fn short_requests_pass_a_loop_without_safepoints() {
    for mode in WAYS {
        for policy in ["tq", "ps", "shinjuku"] {
            let spec = preset(policy).with_quantum(QUANTUM).unwrap();
            let (passed, report) = serve(
                Plain::default(),
                |server| by_signal(server).policy(spec).dispatcher(mode),
                // The client may be kept from its core for longer than the loop takes: then it sees nothing.
                |client, _| {
                    (0..8).find_map(|_| {
                        let long = client.submit(text("spin", 10_000_000)).unwrap();
                        assert_eq!(number(&client.call(text("echo", 5)).unwrap()), 5);
                        let was_running = long.try_take().err();
                        was_running.map(|long| number(&long.wait().unwrap()))
                    })
                },
            );
            assert_eq!(passed, Some(spin(10_000_000)), "{policy} {mode:?}: no request passed");
            assert_eq!((report.preempt, report.preempt_note), (Preempt::Signal, None));
            assert!(report.preemptions > 0 && report.ticks.taken > 0, "{:?}", report.ticks);
        }
    }
}

/// Sends requests, eight at a time, and checks what comes back, until `enough` ticks have come; not
/// for ever.
fn many(
    (verb, rounds, expected): (&'static str, u64, u64),
    mode: DispatcherMode,
    enough: fn(&Ticks) -> bool,
) -> Ticks {
    let (came, report) = serve(
        Plain::default(),
        |server| by_signal(server).dispatcher(mode),
        move |client, handle| {
            for _ in 0..400 {
                let tickets: Vec<_> =
                    (0..8).map(|_| client.submit(text(verb, rounds)).unwrap()).collect();
                for ticket in tickets {
                    assert_eq!(number(&ticket.wait().unwrap()), expected, "{verb}");
                }
                if enough(&look(handle).ticks) {
                    return true;
                }
            }
            false
        },
    );
    let ticks = report.ticks;
    assert!(came, "{verb}, {mode:?}: {ticks:?}");
    assert_eq!((report.abandoned, report.classes[1].failed), (0, 0), "{verb}");
    assert_eq!(ticks.received, ticks.taken + ticks.early + ticks.all_refused());
    ticks
}

fn refused(ticks: &Ticks, why: Refusal) -> u64 {
    ticks.refused[why as usize]
}

#[test]
fn registers_and_floating_point_survive() {
    for mode in WAYS {
        let taken = |ticks: &Ticks| ticks.taken > 300;
        many(("float", 10_000, float(10_000).to_bits()), mode, taken);
        many(("spin", 100_000, spin(100_000)), mode, taken);
    }
}

#[test]
fn handlers_that_allocate_all_the_time_are_right() {
    for mode in WAYS {
        // malloc and free are no application.
        many(("allocate", 10_000, 10_000), mode, |ticks| {
            ticks.received > 2_000 && refused(ticks, Refusal::Library) > 100 && ticks.taken > 20
        });
    }
}

#[test]
fn time_in_a_library_is_refused_and_counted() {
    many(("outside", 200, 207), DispatcherMode::Busy, |ticks| {
        refused(ticks, Refusal::Library) > 20 && ticks.taken > 20
    });
}

#[test]
fn whoever_holds_a_lock_is_not_interrupted() {
    for mode in WAYS {
        // Were it held across a switch, others would find unequal numbers, or wait for ever.
        many(("locked", 100, 0), mode, |ticks| refused(ticks, Refusal::Critical) > 50);
    }
}

#[test]
fn what_is_to_stay_together_stays_together() {
    let ticks = many(("together", 100_000, spin(100_000)), DispatcherMode::Busy, |ticks| {
        refused(ticks, Refusal::Critical) > 50
    });
    let by_the_section = refused(&ticks, Refusal::Critical);
    assert!(ticks.taken * 10 < by_the_section, "nothing else takes much time: {ticks:?}");
}

#[test]
fn policies_and_mechanisms_switch_under_load() {
    let ((), report) = serve(
        Plain::default(),
        |server| server.policy(preset("fcfs")).workers(2),
        |client, handle| {
            let mut tickets = Vec::new();
            for _ in 0..3 {
                for name in ["tq", "ps", "fcfs", "concord"] {
                    let spec = preset(name);
                    let spec = match spec.quantum {
                        Some(_) => spec.with_preempt(curtail::policy::PreemptKind::Signal),
                        None => spec,
                    };
                    handle.switch(spec).unwrap();
                    for _ in 0..8 {
                        tickets.push(client.submit(text("spin", 300_000)).unwrap());
                    }
                }
            }
            for ticket in tickets {
                assert_eq!(number(&ticket.wait().unwrap()), spin(300_000));
            }
            let stats = look(handle);
            assert_eq!(stats.preempt, Preempt::Signal);
            assert_eq!(stats.ticks.taken > 0, stats.preemptions > 0);
        },
    );
    assert_eq!(report.classes[1].completed, 3 * 4 * 8);
    assert!(report.ticks.taken > 0, "{:?}", report.ticks);
}

#[test]
fn what_can_be_interrupted_is_known() {
    let (local, _client) = Local::new(4).unwrap();
    let server = Server::builder(Plain::default()).transport(Box::new(local));
    assert!(server.preempt(Preempt::Signal).build().is_ok());
    let found = curtail::signals().unwrap();
    assert!(found.functions > 10 && found.others > 100, "{found:?}");
}

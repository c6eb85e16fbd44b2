//! A record plays to the same end; anything else is named.

use curtail_policy::{ClassId, JobId, Nanos, Spec, WorkerId, dispatched};
use curtail_sched::record::Tap;
use curtail_sched::{Action, Arrival, Command, Event, EventKind, Expiry, Scheduler, Setup};
use curtail_sim::{Replay, ReplayError, replay};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const WORKERS: usize = 3;
const JOBS: usize = 40;

/// Plays a little system under recording: jobs come, run, and leave in an order that depends on
/// what is decided. In its middle another policy takes over.
fn record(first: &str, second: &str) -> Vec<u8> {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let into = bytes.clone();
    let drain = move |chunk: Vec<u8>| {
        into.lock().unwrap().extend(chunk);
        Some(Vec::new())
    };
    let spec = |name| Spec::preset(name).unwrap();
    let setup = Setup {
        spec: spec(first),
        workers: WORKERS,
        jobs: JOBS,
        seed: 7,
        pins: false,
        keeps_room: false,
    };
    let mut sched = Scheduler::new(setup, Some(Tap::new(Box::new(drain))));
    let mut held: VecDeque<(JobId, WorkerId)> = VecDeque::new();
    for step in 0..4_000_u64 {
        let now = Nanos(step * 137);
        if step == 2_000 {
            let command = Command::Policy { spec: Box::new(spec(second)), pins: true };
            sched.handle_command(now, command);
        }
        if step % 5 < 4 {
            let class = ClassId((step % 4) as u16);
            let _ = sched.handle_arrival(now, Arrival { class, at: now, hint: None }, |_| ());
        }
        if step % 11 == 0 {
            sched.handle_serviced(WorkerId((step % WORKERS as u64) as u16), step / 10);
        }
        while let Some(action) = sched.poll_action(now) {
            if let Action::Run { job, on, .. } = action {
                held.push_back((job, on));
            }
        }
        if step % 3 != 0
            && let Some((job, on)) = held.pop_front()
        {
            let attained = sched.get(job).0.attained + Nanos(500);
            let expiry = sched.quantum_over(now, on);
            let what = match expiry {
                _ if step % 7 == 1 => EventKind::Yielded,
                Expiry::Yield if step % 7 == 0 && sched.setup().spec.shares() => {
                    EventKind::Preempted
                }
                _ => EventKind::Ended,
            };
            sched.handle_event(now, on, Event { job, attained, what });
        }
    }
    drop(sched);
    Arc::try_unwrap(bytes).unwrap().into_inner().unwrap()
}

fn play(bytes: &[u8]) -> Replay {
    replay(bytes).unwrap()
}

#[test]
fn the_same_calls_give_the_same_answers() {
    let names: Vec<&str> = dispatched().map(|entry| entry.name).collect();
    for (i, first) in names.iter().enumerate() {
        if Spec::preset(first).unwrap().validate(WORKERS).is_err() {
            continue;
        }
        let second = names[(i + 3) % 7];
        let found = play(&record(first, second));
        assert_eq!(found.difference, None, "{first}, then {second}");
        assert_eq!(found.policies, [*first, second]);
        assert!(found.decisions > 1_000 && found.calls > 3_000 && !found.cut_off, "{found:?}");
        assert_eq!(found.span, Nanos(3_999 * 137));
    }
}

#[test]
fn the_first_difference_is_named() {
    let bytes = record("jbsq", "fcfs");
    // Another k than the recorded one, in the header's fields and in what it shows.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("never 2\n") && text.contains("jbsq: 2,"));
    let swap = |bytes: &mut Vec<u8>, from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|it| it == from.as_bytes()).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    };
    let mut other = bytes.clone();
    swap(&mut other, "never 2\n", "never 1\n");
    swap(&mut other, "jbsq: 2,", "jbsq: 1,");
    let found = play(&other);
    let difference = found.difference.expect("another k decides otherwise");
    assert_eq!(difference.call, found.calls, "it ends there");
    assert!(difference.recorded.starts_with("run job"), "{difference:?}");
    assert_eq!(difference.replayed, "nothing");

    let mut newer = bytes;
    swap(&mut newer, "jbsq: 2,", "jbsq: 3,");
    let error = replay(&newer[..]).unwrap_err().to_string();
    assert!(error.contains("another version"), "{error}");
}

#[test]
fn what_was_stopped_is_played_as_far_as_it_goes() {
    let bytes = record("tq", "ps");
    let whole = play(&bytes);
    for cut in [1, 2, 3, 50, bytes.len() / 2] {
        let found = play(&bytes[..bytes.len() - cut]);
        assert!(found.difference.is_none() && found.calls < whole.calls, "{found:?}");
    }
    assert!(play(&bytes[..bytes.len() - 1]).cut_off);
}

#[test]
fn what_is_no_record_is_refused() {
    assert!(matches!(replay(&b""[..]), Err(ReplayError::NoRecord)));
    assert!(matches!(replay(&b"{\"schema\": 1}"[..]), Err(ReplayError::NoRecord)));
    let says = |bytes: &[u8], what: &str| {
        let error = replay(bytes).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    says(b"CURTREC2\x09\x00", "before any policy");
    says(b"CURTREC2\x63", "no call number 99");
    let good = record("fcfs", "fcfs");
    // A job completes that never arrived; a worker that there is not.
    says(&[&good[..], &[12, 0, 0, 39, 0]].concat(), "refuses it");
    says(&[&good[..], &[7, 0, 9]].concat(), "what there is not");
}

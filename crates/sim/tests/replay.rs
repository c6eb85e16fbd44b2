//! A record plays to the same end; anything else is named.

use curtail_policy::record::{Tap, Tapped};
use curtail_policy::{ClassId, Decision, Job, JobId, Nanos, Policy, Spec, WorkerId, dispatched};
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
    let size = (WORKERS, JOBS, 7);
    let spec = |name| Spec::preset(name).unwrap();
    let mut policy = Tapped::new(&spec(first), size, Some(Tap::new(Box::new(drain))));
    let mut free: Vec<u32> = (0..JOBS as u32).collect();
    let mut held: VecDeque<(Job, WorkerId)> = VecDeque::new();
    for step in 0..4_000_u64 {
        let now = Nanos(step * 137);
        if step == 2_000 {
            let mut next = policy.successor(&spec(second), size);
            held.iter().for_each(|&(job, on)| next.adopt(now, on, job));
            while let Some(job) = policy.evict() {
                next.inherit(now, job);
            }
            policy = next;
        }
        if step % 5 < 4
            && let Some(id) = free.pop()
        {
            let job = Job::new(JobId(id), ClassId((step % 4) as u16), now);
            if policy.arrive(now, job).is_err() {
                free.push(id);
            }
        }
        while let Decision::Run { job, on, .. } = policy.decide(now) {
            held.push_back((job, on));
        }
        if step % 3 != 0
            && let Some((mut job, on)) = held.pop_front()
        {
            job.attained += Nanos(500);
            if on != WorkerId::DISPATCHER && !policy.wants_place(now, on) {
                policy.renewed(now, on);
            }
            if step % 7 == 0
                && Spec::preset(if step < 2_000 { first } else { second }).unwrap().shares()
            {
                policy.yielded(now, on, job);
            } else {
                policy.completed(now, on, job.id, job.attained);
                free.push(job.id.0);
            }
        }
        if on_turn(step) {
            policy.serviced(WorkerId((step % WORKERS as u64) as u16), step / 10);
        }
    }
    drop(policy);
    Arc::try_unwrap(bytes).unwrap().into_inner().unwrap()
}

fn on_turn(step: u64) -> bool {
    step.is_multiple_of(11)
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
    says(b"CURTREC2\x0c\x00", "before any policy");
    says(b"CURTREC2\x63", "no call number 99");
    let good = record("fcfs", "fcfs");
    // A job completes that never arrived; a worker that there is not.
    says(&[&good[..], &[6, 0, 0, 3, 0]].concat(), "refuses it");
    says(&[&good[..], &[15, 0, 9]].concat(), "what there is not");
}

//! A record says what happened, and its bytes say the record.

use curtail_policy::*;
use curtail_sched::record::{Call, Damaged, MAGIC, Reader, Tap};
use curtail_sched::*;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// A tap, and the bytes that come out of it.
fn tap() -> (Tap, Arc<Mutex<Vec<u8>>>) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let into = all.clone();
    let drain = move |bytes: Vec<u8>| {
        into.lock().unwrap().extend(bytes);
        Some(Vec::new())
    };
    (Tap::new(Box::new(drain)), all)
}

fn calls(bytes: &[u8]) -> Vec<Call> {
    let (mut reader, mut calls) = (Reader::default(), Vec::new());
    let mut rest = bytes.strip_prefix(MAGIC).expect("a record begins so");
    while !rest.is_empty() {
        let (call, used) = reader.read(rest).unwrap();
        calls.push(call);
        rest = &rest[used..];
    }
    calls
}

fn specs() -> Vec<Spec> {
    let valid = |spec: &Spec| spec.validate(3).is_ok();
    catalogue().iter().map(|entry| Spec::preset(entry.name).unwrap()).filter(valid).collect()
}

fn setup(policy: &str, workers: usize, jobs: usize) -> Setup {
    Setup {
        spec: Spec::preset(policy).unwrap(),
        workers,
        jobs,
        seed: 1,
        pins: true,
        keeps_room: false,
    }
}

fn arrival(class: u16, at: u64) -> Arrival {
    Arrival { class: ClassId(class), at: Nanos(at), hint: None }
}

#[test]
fn a_setup_is_written_and_read_whole() {
    for spec in specs() {
        let mut spec = spec.knowing([
            ("short".to_owned(), Some(Nanos(500))),
            ("a - name, 100% strange\n".to_owned(), None),
        ]);
        spec.plan_mut(1).bound = Some(7);
        spec.plan_mut(0).deadline = Some(Nanos(10));
        spec.quantum = spec.quantum.map(|_| Nanos(777));
        for pins in [false, true] {
            let setup = Setup {
                spec: spec.clone(),
                workers: 3,
                jobs: 64,
                seed: 9,
                pins,
                keeps_room: !pins,
            };
            assert_eq!(setup.to_string().parse(), Ok(setup));
        }
    }
}

#[test]
fn an_option_that_the_text_does_not_know_is_noticed() {
    let text = setup("tq", 1, 2).to_string().replace("jbsq", "new_option: 5, jbsq");
    let error = text.parse::<Setup>().unwrap_err();
    assert!(error.contains("another version") && error.contains("new_option"), "{error}");
    assert!("".parse::<Setup>().is_err());
    assert!("policy tq\n".parse::<Setup>().unwrap_err().contains("size"));
}

#[test]
fn calls_are_noted_with_their_answers_and_idle_polls_once() {
    let (tap, bytes) = tap();
    let mut sched = Scheduler::new(setup("shinjuku", 1, 1), Some(tap));
    let on = WorkerId(0);
    for _ in 0..3 {
        assert_eq!(sched.poll_action(Nanos(95)), None);
    }
    let job = sched.handle_arrival(Nanos(100), arrival(1, 90), |_| ()).unwrap();
    let Some(action @ Action::Run { .. }) = sched.poll_action(Nanos(101)) else {
        panic!("it runs")
    };
    assert_eq!(sched.handle_arrival(Nanos(102), arrival(2, 91), |_| ()), Err(Full));
    assert_eq!(sched.quantum_over(Nanos(110), on), Expiry::Continue);
    sched.handle_serviced(on, 0);
    sched.handle_serviced(on, 4);
    sched.handle_serviced(on, 4);
    sched.worker_down(Nanos(111), on);
    sched.worker_down(Nanos(112), on);
    sched.worker_up(Nanos(113), on);
    let ended = Event { job, attained: Nanos(19), what: EventKind::Ended };
    sched.handle_event(Nanos(120), on, ended);
    let spec = Box::new(Spec::preset("tq").unwrap());
    sched.handle_command(Nanos(130), Command::Policy { spec, pins: false });
    sched.handle_command(Nanos(131), Command::Quantum(Some(Nanos(5))));
    drop(sched);
    let calls = calls(&bytes.lock().unwrap());
    let next = Setup { pins: false, ..setup("tq", 1, 1) };
    let admitted = Some(JobId(0));
    let expected = [
        Call::Begin(setup("shinjuku", 1, 1)),
        Call::Poll { now: Nanos(95), action: None },
        Call::Arrive { now: Nanos(100), arrival: arrival(1, 90), admitted },
        Call::Poll { now: Nanos(101), action: Some(action) },
        Call::Arrive { now: Nanos(102), arrival: arrival(2, 91), admitted: None },
        Call::QuantumOver { now: Nanos(110), on, yields: false },
        Call::Serviced { on, quanta: 4 },
        Call::WorkerDown { now: Nanos(111), on },
        Call::WorkerUp { now: Nanos(113), on },
        Call::Event { now: Nanos(120), on, event: ended },
        Call::Switch { now: Nanos(130), setup: next },
        Call::Quantum { quantum: Some(Nanos(5)) },
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_drain_without_room_ends_the_record_and_nothing_else() {
    let mut chunks = 0;
    let drain = move |bytes: Vec<u8>| {
        chunks += 1;
        assert!(bytes.len() <= Tap::CHUNK && chunks <= 2);
        (chunks < 2).then(Vec::new)
    };
    let tap = Tap::new(Box::new(drain));
    let mut sched = Scheduler::new(setup("fcfs", 1, 4), Some(tap));
    for now in 0..100_000 {
        let job = sched.handle_arrival(Nanos(now), arrival(0, now), |_| ()).unwrap();
        assert!(matches!(sched.poll_action(Nanos(now)), Some(Action::Run { .. })));
        let event = Event { job, attained: Nanos(1), what: EventKind::Ended };
        sched.handle_event(Nanos(now), WorkerId(0), event);
    }
}

fn any_arrival() -> impl Strategy<Value = Arrival> {
    (any::<u16>(), any::<u64>(), any::<Option<u64>>()).prop_map(|(class, at, hint)| Arrival {
        class: ClassId(class),
        at: Nanos(at),
        hint: hint.map(Nanos),
    })
}

proptest! {
    #[test]
    fn bytes_of_any_kind_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::default();
        let mut rest = &bytes[..];
        while let Ok((_, used)) = reader.read(rest) {
            prop_assert!(used > 0 && used <= rest.len());
            rest = &rest[used..];
        }
    }

    /// Whatever is told to a scheduler comes back from the bytes, and no part of them is a call.
    #[test]
    fn calls_round_trip(arrivals in prop::collection::vec((any_arrival(), any::<u64>()), 1..20)) {
        let (tap, bytes) = tap();
        let mut sched = Scheduler::new(setup("fcfs", 1, 0), Some(tap));
        for (arrival, now) in &arrivals {
            // There is no slot for any: all are refused, and nothing is changed.
            prop_assert!(sched.handle_arrival(Nanos(*now), *arrival, |_| ()).is_err());
        }
        drop(sched);
        let bytes = bytes.lock().unwrap();
        let expected: Vec<Call> = arrivals
            .iter()
            .map(|&(arrival, now)| Call::Arrive { now: Nanos(now), arrival, admitted: None })
            .collect();
        prop_assert_eq!(&calls(&bytes)[1..], &expected[..]);
        let mut reader = Reader::default();
        let body = &bytes[MAGIC.len()..];
        let (_, first) = reader.read(body).unwrap();
        let (_, second) = Reader::default().read(&body[first..]).unwrap();
        for end in 0..second {
            prop_assert_eq!(reader.read(&body[first..first + end]), Err(Damaged::CutOff));
        }
    }
}

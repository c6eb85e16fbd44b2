//! A record says what happened, and its bytes say the record.

use curtail_policy::record::{Call, Damaged, Decided, Header, MAGIC, Reader, Tap, Tapped};
use curtail_policy::*;
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
    dispatched().map(|entry| Spec::preset(entry.name).unwrap()).filter(valid).collect()
}

#[test]
fn a_specification_is_written_and_read_whole() {
    for spec in specs() {
        let mut spec = spec.knowing([
            ("short".to_owned(), Some(Nanos(500))),
            ("a - name, 100% strange\n".to_owned(), None),
        ]);
        spec.plan_mut(1).bound = Some(7);
        spec.plan_mut(0).deadline = Some(Nanos(10));
        spec.quantum = spec.quantum.map(|_| Nanos(777));
        let header = Header { spec, workers: 3, jobs: 64, seed: 9 };
        assert_eq!(header.to_string().parse(), Ok(header));
    }
}

#[test]
fn an_option_that_the_text_does_not_know_is_noticed() {
    let header = Header { spec: Spec::preset("tq").unwrap(), workers: 1, jobs: 2, seed: 3 };
    let text = header.to_string().replace("jbsq", "new_option: 5, jbsq");
    let error = text.parse::<Header>().unwrap_err();
    assert!(error.contains("another version") && error.contains("new_option"), "{error}");
    assert!("".parse::<Header>().is_err());
    assert!("policy tq\n".parse::<Header>().unwrap_err().contains("size"));
}

#[test]
fn calls_are_noted_with_their_answers_and_idle_polls_once() {
    let (tap, bytes) = tap();
    let mut policy = Tapped::new(&Spec::preset("shinjuku").unwrap(), (1, 2, 1), Some(tap));
    let on = WorkerId(0);
    let job = Job::new(JobId(0), ClassId(1), Nanos(90));
    for _ in 0..3 {
        assert_eq!(policy.decide(Nanos(95)), Decision::Idle);
    }
    policy.arrive(Nanos(100), job).unwrap();
    let Decision::Run { .. } = policy.decide(Nanos(101)) else { panic!("it runs") };
    assert_eq!(
        policy.arrive(Nanos(102), Job { id: JobId(2), ..job }),
        Err(Refused(Job { id: JobId(2), ..job }))
    );
    assert!(!policy.wants_place(Nanos(109), on));
    policy.renewed(Nanos(110), on);
    policy.serviced(on, 0);
    policy.serviced(on, 4);
    policy.serviced(on, 4);
    policy.completed(Nanos(120), on, JobId(0), Nanos(19));
    let mut next = policy.successor(&Spec::preset("tq").unwrap(), (1, 2, 1));
    next.set_quantum(Some(Nanos(5)));
    drop((policy, next));
    let calls = calls(&bytes.lock().unwrap());
    assert!(matches!(&calls[0], Call::Begin(header) if header.spec.name == "shinjuku"));
    assert!(matches!(&calls[8], Call::Begin(header) if header.spec.name == "tq"));
    let run = Decided::Run { job: JobId(0), on, quantum: Some(Nanos(5_000)) };
    let refused = Job { id: JobId(2), ..job };
    let expected = [
        Call::Decide { now: Nanos(95), decision: Decided::Idle },
        Call::Arrive { now: Nanos(100), job, refused: false },
        Call::Decide { now: Nanos(101), decision: run },
        Call::Arrive { now: Nanos(102), job: refused, refused: true },
        Call::Renewed { now: Nanos(110), on },
        Call::Serviced { on, quanta: 4 },
        Call::Completed { now: Nanos(120), on, job: JobId(0), attained: Nanos(19) },
    ];
    assert_eq!(calls[1..8], expected);
    assert_eq!(calls[9..], [Call::SetQuantum { quantum: Some(Nanos(5)) }]);
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
    let mut policy = Tapped::new(&Spec::preset("fcfs").unwrap(), (1, 4, 1), Some(tap));
    for now in 0..100_000 {
        policy.arrive(Nanos(now), Job::new(JobId(1), ClassId(0), Nanos(now))).unwrap();
        assert!(matches!(policy.decide(Nanos(now)), Decision::Run { .. }));
        policy.completed(Nanos(now), WorkerId(0), JobId(1), Nanos(1));
    }
}

fn any_job() -> impl Strategy<Value = Job> {
    let ids = (any::<u32>(), any::<u16>(), any::<u64>(), any::<u64>());
    (ids, any::<Option<u16>>(), any::<Option<u64>>()).prop_map(
        |((id, class, arrived, attained), pinned, hint)| Job {
            id: JobId(id),
            class: ClassId(class),
            arrived: Nanos(arrived),
            attained: Nanos(attained),
            pinned: pinned.map(WorkerId),
            hint: hint.map(Nanos),
        },
    )
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

    /// Whatever is told to a policy comes back from the bytes, and no part of them is a call.
    #[test]
    fn calls_round_trip(jobs in prop::collection::vec((any_job(), any::<u64>()), 1..20)) {
        let (tap, bytes) = tap();
        let mut policy = Tapped::new(&Spec::preset("fcfs").unwrap(), (1, 0, 1), Some(tap));
        for (job, now) in &jobs {
            // There is no slot for any: all are refused, and nothing is changed.
            prop_assert!(policy.arrive(Nanos(*now), *job).is_err());
        }
        drop(policy);
        let bytes = bytes.lock().unwrap();
        let expected: Vec<Call> = jobs
            .iter()
            .map(|&(job, now)| Call::Arrive { now: Nanos(now), job, refused: true })
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

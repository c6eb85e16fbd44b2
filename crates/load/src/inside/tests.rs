//! The generator under a clock of the test's own.

use super::*;
use curtail_workload::{self as workload, Arrivals, Mix, Until};
use spin::protocol::Request;

/// Takes up to `room` requests and keeps them.
struct Sink {
    room: usize,
    taken: Vec<(u64, u64)>,
}

impl Intake for Sink {
    fn room(&self) -> usize {
        self.room
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        assert_eq!(from, Peer::None);
        assert!(self.room > 0, "handed over without room");
        self.room -= 1;
        self.taken.push((arrived_tsc, Request::decode(payload).unwrap().tag));
    }

    fn malformed(&mut self, _: u64) {
        panic!("nothing is malformed");
    }
}

const START: u64 = 1 << 40;

/// 1,000 arrivals in 1 ms, one each microsecond; the first 100 are warm-up.
fn generator() -> (Generator<SpinRequests<workload::Requests>>, Outbox) {
    let mix = Mix::parse("a:500ns:1").unwrap();
    let outbox = Outbox::default();
    let offer = Offer {
        rate_rps: 1e6,
        requests: SpinRequests(workload::Requests::new(
            &mix,
            Arrivals::Uniform,
            1e6,
            1,
            Until::Jobs(u64::MAX),
        )),
        classes: 1,
        duration_ns: 1_000_000,
        slices: std::iter::once(100_000..1_000_000).collect(),
        ended: None,
    };
    (Generator::new(offer, outbox.clone()), outbox)
}

fn at(us: u64) -> u64 {
    START + Clock::get().cycles(us * 1_000 + 10)
}

fn completion(arrived_tsc: u64, outcome: Outcome) -> Completion {
    Completion {
        peer: Peer::None,
        class: 0,
        outcome,
        tag: 500,
        request_bytes: 8,
        arrived_tsc,
        started_tsc: arrived_tsc,
        finished_tsc: arrived_tsc + Clock::get().cycles(1_000),
        ran_cycles: 0,
        preemptions: 0,
        disturbed: false,
    }
}

fn slice(generator: Generator<SpinRequests<workload::Requests>>, outbox: &Outbox) -> Slice {
    drop(generator);
    let mut slices = outbox.lock().unwrap().take().expect("dropping leaves the slices");
    assert_eq!(slices.len(), 1);
    slices.remove(0)
}

#[test]
fn a_late_poll_hands_over_scheduled_times() {
    let (mut generator, outbox) = generator();
    let mut sink = Sink { room: usize::MAX, taken: Vec::new() };
    assert_eq!(generator.poll(START, &mut sink), Status::Open);
    assert_eq!(sink.taken.len(), 0, "the first is due after a microsecond");
    assert_eq!(generator.poll(at(50), &mut sink), Status::Open);
    assert_eq!(sink.taken.len(), 50);
    let clock = Clock::get();
    for (i, &(arrived, tag)) in sink.taken.iter().enumerate() {
        let ns = clock.ns(arrived - START);
        assert!(ns.abs_diff((i as u64 + 1) * 1_000) <= 2, "{i}: {ns}");
        assert_eq!(tag, 500);
    }
    assert_eq!(generator.poll(at(1_001), &mut sink), Status::Closed);
    assert_eq!(sink.taken.len(), 999, "what is scheduled at the very end is beyond it");
    for &(arrived, _) in &sink.taken {
        generator.completed(&completion(arrived, Outcome::Done));
    }
    let Slice { tally, most_waiting } = slice(generator, &outbox);
    assert_eq!((tally.offered, tally.lost(), most_waiting), (900, 0, 0));
    let all = tally.recorder.overall();
    assert!(all.count().abs_diff(900) <= 1, "{}", all.count());
    assert!((all.slowdown.max() - 2.0).abs() < 0.01);
}

#[test]
fn without_room_requests_wait_and_are_stranded_after_the_grace() {
    let (mut generator, outbox) = generator();
    let mut sink = Sink { room: 0, taken: Vec::new() };
    generator.poll(START, &mut sink);
    assert_eq!(generator.poll(at(500), &mut sink), Status::Open);
    assert_eq!(generator.poll(at(1_050), &mut sink), Status::Open, "within the grace");
    sink.room = 10;
    assert_eq!(generator.poll(at(1_060), &mut sink), Status::Open);
    assert_eq!(sink.taken.len(), 10);
    assert_eq!(generator.poll(at(1_101), &mut sink), Status::Closed);
    assert_eq!(generator.poll(at(1_102), &mut sink), Status::Closed);
    let Slice { tally, most_waiting } = slice(generator, &outbox);
    assert_eq!((tally.offered, tally.lost()), (900, 900));
    assert_eq!((&tally.refused[..], &tally.lost[..]), (&[0][..], &[900][..]));
    assert!((998..=1_000).contains(&most_waiting), "{most_waiting}");
}

#[test]
fn outcomes_are_counted_after_the_warm_up_only() {
    let (mut generator, outbox) = generator();
    generator.poll(START, &mut Sink { room: 0, taken: Vec::new() });
    for outcome in [Outcome::Done, Outcome::Failed, Outcome::Dropped] {
        generator.completed(&completion(at(50), outcome));
        generator.completed(&completion(at(150), outcome));
    }
    let tally = slice(generator, &outbox).tally;
    assert_eq!((tally.recorder.overall().count(), tally.failed), (1, 1));
    assert_eq!(tally.refused, [1]);
    assert!(tally.last_ns.abs_diff(151_010) < 20, "{}", tally.last_ns);
}

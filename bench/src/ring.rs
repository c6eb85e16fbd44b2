//! `ring`: our SPSC ring beside rtrb, on one thread and across two cores, single and in batches.

use crate::Size;
use crate::figure::{Contestant, Figure, Report};
use crate::machine::{Cores, Pinned};
use std::sync::Barrier;
use std::time::Instant;

const CAPACITY: usize = 1_024;
const BATCH: usize = 32;

/// What the benchmark needs of a ring.
trait Ring {
    type Producer: Send;
    type Consumer: Send;
    fn channel(capacity: usize) -> (Self::Producer, Self::Consumer);
    fn push(to: &mut Self::Producer, value: u64) -> bool;
    fn pop(from: &mut Self::Consumer) -> Option<u64>;
    /// Puts in at most [`BATCH`] values from `from` on, up to `end`, and answers how many.
    fn push_batch(to: &mut Self::Producer, from: u64, end: u64) -> usize;
    /// Takes out at most [`BATCH`] values and answers how many and the last one.
    fn pop_batch(from: &mut Self::Consumer, buffer: &mut Vec<u64>) -> usize;
}

struct Ours;

impl Ring for Ours {
    type Producer = curtail_ring::spsc::Producer<u64>;
    type Consumer = curtail_ring::spsc::Consumer<u64>;

    fn channel(capacity: usize) -> (Self::Producer, Self::Consumer) {
        curtail_ring::spsc::channel(capacity)
    }

    #[inline]
    fn push(to: &mut Self::Producer, value: u64) -> bool {
        to.push(value).is_ok()
    }

    #[inline]
    fn pop(from: &mut Self::Consumer) -> Option<u64> {
        from.pop()
    }

    #[inline]
    fn push_batch(to: &mut Self::Producer, from: u64, end: u64) -> usize {
        to.push_from(&mut (from..end.min(from + BATCH as u64)))
    }

    #[inline]
    fn pop_batch(from: &mut Self::Consumer, buffer: &mut Vec<u64>) -> usize {
        from.pop_batch(buffer, BATCH)
    }
}

struct Rtrb;

impl Ring for Rtrb {
    type Producer = rtrb::Producer<u64>;
    type Consumer = rtrb::Consumer<u64>;

    fn channel(capacity: usize) -> (Self::Producer, Self::Consumer) {
        rtrb::RingBuffer::new(capacity)
    }

    #[inline]
    fn push(to: &mut Self::Producer, value: u64) -> bool {
        to.push(value).is_ok()
    }

    #[inline]
    fn pop(from: &mut Self::Consumer) -> Option<u64> {
        from.pop().ok()
    }

    #[inline]
    fn push_batch(to: &mut Self::Producer, from: u64, end: u64) -> usize {
        let wanted = ((end - from) as usize).min(BATCH);
        let chunk = match to.write_chunk_uninit(wanted) {
            Ok(chunk) => chunk,
            Err(rtrb::chunks::ChunkError::TooFewSlots(0)) => return 0,
            Err(rtrb::chunks::ChunkError::TooFewSlots(room)) => {
                to.write_chunk_uninit(room).expect("the room only grows")
            }
        };
        chunk.fill_from_iter(from..end)
    }

    #[inline]
    fn pop_batch(from: &mut Self::Consumer, buffer: &mut Vec<u64>) -> usize {
        let chunk = match from.read_chunk(BATCH) {
            Ok(chunk) => chunk,
            Err(rtrb::chunks::ChunkError::TooFewSlots(0)) => return 0,
            Err(rtrb::chunks::ChunkError::TooFewSlots(there)) => {
                from.read_chunk(there).expect("what is there only grows")
            }
        };
        buffer.extend(chunk);
        buffer.len()
    }
}

/// Waits for the other side: busily, but gives the core up where the other side may need it, and
/// not for ever: after minutes the other side must have died.
struct Patience(u32);

impl Patience {
    #[inline]
    fn wait(&mut self) {
        self.0 = self.0.checked_add(1).expect("the other side does nothing any more");
        if self.0.is_multiple_of(4_096) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

fn per_element(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Push and pop in turn on one thread: nanoseconds for both.
fn alone<R: Ring>(count: u64) -> f64 {
    let (mut producer, mut consumer) = R::channel(CAPACITY);
    let start = Instant::now();
    let mut sum = 0u64;
    for value in 0..count {
        assert!(R::push(&mut producer, value));
        sum = sum.wrapping_add(R::pop(&mut consumer).expect("just pushed"));
    }
    let time = per_element(start, count);
    assert_eq!(sum, total(count));
    time
}

fn alone_batched<R: Ring>(count: u64) -> f64 {
    let (mut producer, mut consumer) = R::channel(CAPACITY);
    let mut buffer = Vec::with_capacity(BATCH);
    let start = Instant::now();
    let (mut next, mut sum) = (0u64, 0u64);
    while next < count {
        next += R::push_batch(&mut producer, next, count) as u64;
        buffer.clear();
        R::pop_batch(&mut consumer, &mut buffer);
        sum = buffer.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
    }
    let time = per_element(start, count);
    assert_eq!(sum, total(count));
    time
}

/// From one core to another: nanoseconds an element.
fn across<R: Ring>(count: u64, batched: bool, cores: Option<Cores>) -> f64 {
    let (mut producer, mut consumer) = R::channel(CAPACITY);
    let ready = &Barrier::new(2);
    std::thread::scope(|scope| {
        // Moved: an end holds its own index, and two ends side by side on one stack would share
        // a cache line.
        scope.spawn(move || {
            let _pin = Pinned::to(cores.map(|c| c.there));
            ready.wait();
            let (mut next, mut patience) = (0, Patience(0));
            while next < count {
                let pushed = if batched {
                    R::push_batch(&mut producer, next, count)
                } else {
                    usize::from(R::push(&mut producer, next))
                };
                if pushed == 0 {
                    patience.wait();
                }
                next += pushed as u64;
            }
        });
        let _pin = Pinned::to(cores.map(|c| c.here));
        ready.wait();
        let start = Instant::now();
        let sum = if batched {
            drain_batched::<R>(&mut consumer, count)
        } else {
            drain::<R>(&mut consumer, count)
        };
        let time = per_element(start, count);
        assert_eq!(sum, total(count));
        time
    })
}

fn drain<R: Ring>(consumer: &mut R::Consumer, count: u64) -> u64 {
    let (mut got, mut sum, mut patience) = (0, 0u64, Patience(0));
    while got < count {
        match R::pop(consumer) {
            Some(value) => (got, sum) = (got + 1, sum.wrapping_add(value)),
            None => patience.wait(),
        }
    }
    sum
}

fn drain_batched<R: Ring>(consumer: &mut R::Consumer, count: u64) -> u64 {
    let (mut got, mut sum, mut patience) = (0, 0u64, Patience(0));
    let mut buffer = Vec::with_capacity(BATCH);
    while got < count {
        buffer.clear();
        match R::pop_batch(consumer, &mut buffer) {
            0 => patience.wait(),
            n => got += n as u64,
        }
        sum = buffer.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
    }
    sum
}

/// There and back between two cores, one element at a time: nanoseconds a round trip.
fn round_trip<R: Ring>(count: u64, cores: Option<Cores>) -> f64 {
    let (mut there, mut their_inbox) = R::channel(8);
    let (mut back, mut our_inbox) = R::channel(8);
    let ready = &Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _pin = Pinned::to(cores.map(|c| c.there));
            ready.wait();
            for _ in 0..count {
                let value = take::<R>(&mut their_inbox);
                assert!(R::push(&mut back, value), "one element in a ring of eight");
            }
        });
        let _pin = Pinned::to(cores.map(|c| c.here));
        ready.wait();
        let start = Instant::now();
        for value in 0..count {
            assert!(R::push(&mut there, value), "one element in a ring of eight");
            assert_eq!(take::<R>(&mut our_inbox), value);
        }
        per_element(start, count)
    })
}

fn take<R: Ring>(from: &mut R::Consumer) -> u64 {
    let mut patience = Patience(0);
    loop {
        if let Some(value) = R::pop(from) {
            return value;
        }
        patience.wait();
    }
}

/// Sum of the numbers below `count`.
fn total(count: u64) -> u64 {
    (u128::from(count) * (u128::from(count).max(1) - 1) / 2) as u64
}

/// One element from core to core through our ring, single: nanoseconds (for other benchmarks that
/// show it beside theirs).
#[must_use]
pub fn raw(size: Size) -> f64 {
    across::<Ours>(size.pick(2_000, 2_000_000), false, Cores::pair())
}

/// Runs the benchmark.
#[must_use]
pub fn run(size: Size) -> Report {
    let mut report = Report::new("ring", size);
    let cores = Cores::pair();
    if cores.is_none() {
        report.notes.push("one core only: the figures across two mean little".to_owned());
    }
    let rounds = size.pick(2, 21);
    let near = size.pick(2_000, 2_000_000);
    let far = size.pick(2_000, 2_000_000);
    let trips = size.pick(200, 50_000);
    let mut figure = |what: &str, contestants: &mut [Contestant<'_>]| {
        report.figures.push(Figure::measure(what, "ns", false, rounds, contestants));
    };
    figure(
        "push and pop on one thread, an element",
        &mut [("curtail", &mut || alone::<Ours>(near)), ("rtrb", &mut || alone::<Rtrb>(near))],
    );
    figure(
        "push and pop on one thread in batches of 32, an element",
        &mut [
            ("curtail", &mut || alone_batched::<Ours>(near)),
            ("rtrb", &mut || alone_batched::<Rtrb>(near)),
        ],
    );
    figure(
        "from one core to another, an element",
        &mut [
            ("curtail", &mut || across::<Ours>(far, false, cores)),
            ("rtrb", &mut || across::<Rtrb>(far, false, cores)),
        ],
    );
    figure(
        "from one core to another in batches of 32, an element",
        &mut [
            ("curtail", &mut || across::<Ours>(far, true, cores)),
            ("rtrb", &mut || across::<Rtrb>(far, true, cores)),
        ],
    );
    figure(
        "to another core and back, a round trip",
        &mut [
            ("curtail", &mut || round_trip::<Ours>(trips, cores)),
            ("rtrb", &mut || round_trip::<Rtrb>(trips, cores)),
        ],
    );
    report
}

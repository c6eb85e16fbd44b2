//! The heap ring: against a model, with elements that count their drops, and between two threads.
#![cfg(not(loom))]

use curtail_ring::spsc::{Consumer, Producer, channel};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;
use std::thread;

#[test]
fn capacity_is_rounded_up() {
    for (asked, given) in [(0, 1), (1, 1), (2, 2), (3, 4), (5, 8), (64, 64), (65, 128)] {
        let (producer, consumer) = channel::<u8>(asked);
        assert_eq!((producer.capacity(), consumer.capacity()), (given, given));
    }
}

#[test]
#[should_panic(expected = "capacity overflow")]
fn absurd_capacity_is_refused() {
    let _ = channel::<u64>(usize::MAX / 2);
}

#[test]
fn full_gives_the_value_back() {
    let (mut producer, mut consumer) = channel(2);
    producer.push("a".to_owned()).unwrap();
    producer.push("b".to_owned()).unwrap();
    assert_eq!(producer.push("c".to_owned()).unwrap_err().into_inner(), "c");
    assert_eq!(consumer.pop().as_deref(), Some("a"));
    producer.push("c".to_owned()).unwrap();
    assert_eq!(consumer.pop().as_deref(), Some("b"));
    assert_eq!(consumer.pop().as_deref(), Some("c"));
    assert_eq!(consumer.pop(), None);
}

#[test]
fn staged_is_invisible_until_published() {
    let (mut producer, mut consumer) = channel(4);
    producer.stage(1).unwrap();
    producer.stage(2).unwrap();
    assert_eq!((producer.staged(), consumer.len(), consumer.pop()), (2, 0, None));
    assert_eq!(producer.free(), 2, "staged elements take room");
    producer.publish();
    assert_eq!((producer.staged(), consumer.len()), (0, 2));
    producer.stage(3).unwrap();
    producer.push(4).unwrap();
    assert_eq!(std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn push_from_takes_no_more_than_fits() {
    let (mut producer, mut consumer) = channel(4);
    let mut values = 0..10;
    assert_eq!(producer.push_from(&mut values), 4);
    assert_eq!(producer.push_from(&mut values), 0);
    let mut out = vec![99];
    assert_eq!(consumer.pop_batch(&mut out, 3), 3);
    assert_eq!(out, [99, 0, 1, 2]);
    assert_eq!(producer.push_from(&mut values), 3);
    assert_eq!(values.next(), Some(7), "not one too many was taken");
    assert_eq!(consumer.pop_batch(&mut out, usize::MAX), 4);
    assert_eq!(out, [99, 0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(consumer.pop_batch(&mut out, usize::MAX), 0);
}

#[test]
fn a_panicking_iterator_loses_nothing() {
    let (mut producer, mut consumer) = channel(4);
    let mut values = (0..4).map(|i| if i == 2 { panic!("on purpose") } else { Box::new(i) });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        producer.push_from(&mut values);
    }));
    assert!(caught.is_err());
    drop(producer);
    assert_eq!(std::iter::from_fn(|| consumer.pop()).map(|b| *b).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn each_side_learns_that_the_other_has_gone() {
    let (mut producer, consumer) = channel(2);
    assert!(!producer.is_abandoned() && !consumer.is_abandoned());
    drop(consumer);
    assert!(producer.is_abandoned());
    producer.push(1).unwrap();

    let (mut producer, mut consumer) = channel(2);
    producer.push(1).unwrap();
    producer.stage(2).unwrap();
    drop(producer);
    assert!(consumer.is_abandoned());
    assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some(1), Some(2), None));
}

#[test]
fn what_is_left_is_dropped_once() {
    let counted = Rc::new(());
    for producer_first in [true, false] {
        let (mut producer, mut consumer) = channel(8);
        for _ in 0..5 {
            producer.push(counted.clone()).unwrap();
        }
        consumer.pop();
        producer.stage(counted.clone()).unwrap();
        assert_eq!(Rc::strong_count(&counted), 6);
        if producer_first {
            drop(producer);
            drop(consumer);
        } else {
            drop(consumer);
            drop(producer);
        }
        assert_eq!(Rc::strong_count(&counted), 1);
    }
}

#[test]
fn elements_without_size_are_counted() {
    let (mut producer, mut consumer) = channel(4);
    assert_eq!(producer.push_from(&mut std::iter::repeat(())), 4);
    assert_eq!(consumer.len(), 4);
    assert_eq!(std::iter::from_fn(|| consumer.pop()).count(), 4);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Stage,
    Publish,
    PushFrom(usize),
    Pop,
    PopBatch(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Push),
        Just(Step::Stage),
        Just(Step::Publish),
        (0..20usize).prop_map(Step::PushFrom),
        Just(Step::Pop),
        (0..20usize).prop_map(Step::PopBatch),
    ]
}

/// The model: what the consumer may see, and what is staged.
struct Model {
    seen: VecDeque<u64>,
    staged: VecDeque<u64>,
    next: u64,
}

impl Model {
    fn room(&self, capacity: usize) -> usize {
        capacity - self.seen.len() - self.staged.len()
    }

    fn publish(&mut self) {
        self.seen.append(&mut self.staged);
    }

    fn apply(&mut self, step: Step, producer: &mut Producer<u64>, consumer: &mut Consumer<u64>) {
        let room = self.room(producer.capacity());
        match step {
            Step::Push | Step::Stage => {
                let publishes = matches!(step, Step::Push);
                let value = self.next;
                let done = if publishes { producer.push(value) } else { producer.stage(value) };
                assert_eq!(done.map_err(|full| full.0), if room > 0 { Ok(()) } else { Err(value) });
                if room > 0 {
                    self.staged.push_back(value);
                    self.next += 1;
                    if publishes {
                        self.publish();
                    }
                }
            }
            Step::Publish => {
                producer.publish();
                self.publish();
            }
            Step::PushFrom(count) => {
                let mut values = self.next..self.next + count as u64;
                assert_eq!(producer.push_from(&mut values), room.min(count));
                self.staged.extend(self.next..values.start);
                self.next = values.start;
                self.publish();
            }
            Step::Pop => assert_eq!(consumer.pop(), self.seen.pop_front()),
            Step::PopBatch(max) => {
                let mut out = Vec::new();
                let count = self.seen.len().min(max);
                assert_eq!(consumer.pop_batch(&mut out, max), count);
                assert_eq!(out, self.seen.drain(..count).collect::<Vec<_>>());
            }
        }
        assert_eq!(producer.staged(), self.staged.len());
    }
}

/// Making up steps is slow under miri.
const STEPS: usize = if cfg!(miri) { 30 } else { 200 };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn behaves_like_a_bounded_queue(
        capacity in 1..9usize, steps in prop::collection::vec((step(), any::<bool>()), 0..STEPS),
    ) {
        let (mut producer, mut consumer) = channel(capacity);
        let mut model = Model { seen: VecDeque::new(), staged: VecDeque::new(), next: 0 };
        for (step, look) in steps {
            model.apply(step, &mut producer, &mut consumer);
            // Looking refreshes the cached indices; both ways must agree with the model.
            if look {
                prop_assert_eq!(producer.free(), model.room(producer.capacity()));
                prop_assert_eq!(producer.is_full(), producer.free() == 0);
                prop_assert_eq!(consumer.len(), model.seen.len());
                prop_assert_eq!(consumer.is_empty(), model.seen.is_empty());
            }
        }
    }
}

/// Sends `count` numbers through a ring by all the ways there are; each thread yields when it can't
/// go on, so that the test ends on one core as well.
fn across_threads(capacity: usize, count: u64) {
    let (mut producer, mut consumer) = channel::<Box<u64>>(capacity);
    let sender = thread::spawn(move || {
        let mut values = (0..count).map(Box::new);
        let mut pushed = 0;
        while pushed < count {
            let batch = (pushed % 5) as usize;
            let before = pushed;
            if batch == 0 {
                while producer.staged() < 3 && !producer.is_full() {
                    let Some(value) = values.next() else { break };
                    producer.stage(value).unwrap();
                    pushed += 1;
                }
                producer.publish();
            } else {
                pushed += producer.push_from(&mut values.by_ref().take(batch)) as u64;
            }
            if pushed == before {
                thread::yield_now();
            }
        }
    });
    let (mut expected, mut out) = (0, Vec::new());
    while expected < count {
        match expected % 3 {
            0 => out.extend(consumer.pop()),
            n => _ = consumer.pop_batch(&mut out, 4 * n as usize),
        }
        if out.is_empty() {
            thread::yield_now();
        }
        for value in out.drain(..) {
            assert_eq!(*value, expected);
            expected += 1;
        }
    }
    sender.join().unwrap();
    assert!(consumer.is_abandoned() && consumer.is_empty());
}

#[test]
fn order_is_kept_across_threads() {
    let count = if cfg!(miri) { 60 } else { 200_000 };
    for capacity in [1, 2, 8, 256] {
        across_threads(capacity, count);
    }
}

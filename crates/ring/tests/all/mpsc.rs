//! The queue of many producers.
#![cfg(not(loom))]

use curtail_ring::mpsc::{Receiver, channel};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;
use std::thread;

fn drain<T>(receiver: &mut Receiver<T>) -> Vec<T> {
    std::iter::from_fn(|| receiver.pop()).collect()
}

#[test]
fn capacity_is_rounded_up_to_two_at_least() {
    for (asked, given) in [(0, 2), (1, 2), (2, 2), (3, 4), (9, 16)] {
        let (sender, mut receiver) = channel(asked);
        assert_eq!((sender.capacity(), receiver.capacity()), (given, given));
        for i in 0..given {
            sender.push(i).unwrap();
        }
        assert_eq!(sender.push(99).unwrap_err().into_inner(), 99);
        assert_eq!(drain(&mut receiver), (0..given).collect::<Vec<_>>());
    }
}

#[test]
fn each_side_learns_that_the_other_has_gone() {
    let (sender, mut receiver) = channel(4);
    let second = sender.clone();
    sender.push(1).unwrap();
    drop(sender);
    assert!(!receiver.is_abandoned());
    second.push(2).unwrap();
    assert!(!second.is_abandoned());
    drop(second);
    assert!(receiver.is_abandoned());
    assert_eq!(drain(&mut receiver), [1, 2]);

    let (sender, receiver) = channel(4);
    sender.push(1).unwrap();
    drop(receiver);
    assert!(sender.is_abandoned());
    assert!(sender.push(2).is_ok(), "room is room");
}

#[test]
fn what_is_left_is_dropped_once() {
    let counted = Rc::new(());
    for taken in 0..8 {
        let (sender, mut receiver) = channel(4);
        for _ in 0..taken {
            sender.push(counted.clone()).unwrap();
            receiver.pop().unwrap();
        }
        for _ in 0..taken % 5 {
            sender.push(counted.clone()).unwrap();
        }
        assert_eq!(Rc::strong_count(&counted), 1 + taken % 5);
        drop((sender, receiver));
        assert_eq!(Rc::strong_count(&counted), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn behaves_like_a_bounded_queue(
        capacity in 2..9usize, pushes in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let (sender, mut receiver) = channel(capacity);
        let mut model = VecDeque::new();
        for (i, push) in pushes.into_iter().enumerate() {
            if push {
                let fits = model.len() < sender.capacity();
                prop_assert_eq!(sender.push(i).is_ok(), fits);
                if fits {
                    model.push_back(i);
                }
            } else {
                prop_assert_eq!(receiver.pop(), model.pop_front());
            }
            prop_assert_eq!(receiver.is_empty(), model.is_empty());
        }
    }
}

#[test]
fn each_senders_order_is_kept_across_threads() {
    let count = if cfg!(miri) { 60 } else { 50_000 };
    let (sender, mut receiver) = channel::<Box<(usize, u64)>>(8);
    thread::scope(|scope| {
        for id in 0..3 {
            let sender = sender.clone();
            scope.spawn(move || {
                for i in 0..count {
                    let mut value = Box::new((id, i));
                    while let Err(full) = sender.push(value) {
                        value = full.into_inner();
                        thread::yield_now();
                    }
                }
            });
        }
        drop(sender);
        let mut next = [0; 3];
        loop {
            let over = receiver.is_abandoned();
            match receiver.pop() {
                Some(value) => {
                    let (id, i) = *value;
                    assert_eq!(i, next[id]);
                    next[id] += 1;
                }
                None if over => break,
                None => thread::yield_now(),
            }
        }
        assert_eq!(next, [count; 3]);
    });
}

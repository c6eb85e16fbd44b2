//! Every interleaving and every value that the memory model allows, within small bounds:
//! `RUSTFLAGS="--cfg loom" cargo test -p curtail-ring --release --test all loom::`.
#![cfg(loom)]

use curtail_ring::seqlock::SeqLock;
use curtail_ring::{EventCount, mpsc, spsc};
use loom::sync::Arc;
use loom::thread;

/// Boxes, so that a slot read twice or never is a double free or a leak as well as a race.
fn boxed(n: u32) -> Box<u32> {
    Box::new(n)
}

#[test]
fn spsc_push_pop() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel(2);
        let sender = thread::spawn(move || {
            // The third finds room only if the consumer has taken one: the slot is used again.
            (0..3).take_while(|n| producer.push(boxed(*n)).is_ok()).count() as u32
        });
        let mut next = 0;
        for _ in 0..2 {
            if let Some(n) = consumer.pop() {
                assert_eq!(*n, next);
                next += 1;
            }
        }
        let sent = sender.join().unwrap();
        assert!(consumer.is_abandoned());
        while let Some(n) = consumer.pop() {
            assert_eq!(*n, next);
            next += 1;
        }
        assert_eq!(next, sent);
        assert!(sent >= 2);
    });
}

#[test]
fn spsc_one_slot() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel(1);
        producer.push(boxed(0)).unwrap();
        let receiver = thread::spawn(move || {
            let mut next = 0;
            for _ in 0..2 {
                if let Some(n) = consumer.pop() {
                    assert_eq!(*n, next);
                    next += 1;
                }
            }
            assert!(next >= 1, "the first was there before the thread");
        });
        let _ = producer.push(boxed(1));
        receiver.join().unwrap();
        assert!(producer.is_abandoned());
    });
}

#[test]
fn spsc_batches() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel(2);
        let sender = thread::spawn(move || {
            let mut values = (0..3).map(boxed);
            producer.push_from(&mut values) as u32 + producer.push_from(&mut values) as u32
        });
        let mut out = Vec::new();
        consumer.pop_batch(&mut out, 2);
        consumer.pop_batch(&mut out, 1);
        let sent = sender.join().unwrap();
        consumer.pop_batch(&mut out, 3);
        assert_eq!(out.into_iter().map(|n| *n).collect::<Vec<_>>(), (0..sent).collect::<Vec<_>>());
    });
}

#[test]
fn spsc_staged_come_together() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel(2);
        let sender = thread::spawn(move || {
            producer.stage(boxed(0)).unwrap();
            producer.stage(boxed(1)).unwrap();
            producer.publish();
        });
        let seen = consumer.len();
        assert!(seen == 0 || seen == 2);
        sender.join().unwrap();
        assert_eq!(consumer.len(), 2);
    });
}

#[test]
fn spsc_abandoned_and_empty_means_all_seen() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel(2);
        let sender = thread::spawn(move || {
            producer.push(boxed(0)).unwrap();
            producer.stage(boxed(1)).unwrap();
        });
        if consumer.is_abandoned() {
            assert_eq!(consumer.len(), 2);
        }
        sender.join().unwrap();
    });
}

/// Two senders, each of which pushes `each` elements, against a receiver that pops meanwhile.
fn two_senders(each: u32) {
    let (sender, mut receiver) = mpsc::channel(2);
    let senders: Vec<_> = [10, 20]
        .map(|first| {
            let sender = sender.clone();
            thread::spawn(move || {
                (first..first + each).take_while(|n| sender.push(boxed(*n)).is_ok()).count()
            })
        })
        .into();
    drop(sender);
    let mut seen = Vec::new();
    seen.extend(receiver.pop());
    let sent: usize = senders.into_iter().map(|s| s.join().unwrap()).sum();
    assert!(receiver.is_abandoned());
    seen.extend(std::iter::from_fn(|| receiver.pop()));
    assert_eq!(seen.len(), sent);
    assert!(sent >= 2, "two fit in any case");
    for first in [10, 20] {
        let own: Vec<_> = seen.iter().map(|n| **n).filter(|n| *n / 10 * 10 == first).collect();
        assert!(own.is_sorted() && own.first().is_none_or(|n| *n == first), "{own:?}");
    }
}

#[test]
fn mpsc_two_senders() {
    loom::model(|| two_senders(1));
}

/// More senders' steps than can be tried in every order: at most two pre-emptions.
#[test]
fn mpsc_two_senders_overflow() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| two_senders(2));
}

#[test]
fn mpsc_slot_is_used_again() {
    loom::model(|| {
        let (sender, mut receiver) = mpsc::channel(2);
        sender.push(boxed(0)).unwrap();
        sender.push(boxed(1)).unwrap();
        let other = thread::spawn(move || sender.push(boxed(2)).is_ok());
        assert_eq!(receiver.pop().as_deref(), Some(&0));
        let pushed = other.join().unwrap();
        assert_eq!(receiver.pop().as_deref(), Some(&1));
        assert_eq!(receiver.pop().as_deref(), pushed.then_some(&2));
    });
}

#[test]
fn mpsc_leftovers_are_dropped() {
    loom::model(|| {
        let (sender, mut receiver) = mpsc::channel(2);
        let other = thread::spawn(move || sender.push(Arc::new(0)).is_ok());
        drop(receiver.pop());
        drop(receiver);
        assert!(other.join().unwrap());
    });
}

#[test]
fn seqlock_is_never_torn() {
    loom::model(|| {
        let lock = Arc::new(SeqLock::new([0u64, 0]));
        let writer = {
            let lock = lock.clone();
            thread::spawn(move || {
                lock.write([1, 1]);
                lock.write([2, 2]);
            })
        };
        let first = lock.try_read();
        let second = lock.try_read();
        for [a, b] in [first, second].into_iter().flatten() {
            assert_eq!(a, b);
        }
        if let (Ok(first), Ok(second)) = (first, second) {
            assert!(first <= second);
        }
        writer.join().unwrap();
        assert_eq!(lock.try_read(), Ok([2, 2]));
    });
}

#[test]
fn seqlock_writers_take_turns() {
    loom::model(|| {
        let lock = Arc::new(SeqLock::new([0u64, 0]));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || lock.try_write([1, 1]).is_ok())
        };
        let mine = lock.try_write([2, 2]).is_ok();
        let others = other.join().unwrap();
        let [a, b] = lock.try_read().unwrap();
        assert_eq!(a, b);
        assert!(mine || others);
        assert_eq!(lock.version(), u64::from(mine) + u64::from(others));
    });
}

#[test]
fn a_sleeper_with_work_is_always_woken() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel(2);
        let doze = Arc::new(EventCount::default());
        let (sleeper, shared) = (thread::current(), doze.clone());
        let waker = thread::spawn(move || {
            producer.push(boxed(1)).unwrap();
            if shared.rouse() {
                sleeper.unpark();
            }
        });
        // A wake-up lost is a deadlock, which loom reports.
        doze.unless(|| !consumer.is_empty(), thread::park);
        assert_eq!(consumer.pop(), Some(boxed(1)));
        waker.join().unwrap();
    });
}

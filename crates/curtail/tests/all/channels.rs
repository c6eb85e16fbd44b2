//! `curtail::sync`'s channels and RCU, on one kthread and on several, with plain threads among them.

use crate::together;

use curtail::sync::mpsc::{self, RecvTimeoutError, TryRecvError, TrySendError};
use curtail::sync::rcu::{self, Rcu};
use curtail::sync::{Mutex, oneshot};
use curtail::time::{sleep, timeout};
use curtail::{Runtime, scope, spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use together::{MS, on_each};

/// Each sender's messages arrive in order, and all of them.
fn check_order(received: impl Iterator<Item = (usize, usize)>, senders: usize, each: usize) {
    let mut next = vec![0; senders];
    for (sender, number) in received {
        assert_eq!(number, next[sender]);
        next[sender] += 1;
    }
    assert_eq!(next, vec![each; senders]);
}

#[test]
fn messages_arrive_in_order() {
    on_each(|| {
        let (sender, receiver) = mpsc::channel();
        for n in 0..4 {
            let sender = sender.clone();
            let send = move || (0..1_000).for_each(|number| sender.send((n, number)).unwrap());
            match n {
                0 => drop(std::thread::spawn(send)),
                _ => drop(spawn(send)),
            }
        }
        drop(sender);
        check_order(receiver.into_iter(), 4, 1_000);
        for bound in [0, 1, 7] {
            let (sender, receiver) = mpsc::sync_channel(bound);
            for n in 0..4 {
                let sender = sender.clone();
                let send = move || (0..200).for_each(|number| sender.send((n, number)).unwrap());
                match n {
                    0 => drop(std::thread::spawn(send)),
                    _ => drop(spawn(send)),
                }
            }
            drop(sender);
            check_order(receiver.iter(), 4, 200);
            assert!(receiver.recv().is_err());
        }
    });
}

#[test]
fn a_plain_thread_receives_from_threads() {
    let (sender, receiver) = mpsc::sync_channel(2);
    let plain = std::thread::spawn(move || receiver.iter().sum::<u32>());
    Runtime::builder().kthreads(2).run(move || {
        for _ in 0..4 {
            let sender = sender.clone();
            drop(spawn(move || (0..100).for_each(|n| sender.send(n).unwrap())));
        }
        drop(sender);
        assert_eq!(plain.join().unwrap(), 4 * 4_950);
    });
}

#[test]
fn bounds_are_kept() {
    on_each(|| {
        let (sender, receiver) = mpsc::sync_channel(1);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        sender.try_send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert!(timeout(MS, || sender.send(2)).is_err(), "a send may be given up");
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
        let before = Instant::now();
        assert_eq!(receiver.recv_timeout(2 * MS), Err(RecvTimeoutError::Timeout));
        assert!(before.elapsed() >= 2 * MS);
        assert!(timeout(MS, || receiver.recv()).is_err());
        sender.send(3).unwrap();
        drop(sender);
        assert_eq!(receiver.recv_timeout(MS), Ok(3));
        assert_eq!(receiver.recv_timeout(MS), Err(RecvTimeoutError::Disconnected));
        let (sender, receiver) = mpsc::channel();
        sender.send(5).unwrap();
        drop(receiver);
        assert_eq!(sender.send(6).unwrap_err().0, 6);
    });
}

#[test]
fn a_channel_without_room_hands_over() {
    on_each(|| {
        let (sender, receiver) = mpsc::sync_channel(0);
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)), "no receiver waits");
        // A message whose send was given up is not received.
        assert!(timeout(MS, || sender.send(1)).is_err());
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        let sent = Arc::new(AtomicBool::new(false));
        let other = {
            let (sender, sent) = (sender.clone(), sent.clone());
            spawn(move || {
                sender.send(2).unwrap();
                sent.store(true, Ordering::Relaxed);
                sender.send(3)
            })
        };
        sleep(2 * MS);
        assert!(!sent.load(Ordering::Relaxed), "not before it was received");
        assert_eq!(receiver.recv(), Ok(2));
        sleep(2 * MS);
        drop(receiver);
        assert_eq!(other.join().unwrap().unwrap_err().0, 3, "it comes back");
        assert_eq!(sender.try_send(4), Err(TrySendError::Disconnected(4)));
    });
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_message_is_dropped_once() {
    on_each(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let new = || Counted(dropped.clone());
        let (sender, receiver) = mpsc::channel();
        (0..10).for_each(|_| sender.send(new()).unwrap());
        drop(receiver.recv().unwrap());
        drop(receiver);
        assert_eq!(dropped.load(Ordering::Relaxed), 10);
        drop(sender.send(new()));
        let (sender, receiver) = oneshot::channel();
        assert!(sender.send(new()).is_ok());
        drop(receiver);
        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        drop(sender.send(new()));
        assert_eq!(dropped.load(Ordering::Relaxed), 13);
    });
}

#[test]
fn one_value_is_sent_once() {
    on_each(|| {
        for plain in [false, true] {
            for _ in 0..100 {
                let (sender, receiver) = oneshot::channel();
                let send = move || assert!(sender.send(7).is_ok());
                match plain {
                    true => drop(std::thread::spawn(send)),
                    false => drop(spawn(send)),
                }
                assert_eq!(receiver.recv(), Ok(7));
            }
        }
        let (sender, receiver) = oneshot::channel::<u8>();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(receiver.recv_timeout(MS), Err(RecvTimeoutError::Timeout));
        drop(spawn(move || drop(sender)));
        assert_eq!(receiver.recv_timeout(1_000 * MS), Err(RecvTimeoutError::Disconnected));
        let (sender, receiver) = oneshot::channel();
        drop(spawn(move || sender.send(1).unwrap()));
        assert_eq!(receiver.recv_timeout(1_000 * MS), Ok(1));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    });
}

/// What is read is whole and not freed; what was replaced is not read any more.
#[test]
fn readers_see_whole_values_while_writers_replace_them() {
    on_each(|| {
        struct Value([u64; 4], bool);
        impl Drop for Value {
            fn drop(&mut self) {
                self.0 = [u64::MAX, 0, 1, 2];
            }
        }
        let value = Arc::new(Rcu::new(Value([0; 4], false)));
        let done = Arc::new(AtomicBool::new(false));
        let read = || {
            let (value, done) = (value.clone(), done.clone());
            move || {
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        value.read(|value| {
                            assert!(value.0.iter().all(|word| *word == value.0[0]));
                            assert!(!value.1, "replaced");
                        });
                    }
                    yield_now();
                }
            }
        };
        let plain = std::thread::spawn(read());
        let readers: Vec<_> = (0..3).map(|_| spawn(read())).collect();
        let until = Instant::now() + 100 * MS;
        for number in 1.. {
            let mut old = value.replace(Value([number; 4], false));
            assert_eq!(old.0[0], number - 1);
            old.1 = true;
            yield_now();
            if Instant::now() > until {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        plain.join().unwrap();
    });
}

#[test]
fn a_writer_waits_for_readers_and_sleeps_meanwhile() {
    Runtime::builder().kthreads(2).run(|| {
        let value = Arc::new(Rcu::new(1));
        let (begun, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let reader = {
            let (value, begun, ends) = (value.clone(), begun.clone(), ends.clone());
            std::thread::spawn(move || {
                value.read(|_| {
                    begun.store(true, Ordering::Release);
                    std::thread::sleep(20 * MS);
                    ends.store(true, Ordering::Release);
                });
            })
        };
        while !begun.load(Ordering::Acquire) {
            yield_now();
        }
        assert_eq!(value.replace(2), 1);
        assert!(ends.load(Ordering::Acquire));
        reader.join().unwrap();
        rcu::synchronize();
    });
}

#[test]
fn who_reads_must_not_wait() {
    on_each(|| {
        let (value, mutex) = (Rcu::new(1), Mutex::new(()));
        let refused =
            |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(|| value.read(|_| f()))).is_err();
        assert!(refused(&|| sleep(MS)) && refused(&yield_now) && refused(&|| _ = value.replace(2)));
        assert!(refused(&|| drop(spawn(|| {}).join())));
        assert!(!refused(&|| drop(mutex.lock().unwrap())), "it was free");
        let held = mutex.lock().unwrap();
        scope(|s| {
            let other = s.spawn(|| refused(&|| drop(mutex.lock().unwrap())));
            assert!(other.join().unwrap());
        });
        drop(held);
        // Nothing is left behind of what was refused.
        drop(mutex.lock().unwrap());
        sleep(MS);
        assert_eq!(value.guard().min(*value.guard()), 1);
    });
}

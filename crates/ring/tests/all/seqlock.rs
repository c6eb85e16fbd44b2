//! The sequence lock: whole values only.
#![cfg(not(loom))]

use curtail_ring::seqlock::{Busy, SeqLock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Two words and a tail that is none.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Odd {
    words: [u32; 4],
    tail: [u8; 4],
}

impl Odd {
    fn of(n: u32) -> Self {
        Self { words: [n, !n, n ^ 1, n ^ 2], tail: n.to_le_bytes() }
    }
}

#[test]
fn reads_what_was_written() {
    let lock = SeqLock::new(Odd::of(1));
    assert_eq!((lock.read(), lock.version()), (Odd::of(1), 0));
    lock.write(Odd::of(2));
    assert_eq!(lock.try_write(Odd::of(3)), Ok(()));
    assert_eq!((lock.try_read(), lock.version()), (Ok(Odd::of(3)), 2));
}

#[test]
fn every_size_survives() {
    fn survives<const N: usize>() {
        let value: [u8; N] = std::array::from_fn(|i| i as u8 + 1);
        let lock = SeqLock::new([0; N]);
        lock.write(value);
        assert_eq!(lock.read(), value);
    }
    survives::<0>();
    survives::<1>();
    survives::<7>();
    survives::<8>();
    survives::<9>();
    survives::<31>();
    let lock = SeqLock::new(1u128);
    lock.write(u128::MAX - 1);
    assert_eq!(lock.read(), u128::MAX - 1);
}

#[test]
fn an_open_write_is_busy_for_everybody() {
    // A peer that died in the middle of a write: the sequence number, which comes first, is odd.
    let lock = SeqLock::new([7u64; 2]);
    let sequence = (&raw const lock).cast::<u64>().cast_mut();
    // SAFETY: the lock begins with its sequence number (`repr(C)`), an atomic.
    let sequence = unsafe { std::sync::atomic::AtomicU64::from_ptr(sequence) };
    sequence.fetch_add(1, Ordering::Relaxed);
    assert_eq!(lock.try_read(), Err(Busy));
    assert_eq!(lock.try_write([8; 2]), Err(Busy));
    sequence.fetch_add(1, Ordering::Relaxed);
    assert_eq!(lock.try_read(), Ok([7; 2]));
}

#[test]
fn no_reader_sees_half_a_write() {
    let writes = if cfg!(miri) { 50 } else { 200_000 };
    let lock = SeqLock::new(Odd::of(0));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    while !over.load(Ordering::Acquire) {
                        let seen = lock.read();
                        assert_eq!(seen, Odd::of(seen.words[0]), "half a write");
                        assert!(seen.words[0] >= last, "an older value after a newer one");
                        last = seen.words[0];
                        thread::yield_now();
                    }
                    assert_eq!(lock.read(), Odd::of(writes));
                })
            })
            .collect();
        for n in 1..=writes {
            lock.write(Odd::of(n));
            if n % 64 == 0 {
                thread::yield_now();
            }
        }
        over.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

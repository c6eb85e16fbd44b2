//! A small value that one thread publishes and any number of threads read, without a lock for the
//! readers.
//!
//! The sequence number is odd while a write is under way. A reader copies the value word by word
//! with relaxed atomic loads and keeps the copy only if the number was even before and the same
//! after. So a reader never sees half of a write, and since no access is a plain one there is no
//! data race for the compiler to exploit.
//!
//! The writer claims the odd number by compare-and-swap: two writers at once are a mistake of the
//! caller, but they take turns, and the value stays whole. The layout is `repr(C)`, so that a
//! `SeqLock` can lie in shared memory; there use the `try_` forms, since a peer may die in the
//! middle of a write or keep one open.

use crate::Pod;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};
use std::fmt;

/// How often to look again before the thread is yielded.
const SPINS: u32 = if cfg!(loom) { 1 } else { 128 };

/// The lock and its value.
#[repr(C, align(8))]
pub struct SeqLock<T> {
    sequence: AtomicU64,
    words: words::Words<T>,
}

/// A write is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a write is under way")
    }
}

impl std::error::Error for Busy {}

impl<T: Pod> SeqLock<T> {
    /// Begins with `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { sequence: AtomicU64::new(0), words: words::Words::new(value) }
    }

    /// One attempt to read.
    ///
    /// # Errors
    /// [`Busy`] when a write got in the way.
    #[inline]
    pub fn try_read(&self) -> Result<T, Busy> {
        let before = self.sequence.load(Ordering::Acquire);
        if before & 1 == 1 {
            return Err(Busy);
        }
        let value = self.words.load();
        // The loads of the words are not to sink below the second look at the number. If one of
        // them saw a later write, then, by that writer's Release fence, the second look sees its
        // odd number or a later one.
        fence(Ordering::Acquire);
        if self.sequence.load(Ordering::Relaxed) == before { Ok(value) } else { Err(Busy) }
    }

    /// The value. Waits, yielding the thread, as long as writes get in the way.
    #[must_use]
    pub fn read(&self) -> T {
        let mut spins = 0;
        loop {
            if let Ok(value) = self.try_read() {
                return value;
            }
            pause(&mut spins);
        }
    }

    /// One attempt to write.
    ///
    /// # Errors
    /// [`Busy`] when another thread is writing.
    #[inline]
    pub fn try_write(&self, value: T) -> Result<(), Busy> {
        let before = self.sequence.load(Ordering::Relaxed);
        if before & 1 == 1 {
            return Err(Busy);
        }
        let (odd, even) = (before.wrapping_add(1), before.wrapping_add(2));
        // Acquire: after the last writer's words.
        self.sequence
            .compare_exchange(before, odd, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Busy)?;
        // The stores of the words are not to rise above the odd number: the counterpart of the
        // reader's fence.
        fence(Ordering::Release);
        self.words.store(value);
        self.sequence.store(even, Ordering::Release);
        Ok(())
    }

    /// Publishes `value`. Waits, yielding the thread, while another thread is writing.
    pub fn write(&self, value: T) {
        let mut spins = 0;
        while self.try_write(value).is_err() {
            pause(&mut spins);
        }
    }

    /// How many writes there have been; changes when the value may have.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.sequence.load(Ordering::Acquire) >> 1
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for SeqLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SeqLock").field(&self.try_read()).finish()
    }
}

fn pause(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(SPINS) { yield_now() } else { spin_loop() }
}

/// The value in place, seen as atomic words and a tail of atomic bytes.
#[cfg(not(loom))]
mod words {
    use crate::Pod;
    use std::cell::UnsafeCell;
    use std::mem::MaybeUninit;
    use std::slice::from_raw_parts;
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

    const WORD: usize = size_of::<u64>();

    // Aligned so that the words are, whatever `T` is.
    #[repr(C, align(8))]
    pub(super) struct Words<T>(UnsafeCell<T>);

    // SAFETY: a shared `Words` is only ever accessed by atomic operations.
    unsafe impl<T: Send> Sync for Words<T> {}

    impl<T: Pod> Words<T> {
        pub(super) fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        #[inline]
        fn parts(&self) -> (&[AtomicU64], &[AtomicU8]) {
            let (base, count) = (self.0.get(), size_of::<T>() / WORD);
            // SAFETY: the value is aligned to 8 and every byte of it is initialised (`Pod`); the
            // slices cover it exactly, and every access to it goes through them.
            unsafe {
                (
                    from_raw_parts(base.cast::<AtomicU64>(), count),
                    from_raw_parts(
                        base.cast::<AtomicU8>().add(count * WORD),
                        size_of::<T>() % WORD,
                    ),
                )
            }
        }

        #[inline]
        pub(super) fn load(&self) -> T {
            let mut copy = MaybeUninit::<T>::uninit();
            let to = copy.as_mut_ptr().cast::<u8>();
            let (words, bytes) = self.parts();
            for (i, word) in words.iter().enumerate() {
                // SAFETY: within `copy`; unaligned, since `T` may be.
                unsafe { to.add(i * WORD).cast::<u64>().write_unaligned(word.load(Relaxed)) };
            }
            for (i, byte) in bytes.iter().enumerate() {
                // SAFETY: within `copy`.
                unsafe { to.add(words.len() * WORD + i).write(byte.load(Relaxed)) };
            }
            // SAFETY: every byte is written, and any bytes are a `T` (`Pod`), even torn ones.
            unsafe { copy.assume_init() }
        }

        #[inline]
        pub(super) fn store(&self, value: T) {
            let from = value.as_bytes();
            let (words, bytes) = self.parts();
            let (chunks, rest) = from.as_chunks::<WORD>();
            for (word, chunk) in words.iter().zip(chunks) {
                word.store(u64::from_ne_bytes(*chunk), Relaxed);
            }
            for (byte, value) in bytes.iter().zip(rest) {
                byte.store(*value, Relaxed);
            }
        }
    }
}

/// loom's atomics are no words of memory: the value is taken apart into a few of them.
#[cfg(loom)]
mod words {
    use crate::Pod;
    use crate::sync::{AtomicU64, Ordering::Relaxed};
    use std::marker::PhantomData;

    pub(super) struct Words<T>(Box<[AtomicU64]>, PhantomData<T>);

    fn take_apart(value: impl Pod) -> Vec<u64> {
        let word = |chunk: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(bytes)
        };
        value.as_bytes().chunks(8).map(word).collect()
    }

    impl<T: Pod> Words<T> {
        pub(super) fn new(value: T) -> Self {
            Self(take_apart(value).into_iter().map(AtomicU64::new).collect(), PhantomData)
        }

        pub(super) fn load(&self) -> T {
            let bytes: Vec<u8> =
                self.0.iter().flat_map(|w| w.load(Relaxed).to_ne_bytes()).collect();
            T::read_from_prefix(&bytes).expect("as many bytes as the value has").0
        }

        pub(super) fn store(&self, value: T) {
            for (word, value) in self.0.iter().zip(take_apart(value)) {
                word.store(value, Relaxed);
            }
        }
    }
}

//! A channel for one value.
//!
//! The state changes under the queue's lock, in which the receiver alone waits.

use crate::block::{self, Deadline, Queue, Wait};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError};
use std::time::Duration;

const EMPTY: u32 = 0;
/// The value is there: the receiver's.
const SENT: u32 = 1;
/// One of the two has gone, and there is no value.
const CLOSED: u32 = 2;

struct Shared<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
    queue: Queue,
}

// SAFETY: the value is written by the sender before SENT, and read by the receiver after.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: it moves with its value.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    /// Changes the state if it is still empty, and wakes the receiver.
    fn finish(&self, state: u32, before: impl FnOnce()) {
        block::with_queue(&self.queue, |locked| {
            if self.state.load(Ordering::Relaxed) != EMPTY {
                return None;
            }
            before();
            self.state.store(state, Ordering::Release);
            locked.pop()
        });
    }

    /// The value, if it was sent and not taken. By the receiver.
    fn take(&self) -> Result<T, TryRecvError> {
        match self.state.load(Ordering::Acquire) {
            EMPTY => Err(TryRecvError::Empty),
            SENT => {
                self.state.store(CLOSED, Ordering::Relaxed);
                // SAFETY: sent, and ours alone from then on.
                Ok(unsafe { (*self.value.get()).assume_init_read() })
            }
            _ => Err(TryRecvError::Disconnected),
        }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The sending half.
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving half.
pub struct Receiver<T>(Arc<Shared<T>>, PhantomData<Cell<()>>);

/// A channel for one value, for threads, handlers and plain threads.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let value = UnsafeCell::new(MaybeUninit::uninit());
    let shared = Shared { state: AtomicU32::new(EMPTY), value, queue: Queue::new() };
    let shared = Arc::new(shared);
    (Sender(shared.clone()), Receiver(shared, PhantomData))
}

impl<T> Sender<T> {
    /// Sends the value. Never waits.
    ///
    /// # Errors
    /// The receiver has gone: the value comes back.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.0.finish(SENT, || {
            if let Some(value) = value.take() {
                // SAFETY: no other thread touches the value before it is SENT.
                unsafe { (*self.0.value.get()).write(value) };
            }
        });
        value.map_or(Ok(()), Err)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.state.load(Ordering::Relaxed) == EMPTY {
            self.0.finish(CLOSED, || {});
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for the value.
    ///
    /// # Errors
    /// The sender has gone without sending one.
    pub fn recv(self) -> Result<T, RecvError> {
        if self.wait(None) == Wait::Expired {
            block::end_by_limit();
        }
        self.0.take().map_err(|_| RecvError)
    }

    /// [`Receiver::recv`], for `duration` at most.
    ///
    /// # Errors
    /// The time was over; or the sender has gone, or the value was taken before.
    pub fn recv_timeout(&self, duration: Duration) -> Result<T, RecvTimeoutError> {
        if self.wait(Deadline::after(duration)) == Wait::Expired && block::over_limit() {
            block::end_by_limit();
        }
        self.0.take().map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    /// The value, if it is there.
    ///
    /// # Errors
    /// It is not; or the sender has gone, or the value was taken before.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.take()
    }

    fn wait(&self, deadline: Option<Deadline>) -> Wait {
        let still = || self.0.state.load(Ordering::Acquire) == EMPTY;
        match still() {
            true => block::wait_in(&self.0.queue, 0, deadline, still, || {}),
            false => Wait::NotNeeded,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.finish(CLOSED, || {});
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

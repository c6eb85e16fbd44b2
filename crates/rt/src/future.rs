//! Futures on threads: [`block_on`].

use crate::block::{self, Deadline, Queue, Wait};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Runs a future to its end, and has the calling thread wait wherever it does. Any future will do
/// that needs no runtime of another kind around it. On a plain thread too.
///
/// The future is polled as ordinary code of the caller's: it may be pre-empted, wait, and use
/// everything that threads may.
///
/// # Panics
/// If the future panics.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (signal, waker) = Signal::new();
    let mut context = Context::from_waker(&waker);
    loop {
        let polled = crate::user::call_with(
            |context: &mut Context<'_>| future.as_mut().poll(context),
            &mut context,
        );
        match polled {
            Poll::Ready(output) => return output,
            Poll::Pending => signal.wait(),
        }
    }
}

/// Runs a future to its end, for `duration` at most; `None`: it was over.
pub fn block_on_for<F: Future + Unpin>(future: &mut F, duration: Duration) -> Option<F::Output> {
    let mut future = Pin::new(future);
    let until = Deadline::after(duration);
    let (signal, waker) = Signal::new();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending if signal.wait_until(until) => {}
            Poll::Pending => return None,
        }
    }
}

/// A wake-up, which stays until it is waited for.
struct Signal {
    /// Changes under the queue's lock.
    woken: AtomicBool,
    waiter: Queue,
}

impl Signal {
    fn new() -> (Arc<Self>, Waker) {
        let signal = Arc::new(Self { woken: AtomicBool::new(false), waiter: Queue::new() });
        (signal.clone(), Waker::from(signal))
    }

    fn wait(&self) {
        let ended = self.wait_until(None);
        debug_assert!(ended, "without a deadline");
    }

    /// False: the deadline has passed.
    fn wait_until(&self, deadline: Option<Deadline>) -> bool {
        let still = || !self.woken.swap(false, Ordering::Acquire);
        let expired = block::wait_in(&self.waiter, 0, deadline, still, || {}) == Wait::Expired;
        if expired && (deadline.is_none() || block::over_limit()) {
            block::end_by_limit();
        }
        !expired
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        enter_critical();
        let mut locked = self.waiter.lock();
        let waiter = locked.pop();
        if waiter.is_none() {
            self.woken.store(true, Ordering::Release);
        }
        drop(locked);
        if let Some(waiter) = waiter {
            block::wake(waiter);
        }
        leave_critical();
    }
}

//! Futures on threads: [`block_on`].

use crate::block::{self, Queue, Wait};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

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
        let still = || !self.woken.swap(false, Ordering::Acquire);
        if block::wait_in(&self.waiter, 0, None, still, || {}) == Wait::Expired {
            block::end_by_limit();
        }
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

//! Futures on threads: [`block_on`].

use crate::block::Deadline;
use crate::thread::Token;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
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
            Poll::Pending => _ = signal.0.take(None),
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
            Poll::Pending if signal.0.take(until) => {}
            Poll::Pending => return None,
        }
    }
}

/// Wakes the thread that polls.
#[derive(Default)]
struct Signal(Token);

impl Signal {
    fn new() -> (Arc<Self>, Waker) {
        let signal = Arc::<Self>::default();
        (signal.clone(), Waker::from(signal))
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.leave();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.leave();
    }
}

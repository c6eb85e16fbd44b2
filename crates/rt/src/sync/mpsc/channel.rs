//! What the ends of a channel share: messages under a mutex, and two condition variables.
//!
//! Nothing of the user's runs under the mutex: messages are dropped outside.

use super::super::{Condvar, Mutex, MutexGuard, PoisonError};
use crate::block::Deadline;
use crate::thread::KThread;
use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, SendError, TrySendError};

pub(super) struct Channel<T> {
    state: Mutex<State<T>>,
    /// The receiver waits here.
    arrived: Condvar,
    /// Senders wait here, for room or until theirs was received.
    received: Condvar,
    bound: Option<usize>,
}

struct State<T> {
    messages: VecDeque<(u64, T)>,
    /// The next message's.
    number: u64,
    senders: usize,
    /// The receiver is there.
    open: bool,
    /// It waits.
    waiting: bool,
}

impl<T> State<T> {
    fn push(&mut self, message: T) -> u64 {
        let number = self.number;
        self.number += 1;
        self.messages.push_back((number, message));
        number
    }

    /// Takes a message out that was not received.
    fn take_back(&mut self, number: u64) -> Option<T> {
        let place = self.messages.iter().position(|(other, _)| *other == number)?;
        self.messages.remove(place).map(|(_, message)| message)
    }

    fn is_pending(&self, number: u64) -> bool {
        self.messages.front().is_some_and(|(first, _)| *first <= number)
            && self.messages.iter().any(|(other, _)| *other == number)
    }
}

impl<T> Channel<T> {
    /// With one sender.
    pub(super) fn new(bound: Option<usize>) -> Self {
        let state =
            State { messages: VecDeque::new(), number: 0, senders: 1, open: true, waiting: false };
        Self { state: Mutex::new(state), arrived: Condvar::new(), received: Condvar::new(), bound }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    pub(super) fn remove_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.arrived.notify_one();
        }
    }

    /// The receiver has gone.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.open = false;
        // Those of senders that wait for their receipt go back to them.
        let messages = match self.bound {
            Some(0) => VecDeque::new(),
            _ => std::mem::take(&mut state.messages),
        };
        drop(state);
        self.received.notify_all();
        drop(messages);
    }

    pub(super) fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut state = self.lock();
        if self.bound == Some(0) {
            return self.hand_over(state, message);
        }
        while state.open && self.bound.is_some_and(|bound| state.messages.len() >= bound) {
            state = self.received.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.open {
            return Err(SendError(message));
        }
        state.push(message);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Sends and waits until it was received.
    fn hand_over(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        message: T,
    ) -> Result<(), SendError<T>> {
        if !state.open {
            return Err(SendError(message));
        }
        let number = state.push(message);
        self.arrived.notify_one();
        let pending = TakeBack { channel: self, number };
        while state.open && state.is_pending(number) {
            state = self.received.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::forget(pending);
        let back = state.take_back(number);
        drop(state);
        back.map_or(Ok(()), |message| Err(SendError(message)))
    }

    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut state = self.lock();
        if !state.open {
            return Err(TrySendError::Disconnected(message));
        }
        let room = match self.bound {
            Some(0) => state.waiting && state.messages.is_empty(),
            Some(bound) => state.messages.len() < bound,
            None => true,
        };
        if !room {
            return Err(TrySendError::Full(message));
        }
        state.push(message);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The oldest message. `Err(Timeout)`: there is none now.
    pub(super) fn try_receive(&self) -> Result<T, RecvTimeoutError> {
        let mut state = self.lock();
        let gone = state.senders == 0;
        let message = state.messages.pop_front();
        drop(state);
        KThread::spend();
        self.taken(message, gone)
    }

    /// The oldest message; waits for one until the deadline.
    pub(super) fn receive(&self, deadline: Option<Deadline>) -> Result<T, RecvTimeoutError> {
        let mut state = self.lock();
        let mut timed_out = false;
        while state.messages.is_empty() && state.senders > 0 && !timed_out {
            state.waiting = true;
            let waiting = StopWaiting { channel: self };
            let ended = self.arrived.wait_timeout_until(state, deadline);
            std::mem::forget(waiting);
            let (again, result) = ended.unwrap_or_else(PoisonError::into_inner);
            (state, timed_out) = (again, result.timed_out());
            state.waiting = false;
        }
        let gone = state.senders == 0;
        let message = state.messages.pop_front();
        drop(state);
        KThread::spend();
        self.taken(message, gone)
    }

    fn taken(&self, message: Option<(u64, T)>, gone: bool) -> Result<T, RecvTimeoutError> {
        match message {
            Some((_, message)) => {
                match self.bound {
                    // Whose it was only that sender knows.
                    Some(0) => self.received.notify_all(),
                    Some(_) => self.received.notify_one(),
                    None => {}
                }
                Ok(message)
            }
            None if gone => Err(RecvTimeoutError::Disconnected),
            None => Err(RecvTimeoutError::Timeout),
        }
    }
}

/// A wait that unwinds (see [`crate::time::timeout`]) leaves no message of its sender behind.
struct TakeBack<'a, T> {
    channel: &'a Channel<T>,
    number: u64,
}

impl<T> Drop for TakeBack<'_, T> {
    fn drop(&mut self) {
        let back = self.channel.lock().take_back(self.number);
        drop(back);
    }
}

/// A wait that unwinds leaves no receiver behind that seems to wait.
struct StopWaiting<'a, T> {
    channel: &'a Channel<T>,
}

impl<T> Drop for StopWaiting<'_, T> {
    fn drop(&mut self) {
        self.channel.lock().waiting = false;
    }
}

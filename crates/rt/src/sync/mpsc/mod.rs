//! Channels of many senders and one receiver: as `std::sync::mpsc`.
//!
//! What both ends share is in `channel`. Errors are the standard library's own types.

mod channel;
mod receiver;

pub use receiver::{IntoIter, Iter, Receiver, TryIter};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use channel::Channel;
use std::fmt;
use std::sync::Arc;

/// The sending half of [`channel`]. Never waits.
pub struct Sender<T>(Arc<Channel<T>>);

/// The sending half of [`sync_channel`]. Waits for room.
pub struct SyncSender<T>(Arc<Channel<T>>);

/// A channel without a bound, for threads, handlers and plain threads.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(None));
    (Sender(channel.clone()), Receiver::new(channel))
}

/// A channel that holds `bound` messages at most. With a bound of 0 each message is handed over:
/// the sender waits until it was received.
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(Some(bound)));
    (SyncSender(channel.clone()), Receiver::new(channel))
}

impl<T> Sender<T> {
    /// Sends a message. Never waits.
    ///
    /// # Errors
    /// The receiver has gone: the message comes back.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.send(message)
    }
}

impl<T> SyncSender<T> {
    /// Sends a message; waits for room, or with a bound of 0 until it was received.
    ///
    /// # Errors
    /// The receiver has gone: the message comes back.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.send(message)
    }

    /// Sends a message if there is room, or with a bound of 0 if the receiver waits.
    ///
    /// # Errors
    /// There is none, or the receiver has gone: the message comes back.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(message)
    }
}

macro_rules! sender {
    ($name:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                self.0.add_sender();
                Self(self.0.clone())
            }
        }

        impl<T> Drop for $name<T> {
            fn drop(&mut self) {
                self.0.remove_sender();
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

sender!(Sender);
sender!(SyncSender);

//! Batch threads beside the others of a program, as pure decisions. They run where nothing else is
//! ready on any kthread ([`Thief`](crate::Thief), steps 6 and 7), and no longer than
//! that: the one that runs looks again and again whether it goes on.
//!
//! **Bounds.** What becomes ready on a kthread that runs a batch thread waits for one look of that. What
//! could be stolen from a kthread that is busy waits for one look of another that runs batch, if
//! there is such a one, since that is called ([`Call::of`]).

use crate::WorkerId;

/// What a kthread sees at a look while it runs a batch thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchLook {
    /// Another thread is ready here that is no batch thread.
    pub ready: bool,
    /// Another kthread has such a thread to spare, and has called this one.
    pub called: bool,
    /// The kthread is wanted for something else: it is to give its core back, or to end.
    pub wanted: bool,
    /// Other batch threads are ready here.
    pub others: bool,
    /// The batch thread's own quantum is over; `false` where it has none.
    pub over: bool,
}

/// What becomes of the batch thread that looked.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchTurn {
    /// It goes on.
    Continue,
    /// It makes room, and is the first batch thread to go on.
    Cut,
    /// It makes room for another batch thread.
    Rotate,
}

impl BatchLook {
    /// What is to be done.
    pub const fn turn(self) -> BatchTurn {
        if self.ready || self.called || self.wanted {
            BatchTurn::Cut
        } else if self.over && self.others {
            BatchTurn::Rotate
        } else {
            BatchTurn::Continue
        }
    }
}

/// Whom a kthread tells that it has a thread to spare.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// One that runs a batch thread: it comes at its next look, within about a microsecond.
    Batch(WorkerId),
    /// One that sleeps: the kernel takes ten times as long to wake it.
    Sleeper(WorkerId),
}

impl Call {
    /// Of the kthreads whose bits are set: those that run batch threads, and those that sleep.
    /// `cuts`: the program has safepoints; without them a batch thread runs for as long as it
    /// likes.
    pub const fn of(batch: u64, asleep: u64, cuts: bool) -> Option<Self> {
        if batch != 0 && (cuts || asleep == 0) {
            Some(Self::Batch(WorkerId(batch.trailing_zeros() as u16)))
        } else if asleep != 0 {
            Some(Self::Sleeper(WorkerId(asleep.trailing_zeros() as u16)))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_else_cuts_a_batch_thread() {
        let calm = BatchLook::default();
        assert_eq!(calm.turn(), BatchTurn::Continue);
        for look in [
            BatchLook { ready: true, ..calm },
            BatchLook { called: true, ..calm },
            BatchLook { wanted: true, ..calm },
            BatchLook { ready: true, over: true, others: true, ..calm },
        ] {
            assert_eq!(look.turn(), BatchTurn::Cut, "{look:?}");
        }
    }

    #[test]
    fn batch_threads_share_by_their_quanta() {
        let look = BatchLook { over: true, others: true, ..BatchLook::default() };
        assert_eq!(look.turn(), BatchTurn::Rotate);
        assert_eq!(BatchLook { others: false, ..look }.turn(), BatchTurn::Continue);
        assert_eq!(BatchLook { over: false, ..look }.turn(), BatchTurn::Continue);
    }

    #[test]
    fn who_runs_batch_is_called_before_who_sleeps() {
        assert_eq!(Call::of(0b100, 0b11, true), Some(Call::Batch(WorkerId(2))));
        assert_eq!(Call::of(0, 0b10, true), Some(Call::Sleeper(WorkerId(1))));
        assert_eq!(Call::of(0, 0, true), None);
        assert_eq!(Call::of(0b100, 0b11, false), Some(Call::Sleeper(WorkerId(0))));
        assert_eq!(Call::of(0b100, 0, false), Some(Call::Batch(WorkerId(2))));
    }
}

//! Cancellation of requests: why, and how a handler notices.
//!
//! **Who touches what.** A request's control block has the mark ([`Cancel`]), which its home alone
//! touches. The canceller (the dispatcher, the ingress loop, a connection's thread) leaves word and sends
//! the kthread a notice (`thread::Shared::notify`); the kthread finds out which of its requests are
//! meant and marks them (`KThread::cancel`), which ends the wait that such a request is in.
//!
//! A request that is marked runs when nothing else is ready. Nothing is unwound but at calls that
//! wait: see `docs/src/cancellation.md`.

use crate::thread::{self, KThread};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::resume_unwind;

/// Why a request is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Cause {
    /// Its client has gone: a connection that was closed, a future that was dropped.
    Departed = 1,
    /// Its deadline has passed.
    Deadline = 2,
    /// The program asked for it ([`Handle::cancel`](../curtail/struct.Handle.html#method.cancel)).
    Asked = 3,
}

impl Cause {
    #[doc(hidden)]
    #[inline]
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Departed),
            2 => Some(Self::Deadline),
            3 => Some(Self::Asked),
            _ => None,
        }
    }

    /// 0: none.
    pub(crate) fn code(this: Option<Self>) -> u8 {
        this.map_or(0, |cause| cause as u8)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Departed => "its client has gone",
            Self::Deadline => "its deadline has passed",
            Self::Asked => "the program asked for it",
        })
    }
}

/// The request that the caller works for was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    cause: Cause,
}

impl Cancelled {
    #[doc(hidden)]
    pub const fn by(cause: Cause) -> Self {
        Self { cause }
    }

    /// The cause of the cancellation.
    #[must_use]
    #[inline]
    pub const fn cause(self) -> Cause {
        self.cause
    }

    /// Of an error of [`io`] that a call of Curtail's gave; `None`: it says something else.
    #[must_use]
    #[inline]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request was cancelled: {}", self.cause)
    }
}

impl std::error::Error for Cancelled {}

/// Of kind [`io::ErrorKind::Other`]: code that meets `Interrupted` tries again.
impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        io::Error::other(cancelled)
    }
}

/// What becomes of requests of a class that are cancelled while they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCancel {
    /// Requests go on as if nothing had happened: work that has to be done. [`check`] tells them.
    Finish,
    /// Requests run when nothing else is ready, and the calls in which they wait end.
    #[default]
    End,
    /// As [`OnCancel::End`], and at the next safepoint they are left where they are, for ever, with
    /// their stacks and all that they own.
    Abandon {
        /// How many of the class may be left so. Then the class refuses requests.
        most: usize,
    },
}

/// A request's mark: in its control block, its home's alone.
pub struct Cancel {
    /// 0: it is not cancelled.
    cause: Cell<u8>,
    /// It runs when nothing else is ready, and its waits end.
    ends: Cell<bool>,
    /// Waits do not end in so many sections of its.
    shields: Cell<u32>,
}

impl Cancel {
    pub(crate) const fn new() -> Self {
        Self { cause: Cell::new(0), ends: Cell::new(false), shields: Cell::new(0) }
    }

    #[inline]
    pub(crate) fn renew(&self) {
        self.cause.set(0);
        self.ends.set(false);
        self.shields.set(0);
    }

    #[inline]
    pub fn cause(&self) -> Option<Cause> {
        Cause::of(self.cause.get())
    }

    /// It goes on when nothing else is ready.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.ends.get()
    }

    /// Its waits end.
    #[inline]
    pub(crate) fn ends_waits(&self) -> bool {
        self.ends.get() && self.shields.get() == 0
    }

    /// `ends`: by the rule of its class.
    pub(crate) fn set(&self, cause: Cause, ends: bool) {
        self.cause.set(cause as u8);
        self.ends.set(ends);
    }

    pub(crate) fn shield(&self) {
        self.shields.set(self.shields.get() + 1);
    }

    pub(crate) fn unshield(&self) {
        self.shields.set(self.shields.get() - 1);
    }
}

/// Whether the request that the caller works for goes on being wanted: in loops that take long, and
/// between steps. On a thread that a handler has spawned it is the handler's request. Where there is
/// no request, all is well.
///
/// ```no_run
/// fn search(rows: &[String], word: &str) -> Result<usize, curtail::Cancelled> {
///     let mut found = 0;
///     for row in rows {
///         curtail::check()?;
///         found += usize::from(row.contains(word));
///     }
///     Ok(found)
/// }
/// ```
///
/// # Errors
/// [`Cancelled`]: it was cancelled.
pub fn check() -> Result<(), Cancelled> {
    match thread::cause() {
        None => Ok(()),
        Some(cause) => Err(Cancelled::by(cause)),
    }
}

/// Runs `f`, whose waits do not end by cancellation: for steps that belong together, as a
/// transaction's. The request is last in the order all the same.
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    struct Shield(Option<&'static crate::thread::Tcb>);
    impl Drop for Shield {
        fn drop(&mut self) {
            if let Some(tcb) = self.0 {
                tcb.cancel.unshield();
            }
        }
    }
    let tcb = KThread::current_tcb();
    if let Some(tcb) = tcb {
        tcb.cancel.shield();
    }
    let _shield = Shield(tcb);
    crate::user::call(f)
}

/// Unwinds a request whose wait has ended by cancellation. Once: destructors on the way, and code
/// that catches it, may wait.
pub(crate) fn unwind(cancel: &Cancel) -> ! {
    cancel.shield();
    resume_unwind(Box::new(Cancelled::by(cancel.cause().unwrap_or(Cause::Asked))))
}

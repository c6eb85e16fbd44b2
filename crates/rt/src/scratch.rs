//! Scratch memory: each request in progress has a value of its own, and the next one gets it again.
//!
//! Any thread's. The lock holds for a push or a pop, in which nothing is pre-empted; the user's
//! functions are called without it.

use crate::block::Spin;
use crate::contain::contain;
use crate::user;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Idle values that are kept, unless told otherwise.
const KEPT: usize = 64;

/// Values for requests to work in: buffers, parsers, tables that are costly to make.
///
/// A `RefCell` in [`App::Worker`](../curtail/trait.App.html#associatedtype.Worker) is of no use for that: while one request that was
/// pre-empted has it borrowed, the next one on the same worker finds it taken and panics. Here each
/// [`get`](Scratch::get) is given a value that no other has, an idle one if there is one. There are
/// never more values than requests in progress (times the `get`s of each), and of those that come back
/// a bounded number is kept.
///
/// ```
/// use curtail::{App, Response, Scratch, WorkerId};
///
/// struct Upper;
///
/// impl App for Upper {
///     type Worker = Scratch<String>; // One for each worker: no other core touches it.
///
///     fn setup_worker(&self, _: WorkerId) -> Scratch<String> {
///         Scratch::new(String::new).reset(|text| {
///             text.clear();
///             text.capacity() <= 64 << 10 // A larger one is dropped.
///         })
///     }
///
///     fn handle(&self, scratch: &Scratch<String>, request: &[u8], response: &mut Response) {
///         let mut text = scratch.get(); // This request's own until the end of the function.
///         text.push_str(&String::from_utf8_lossy(request));
///         text.make_ascii_uppercase();
///         response.write(text.as_bytes());
///     }
/// }
/// ```
///
/// It works in a `static` as well, and for threads.
pub struct Scratch<T> {
    idle: Spin<Vec<T>>,
    keep: usize,
    make: Box<dyn Fn() -> T + Send + Sync>,
    #[allow(clippy::type_complexity)]
    reset: Option<Box<dyn Fn(&mut T) -> bool + Send + Sync>>,
}

impl<T> Scratch<T> {
    /// Values as `make` makes them, when none is idle.
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self { idle: Spin::new(Vec::new()), keep: KEPT, make: Box::new(make), reset: None }
    }

    /// What is done with a value that comes back: `reset` makes it as good as new, and says whether to
    /// keep it. A value that it panics at is dropped.
    #[must_use]
    pub fn reset(mut self, reset: impl Fn(&mut T) -> bool + Send + Sync + 'static) -> Self {
        self.reset = Some(Box::new(reset));
        self
    }

    /// How many idle values are kept at most. Default: 64.
    #[must_use]
    pub fn keep(mut self, values: usize) -> Self {
        self.keep = values;
        self
    }

    /// A value for the caller alone, until it is dropped. It may be kept while the caller waits or is
    /// pre-empted. A second call gives a second value.
    pub fn get(&self) -> Borrowed<'_, T> {
        let idle = self.idle.with(Vec::pop);
        let value = idle.unwrap_or_else(|| user::call(&self.make));
        Borrowed { value: Some(value), home: self }
    }

    /// How many values are idle now.
    pub fn idle(&self) -> usize {
        self.idle.with(|idle| idle.len())
    }

    fn take_back(&self, mut value: T) {
        let keeps = match &self.reset {
            None => true,
            Some(reset) => contain(|| user::call(|| reset(&mut value))).unwrap_or(false),
        };
        let mut value = Some(value);
        if keeps {
            self.idle.with(|idle| {
                if idle.len() < self.keep {
                    idle.extend(value.take());
                }
            });
        }
        // Without the lock: its destructor is the user's.
        drop(value);
    }
}

impl<T> fmt::Debug for Scratch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("idle", &self.idle()).finish_non_exhaustive()
    }
}

/// A value of a [`Scratch`], which goes back there when this is dropped.
pub struct Borrowed<'a, T> {
    /// There until the drop.
    value: Option<T>,
    home: &'a Scratch<T>,
}

impl<T> Deref for Borrowed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("there until the drop")
    }
}

impl<T> DerefMut for Borrowed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("there until the drop")
    }
}

impl<T> Drop for Borrowed<'_, T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.home.take_back(value);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Borrowed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

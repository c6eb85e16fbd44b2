//! Variables of each thread's own: [`uthread_local!`](crate::uthread_local).
//!
//! A thread's values lie in a table of its own, by the key's number. They are made when first used
//! and dropped when their thread ends, the latest made first. Only the thread itself touches them.

use super::kthread::KThread;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

/// A value that has one address until it is dropped.
type Value = Box<dyn Any>;

/// One thread's values.
pub(super) struct Locals {
    /// By key; boxed, since most threads have none.
    table: Cell<Option<Box<Table>>>,
}

#[derive(Default)]
struct Table {
    values: Vec<Option<Value>>,
    /// The keys in the order in which their values were made.
    made: Vec<u32>,
}

impl Locals {
    pub(super) const fn new() -> Self {
        Self { table: Cell::new(None) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.take().unwrap_or_default();
        let result = f(&mut table);
        self.table.set(Some(table));
        result
    }

    fn find(&self, key: u32) -> Option<*const dyn Any> {
        self.with(|table| {
            let value = table.values.get(key as usize)?.as_ref()?;
            Some(&raw const **value)
        })
    }

    fn add(&self, key: u32, value: Value) -> Option<Value> {
        self.with(|table| {
            let index = key as usize;
            if table.values.len() <= index {
                table.values.resize_with(index + 1, || None);
            }
            table.made.push(key);
            table.values[index].replace(value)
        })
    }

    /// Whether there are none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // SAFETY: only this thread touches the cell, and it is not changed meanwhile.
        unsafe { (*self.table.as_ptr()).is_none() }
    }

    /// Leaves all values undropped.
    pub(super) fn forget(&self) {
        std::mem::forget(self.table.take());
    }

    /// Drops all values, also those that are made meanwhile. `goes` is called with each before.
    pub(super) fn destroy(&self, goes: impl Fn(*const ())) {
        let Some(table) = self.table.take() else { return };
        self.table.set(Some(table));
        loop {
            let last = self.with(|table| {
                let key = table.made.pop()?;
                table.values[key as usize].take()
            });
            // Outside of the table: its destructor may use other values.
            let Some(value) = last else { break };
            goes((&raw const *value).cast());
            drop(value);
        }
        drop(self.table.take());
    }
}

thread_local! {
    /// Of plain threads, and of kthreads' own loops.
    static PLAIN: Plain = const { Plain(Locals::new()) };
}

struct Plain(Locals);

impl Drop for Plain {
    fn drop(&mut self) {
        self.0.destroy(|_| {});
    }
}

/// A variable of which each thread has its own: see [`uthread_local!`](crate::uthread_local).
pub struct UthreadKey<T: 'static> {
    number: AtomicU32,
    make: fn() -> T,
}

impl<T: 'static> std::fmt::Debug for UthreadKey<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UthreadKey(..)")
    }
}

impl<T: 'static> UthreadKey<T> {
    #[doc(hidden)]
    pub const fn new(make: fn() -> T) -> Self {
        Self { number: AtomicU32::new(0), make }
    }

    /// The key's number, from 1 on; given out at the first use.
    fn number(&self) -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        match self.number.load(Ordering::Relaxed) {
            0 => {
                let new = NEXT.fetch_add(1, Ordering::Relaxed);
                let set =
                    self.number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
                set.map_or_else(|other| other, |_| new)
            }
            number => number,
        }
    }

    /// Calls `f` with the calling thread's value, which is made first if there is none. A plain
    /// thread has one of its own, too.
    ///
    /// # Panics
    /// On a plain thread that is ending and has dropped its values.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let value = match KThread::current_tcb() {
            Some(tcb) => self.value(&tcb.locals),
            None => PLAIN.with(|plain| self.value(&plain.0)),
        };
        // SAFETY: the value lies in a box of its own until its thread ends or destroys it, which is
        // not before `f` has returned, on the same thread.
        f(unsafe { &*value })
    }

    fn value(&self, locals: &Locals) -> *const T {
        let key = self.number();
        if let Some(found) = locals.find(key) {
            return found.cast();
        }
        // Made outside of the table: it may use other values, and wait.
        let value = Box::new((self.make)());
        let address: *const T = &raw const *value;
        let before = locals.add(key, value);
        debug_assert!(before.is_none(), "made by its own initialiser");
        address
    }
}

impl<T: 'static> UthreadKey<Cell<T>> {
    /// Replaces the value.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// A copy of the value.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }
}

impl<T: 'static> UthreadKey<RefCell<T>> {
    /// Calls `f` with the value, borrowed.
    ///
    /// # Panics
    /// Where it is borrowed mutably.
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Calls `f` with the value, borrowed mutably.
    ///
    /// # Panics
    /// Where it is borrowed.
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }
}

/// Declares variables of which each thread of Curtail's has its own, as [`std::thread_local!`] does
/// for the kernel's threads. A request in progress counts as a thread.
///
/// ```
/// use std::cell::Cell;
/// curtail::uthread_local! {
///     static DEPTH: Cell<u32> = Cell::new(0);
/// }
/// DEPTH.set(DEPTH.get() + 1);
/// ```
#[macro_export]
macro_rules! uthread_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident : $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $(#[$attr])* $vis static $name: $crate::UthreadKey<$t> = $crate::UthreadKey::new(|| $init);
        $($crate::uthread_local!($($rest)*);)?
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident : $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attr])* $vis static $name: $crate::UthreadKey<$t> = $crate::UthreadKey::new(|| $init);
        $($crate::uthread_local!($($rest)*);)?
    };
}

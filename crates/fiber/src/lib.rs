//! Fibers: user-level threads on pooled stacks, and the safepoint ABI.
//!
//! A [`Fiber`] runs one task after another ([`Fiber::start`]); a task may [`suspend`] from any
//! depth, also from inside C++ and from a safepoint, and is resumed with [`Fiber::resume`].
//! Exactly one thread runs a fiber at a time, and everything here but the overflow handler is
//! called by that thread alone.
//!
//! * `stack` — stacks with guards, carved from large mappings, pooled;
//! * `fiber` — the context switch and what is per fiber on a thread (C++ exception state);
//! * [`safepoint`] — this thread's safepoint block (`include/curtail_safepoint.h`);
//! * [`signal`] — ticks that interrupt a fiber between any two instructions of application code;
//! * `overflow` — a stack overflow ends with a message that names the fiber.

mod fiber;
mod overflow;
pub mod safepoint;
pub mod signal;
mod stack;

pub use fiber::{CxxException, Fiber, Label, Suspend, Task, current_label, on_fiber, suspend};
pub use overflow::prepare_thread;
pub use stack::{FiberStack, StackError, StackPool};

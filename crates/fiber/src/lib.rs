//! Fibers: user-level threads on pooled stacks, and the safepoint ABI.
//!
//! A [`Fiber`] runs one task after another ([`Fiber::start`]); a task may [`suspend`] from any
//! depth, also from inside C++ and from a safepoint, and is resumed with [`Fiber::resume`].
//! Exactly one thread runs a fiber at a time, and everything here but the overflow handler and
//! looks at what is suspended is called by that thread alone.
//!
//! * `stack` — stacks with guards, carved from large mappings, pooled;
//! * [`image`] — thread-locals of a stack's own;
//! * `context` — what is saved of a stack that does not run, C++ exception state included;
//! * `switch` — from one stack to another;
//! * `fiber` — a fiber that its owner resumes, one task after another;
//! * [`safepoint`] — this thread's safepoint block (`include/curtail_safepoint.h`);
//! * [`signal`] — ticks that interrupt a fiber between any two instructions of application code;
//! * `suspended` — looks from outside at what is suspended, and at its stacks;
//! * `words` — words of other libraries that follow a fiber, C++ exceptions among them;
//! * `overflow` — a stack overflow ends with a message that names the fiber.

mod alternate_stack;
mod context;
mod entry;
mod fiber;
pub mod image;
mod overflow;
pub mod safepoint;
mod sanitize;
pub mod signal;
mod stack;
mod suspended;
mod switch;
mod words;

pub use context::{
    Context, Kind as ContextKind, Label, current, current_label, on_fiber, own_stack,
};
pub use fiber::{CxxException, Fiber, Suspend, Task, contain_exceptions, suspend};
pub use image::{Locals, end_thread_locals};
pub use overflow::{NameIt, is_on_a_stack, name_threads_by, prepare_thread};
pub use stack::{FiberStack, StackError, StackPool};
pub use suspended::{StackCopy, Suspended, peek, suspended};
pub use switch::{switch, switch_away};

/// Names of functions that are not an application's own: a kind and names or globs of it in each line.
/// Which kinds there are, it says itself.
pub const NAMES: &str = include_str!("../native/names.inc");

//! Fibers: stacks from a pool and what is saved of them while they do not run, and the safepoint ABI.
//!
//! A [`Context`] is readied on a stack ([`Context::prepare`]) and switched to ([`switch`]), from any depth,
//! also from inside C++ and from a safepoint. Exactly one thread runs a fiber at a time, and everything
//! here but the overflow handler and looks at what is suspended is called by that thread alone.
//!
//! * `stack` — stacks with guards, carved from large mappings, pooled;
//! * [`image`] — thread-locals of a stack's own;
//! * `context` — what is saved of a stack that does not run, C++ exception state included;
//! * `switch` — from one stack to another, or to one that is resumed and comes back;
//! * `exceptions` — C++ exceptions that leave what is called;
//! * [`safepoint`] — this thread's safepoint block (`include/curtail_safepoint.h`);
//! * [`ticks`] — what pre-emption by signal needs (the crate `curtail-signal`);
//! * `suspended` — looks from outside at what is suspended, and at its stacks;
//! * `words` — words of other libraries that follow a fiber, C++ exceptions among them;
//! * `overflow` — a stack overflow ends with a message that names the fiber.

mod alternate_stack;
mod context;
mod entry;
mod exceptions;
pub mod image;
mod overflow;
pub mod safepoint;
mod sanitize;
mod stack;
mod suspended;
mod switch;
pub mod ticks;
mod words;

pub use context::{
    Context, Kind as ContextKind, Label, current, current_label, on_fiber, own_stack,
};
pub use exceptions::{CxxException, contain_exceptions};
pub use image::{Locals, end_thread_locals};
pub use overflow::{NameIt, is_on_a_stack, name_threads_by, prepare_thread};
pub use stack::{FiberStack, StackError, StackPool};
pub use suspended::{StackCopy, Suspended, peek, suspended};
pub use switch::{switch, switch_away, switch_back, switch_back_for_good, switch_in};

/// Names of functions that are not an application's own: a kind and names or globs of it in each line.
/// Which kinds there are, it says itself.
pub const NAMES: &str = include_str!("../native/names.inc");

//! Which program has which cores: decisions without clock, thread or I/O. Time is an argument that
//! never goes back.
//!
//! [`Allocator`] is driven by `curtaild`, which has shared memory and system calls around it, and by
//! the simulator, which has virtual time and costs around it. Both do the same, in a loop:
//!
//! 1. say what each program's kthreads published ([`Allocator::look`]), and what else happened
//!    ([`Allocator::packets_waiting`], [`Allocator::refused`], [`Allocator::remove_program`]);
//! 2. take orders until there are no more ([`Allocator::poll_order`]) and carry out each at once, in
//!    their order: what the next look says of a kthread is taken for an answer to the last order;
//! 3. come back when something happens or at [`Allocator::next_wakeup`], whichever is first. The time
//!    is binding.
//!
//! What a program publishes is not trusted. Any look is legal; a program that lies gets no core that
//! it would not get by being busy, and none that is guaranteed to another.
//!
//! It belongs to one thread. Programs that come take memory; nothing else does.
//!
//! Source: Shenango §4.1. The crate's README states the rules.
#![forbid(unsafe_code)]

mod allocator;
mod batch;
mod detect;
mod error;
mod grant;
mod ladder;
mod order;
pub mod record;
mod select;
mod settings;
mod state;

pub use allocator::{Allocator, Holding};
pub use detect::{Detector, KthreadLook, Queue};
pub use error::{MachineError, Refusal};
pub use order::{HandOver, Order};
pub use settings::{
    Class, CoreInfo, MOST_CORES, MOST_KTHREADS, MOST_PROGRAMS, Machine, Program, Selector, Settings,
};

use std::fmt;

/// A time or a span, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The latest time: never.
    pub const MAX: Self = Self(u64::MAX);

    /// This time and so much more.
    #[must_use]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How long ago that was; zero if it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// A core: its place in [`Machine::cores`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u32);

impl CoreId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A program, from [`Allocator::add_program`] until [`Allocator::remove_program`]. A later program
/// may get the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

impl ProgramId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A kthread of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KthreadId {
    /// The program whose kthread it is.
    pub program: ProgramId,
    /// Which, from 0.
    pub index: u32,
}

impl fmt::Display for KthreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.program.0, self.index)
    }
}

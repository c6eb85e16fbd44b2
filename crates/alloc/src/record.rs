//! An allocator's input and its answers, as text, a line for each call: to be read, kept as
//! a test, and played again ([`replay`]).
//!
//! ```text
//! curtail-alloc 1
//! machine 1 0 - -                 the sibling of each core
//! settings interval=5000 …
//! add 100 critical 4 1 3 = 0      time, class, kthreads, guaranteed, burstable; the program
//! look 5100 0 ra 3 5 0 0 120 - 0  for each kthread: r running or p parked, a acknowledged or -,
//!                                 head and tail of run queue and inbox, oldest ready, timer, stranded
//! order 5100 grant 0.1 2 line repin
//! ```

mod read;

pub use read::{Damaged, Difference, replay};

use crate::{
    Allocator, Class, Detector, HandOver, KthreadId, KthreadLook, Machine, Nanos, Order, Program,
    ProgramId, Settings,
};
use std::fmt::Write;

pub(crate) const HEAD: &str = "curtail-alloc 1";

/// A call, or an order that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Add {
        now: Nanos,
        program: Program,
        id: ProgramId,
    },
    Remove {
        now: Nanos,
        program: ProgramId,
    },
    Demote {
        now: Nanos,
        program: ProgramId,
    },
    Packets {
        now: Nanos,
        program: ProgramId,
    },
    Parked {
        now: Nanos,
        kthread: KthreadId,
    },
    Refused {
        now: Nanos,
        kthread: KthreadId,
    },
    Order {
        now: Nanos,
        order: Order,
    },
    /// Something was due, and no order followed.
    Nothing {
        now: Nanos,
    },
}

/// Takes a line without its end.
pub type Sink = Box<dyn FnMut(&str) + Send>;

/// Writes down what happens to an allocator. See the module's head.
pub(crate) struct Tap {
    sink: Sink,
    line: String,
}

impl Tap {
    fn new(sink: Sink) -> Self {
        Self { sink, line: String::new() }
    }

    fn write(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.line.clear();
        write(&mut self.line).expect("a string takes everything");
        (self.sink)(&self.line);
    }

    pub(crate) fn call(&mut self, call: &Call) {
        self.write(|to| match *call {
            Call::Add { now, program, id } => {
                let Program { class, kthreads, guaranteed, burstable } = program;
                let class = match class {
                    Class::LatencyCritical => "critical",
                    Class::Batch { looks: true } => "batch",
                    Class::Batch { looks: false } => "blind",
                };
                write!(to, "add {} {class} {kthreads} {guaranteed} {burstable} = {}", now.0, id.0)
            }
            Call::Remove { now, program } => write!(to, "remove {} {}", now.0, program.0),
            Call::Demote { now, program } => write!(to, "demote {} {}", now.0, program.0),
            Call::Packets { now, program } => write!(to, "packets {} {}", now.0, program.0),
            Call::Parked { now, kthread } => write!(to, "parked {} {kthread}", now.0),
            Call::Refused { now, kthread } => write!(to, "refused {} {kthread}", now.0),
            Call::Order { now, order } => write_order(to, now, order),
            Call::Nothing { now } => write!(to, "nothing {}", now.0),
        });
    }

    pub(crate) fn look(&mut self, now: Nanos, program: ProgramId, looks: &[KthreadLook]) {
        self.write(|to| {
            write!(to, "look {} {}", now.0, program.0)?;
            for look in looks {
                let state = if look.parked { 'p' } else { 'r' };
                let heard = if look.acknowledged { 'a' } else { '-' };
                let (run, inbox) = (look.run, look.inbox);
                write!(
                    to,
                    " {state}{heard} {} {} {} {}",
                    run.head, run.tail, inbox.head, inbox.tail
                )?;
                for time in [look.oldest_ready, look.next_timer] {
                    match time {
                        Some(at) => write!(to, " {}", at.0)?,
                        None => write!(to, " -")?,
                    }
                }
                write!(to, " {}", look.stranded)?;
            }
            Ok(())
        });
    }
}

fn write_order(to: &mut String, now: Nanos, order: Order) -> std::fmt::Result {
    write!(to, "order {} ", now.0)?;
    match order {
        Order::Grant { kthread, core, by, repin } => {
            write!(to, "grant {kthread} {} ", core.0)?;
            match by {
                HandOver::Line => write!(to, "line")?,
                HandOver::Kernel => write!(to, "kernel")?,
                HandOver::Evict(victim) => write!(to, "{victim}")?,
            }
            write!(to, "{}", if repin { " repin" } else { " bound" })
        }
        Order::Wake { kthread } => write!(to, "wake {kthread}"),
        Order::Signal { kthread } => write!(to, "signal {kthread}"),
        Order::MoveToShared { kthread } => write!(to, "shared {kthread}"),
        Order::Revoke { kthread } => write!(to, "revoke {kthread}"),
        Order::Place { kthread, core } => write!(to, "place {kthread} {}", core.0),
    }
}

fn write_settings(to: &mut String, settings: &Settings) -> std::fmt::Result {
    let Settings { interval, detector, selector, idler, grace, give_up, rest, rebalance } =
        settings;
    write!(to, "settings interval={} detector=", interval.0)?;
    match detector {
        Detector::Queues => write!(to, "queues")?,
        Detector::Age { limit } => write!(to, "age:{}", limit.0)?,
        Detector::Either { limit } => write!(to, "either:{}", limit.0)?,
    }
    write!(to, " siblings={} affinity={}", selector.siblings, selector.affinity)?;
    write!(to, " idler={idler} grace={} give_up={}", grace.0, give_up.0)?;
    write!(to, " rest={} rebalance={}", rest.0, rebalance.0)
}

impl Allocator {
    /// An allocator that has everything written down, from the start; see [`Allocator::new`].
    ///
    /// # Errors
    /// Where the machine can't be.
    pub fn recorded(
        machine: Machine,
        settings: Settings,
        sink: Sink,
    ) -> Result<Self, crate::MachineError> {
        let mut tap = Tap::new(sink);
        tap.write(|to| write!(to, "{HEAD}"));
        tap.write(|to| {
            write!(to, "machine")?;
            for core in &machine.cores {
                match core.sibling {
                    Some(sibling) => write!(to, " {}", sibling.0)?,
                    None => write!(to, " -")?,
                }
            }
            Ok(())
        });
        tap.write(|to| write_settings(to, &settings));
        let mut allocator = Self::new(machine, settings)?;
        allocator.tap = Some(tap);
        Ok(allocator)
    }
}

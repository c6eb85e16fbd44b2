//! What the allocator knows: a table of cores, and one of programs with their kthreads.
//!
//! Invariants between calls (`Allocator::check`, in tests after each):
//! * a kthread with a core is that core's holder or heir, and no other core's;
//! * a core has an heir only while its holder is asked to leave;
//! * `Member::cores` counts the kthreads of a program that are granted or running, and not those that
//!   are asked to leave.

use crate::settings::Class;
use crate::{CoreId, KthreadId, KthreadLook, Nanos, Program, ProgramId};

/// A rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// A word was stored.
    Word,
    /// A system call was asked for: the kernel's wake-up of an heir, the signal to a victim.
    Call,
}

/// Where a kthread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has no core and sleeps, as far as is known.
    Parked,
    /// It has no core and says that it runs; after the deadline it is moved.
    Stray { deadline: Nanos },
    /// Moved to the shared core, until it parks.
    Shared,
    /// It has a core and has not been seen there yet. An heir whose core is not free yet has no
    /// deadline: its victim has one.
    Granted { core: CoreId, rung: Rung, deadline: Nanos },
    /// It has a core.
    Running { core: CoreId },
    /// It is to leave its core, which counts for its heir already.
    Evicted { core: CoreId, rung: Rung, deadline: Nanos },
    /// A batch kthread, bound to that core.
    Placed { core: CoreId },
}

impl State {
    /// The core that it has, or is to leave.
    pub(crate) const fn core(self) -> Option<CoreId> {
        match self {
            Self::Granted { core, .. } | Self::Running { core } | Self::Evicted { core, .. } => {
                Some(core)
            }
            _ => None,
        }
    }
}

/// A kthread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kthread {
    pub(crate) state: State,
    /// The core that it is bound to.
    pub(crate) bound: Option<CoreId>,
    /// When it got its core, or lost it.
    pub(crate) since: Nanos,
    /// Orders that write its word and have not been taken. What it says is no answer to them.
    pub(crate) unsent: u32,
    /// What it said last.
    pub(crate) look: KthreadLook,
    /// What it said at the last look for congestion.
    pub(crate) last: Option<KthreadLook>,
    /// It is granted nothing before.
    pub(crate) not_before: Nanos,
    /// What it claimed to have when it was granted a core for that.
    pub(crate) claim: Option<KthreadLook>,
    /// Grants in succession after which it claimed the very same.
    pub(crate) fruitless: u8,
}

impl Kthread {
    const fn new() -> Self {
        Self {
            state: State::Parked,
            bound: None,
            since: Nanos(0),
            unsent: 0,
            look: KthreadLook::IDLE,
            last: None,
            not_before: Nanos(0),
            claim: None,
            fruitless: 0,
        }
    }

    /// It may be granted a core.
    pub(crate) fn is_ready(&self, now: Nanos) -> bool {
        self.state == State::Parked && self.not_before <= now
    }
}

/// A program and its kthreads.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) program: Program,
    /// What it is guaranteed; less than it asked for after it lied.
    pub(crate) guaranteed: u32,
    pub(crate) kthreads: Vec<Kthread>,
    /// Cores that it has.
    pub(crate) cores: u32,
    /// The core that it gave back last.
    pub(crate) recent: Option<CoreId>,
    /// The last look, and the last one for congestion.
    pub(crate) looked: Nanos,
    pub(crate) judged: Option<Nanos>,
    /// Since when it wants a core that it has not got.
    pub(crate) wants: Option<Nanos>,
    /// The first timer of its parked kthreads.
    pub(crate) timer: Option<Nanos>,
}

impl Member {
    pub(crate) fn new(now: Nanos, program: Program) -> Self {
        Self {
            program,
            guaranteed: program.guaranteed,
            kthreads: vec![Kthread::new(); program.kthreads as usize],
            cores: 0,
            recent: None,
            looked: now,
            judged: None,
            wants: None,
            timer: None,
        }
    }

    pub(crate) fn is_critical(&self) -> bool {
        self.program.class == Class::LatencyCritical
    }

    pub(crate) fn is_below_guarantee(&self) -> bool {
        self.cores < self.guaranteed
    }

    pub(crate) fn is_above_guarantee(&self) -> bool {
        self.cores > self.guaranteed
    }

    pub(crate) fn may_have_more(&self) -> bool {
        self.cores < self.program.most()
    }

    /// Kthreads that have a core and have not been seen there.
    pub(crate) fn on_the_way(&self) -> u32 {
        let granted = |kthread: &&Kthread| matches!(kthread.state, State::Granted { .. });
        self.kthreads.iter().filter(granted).count() as u32
    }
}

/// A core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Core {
    pub(crate) sibling: Option<CoreId>,
    /// The kthread that has it, or is to leave it.
    pub(crate) holder: Option<KthreadId>,
    /// Who has it once the holder has left.
    pub(crate) heir: Option<KthreadId>,
    /// Batch kthreads that are bound to it, and those of them that do not look at its line.
    pub(crate) batch: u32,
    pub(crate) blind: u32,
}

impl Core {
    /// No latency-critical program has it.
    pub(crate) const fn is_free(&self) -> bool {
        self.holder.is_none()
    }
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) cores: Vec<Core>,
    pub(crate) members: Vec<Option<Member>>,
    /// Free cores.
    pub(crate) free: u32,
    /// Batch kthreads that are bound to a core.
    pub(crate) placed: u32,
    /// Batch programs whose threads may be on any core: those that look at nothing, and those that
    /// look at the line of the core that they are on.
    pub(crate) unbound: u32,
    pub(crate) floating: u32,
}

impl Tables {
    pub(crate) fn member(&self, program: ProgramId) -> Option<&Member> {
        self.members.get(program.index())?.as_ref()
    }

    pub(crate) fn member_mut(&mut self, program: ProgramId) -> Option<&mut Member> {
        self.members.get_mut(program.index())?.as_mut()
    }

    /// `None` where there is no such kthread: a driver's mistake, or a late message.
    pub(crate) fn kthread(&self, id: KthreadId) -> Option<&Kthread> {
        self.member(id.program)?.kthreads.get(id.index as usize)
    }

    pub(crate) fn kthread_mut(&mut self, id: KthreadId) -> Option<&mut Kthread> {
        self.member_mut(id.program)?.kthreads.get_mut(id.index as usize)
    }

    /// Where a batch program without kthreads is counted.
    pub(crate) fn anywhere(&mut self, class: Class) -> &mut u32 {
        match class {
            Class::Batch { looks: true } => &mut self.floating,
            _ => &mut self.unbound,
        }
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = (ProgramId, &Member)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(id, member)| Some((ProgramId(id as u32), member.as_ref()?)))
    }
}

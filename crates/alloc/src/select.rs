//! Which core (Shenango's Algorithm 2), and which kthread on it.
//!
//! A core can be allocated if it is free; and while none is, if its holder's program is above its
//! guarantee and the one that asks is below its own. Of these: the sibling of a core that the program
//! has, the core that the kthread or the program had last, a free core, any other.
//!
//! Two refinements. Of several free cores, one without batch is better than one whose batch has to
//! stop, and one whose sibling is free or the program's own is better than one beside a stranger. Of
//! several that would have to be taken away, the program furthest above its guarantee loses one, and
//! of its kthreads one without threads that only it can run, the one that got its core last.

use crate::state::{Kthread, Member, State, Tables};
use crate::{CoreId, KthreadId, Nanos, ProgramId, Selector};
use std::cmp::Reverse;

/// The core for a kthread of `program`; for that one, where it is one with work of its own.
pub(crate) fn core(
    tables: &Tables,
    how: Selector,
    program: ProgramId,
    kthread: Option<u32>,
) -> Option<CoreId> {
    let member = tables.member(program)?;
    let can = |core: &CoreId| can_be_allocated(tables, member, *core);
    if how.siblings {
        let held = member.kthreads.iter().filter_map(|kthread| match kthread.state {
            State::Granted { core, .. } | State::Running { core } => Some(core),
            _ => None,
        });
        let siblings = held.filter_map(|core| tables.cores[core.index()].sibling);
        if let Some(core) = { siblings }.find(can) {
            return Some(core);
        }
    }
    if how.affinity {
        let last = kthread.and_then(|index| member.kthreads.get(index as usize)?.bound);
        if let Some(core) = [last, member.recent].into_iter().flatten().find(can) {
            return Some(core);
        }
    }
    free(tables, how, program).or_else(|| taken(tables, member))
}

fn can_be_allocated(tables: &Tables, asks: &Member, core: CoreId) -> bool {
    tables.cores[core.index()].is_free() || can_be_taken(tables, asks, core)
}

/// Whether its holder can be asked to leave, or is leaving without an heir.
fn can_be_taken(tables: &Tables, asks: &Member, core: CoreId) -> bool {
    let core = &tables.cores[core.index()];
    let Some(holder) = core.holder.filter(|_| tables.free == 0 && core.heir.is_none()) else {
        return false;
    };
    let (Some(kthread), Some(member)) = (tables.kthread(holder), tables.member(holder.program))
    else {
        return false;
    };
    match kthread.state {
        State::Evicted { .. } => true,
        _ => asks.is_below_guarantee() && member.is_above_guarantee(),
    }
}

fn free(tables: &Tables, how: Selector, program: ProgramId) -> Option<CoreId> {
    let stranger = |core: CoreId| {
        let sibling = tables.cores[core.index()].sibling.filter(|_| how.siblings);
        let holder = sibling.and_then(|it| tables.cores[it.index()].holder);
        holder.is_some_and(|holder| holder.program != program)
    };
    let ids = (0..tables.cores.len() as u32).map(CoreId);
    let free = ids.filter(|core| tables.cores[core.index()].is_free());
    free.min_by_key(|&core| (stranger(core), tables.cores[core.index()].batch, core))
}

fn taken(tables: &Tables, asks: &Member) -> Option<CoreId> {
    let ids = (0..tables.cores.len() as u32).map(CoreId);
    let can = ids.filter(|&core| can_be_taken(tables, asks, core));
    can.min_by_key(|&core| {
        let holder = tables.cores[core.index()].holder.expect("it can be taken from a holder");
        let kthread = tables.kthread(holder).expect("checked above");
        let member = tables.member(holder.program).expect("checked above");
        let leaves = matches!(kthread.state, State::Evicted { .. });
        let excess = member.cores.saturating_sub(member.guaranteed);
        let comes = matches!(kthread.state, State::Granted { .. });
        let stranded = kthread.look.stranded > 0;
        (!leaves, Reverse(excess), stranded, comes, Reverse(kthread.since), core)
    })
}

/// The kthread of `program` for `core`: one that holds work, else the one that is bound to it, else
/// the one that has been parked the longest.
pub(crate) fn kthread(
    tables: &Tables,
    program: ProgramId,
    core: CoreId,
    now: Nanos,
) -> Option<KthreadId> {
    let all = tables.member(program)?.kthreads.iter().enumerate();
    let ready = all.filter(|(_, kthread)| kthread.is_ready(now));
    let holds = |kthread: &Kthread| kthread.look.has_own_work(now) || !kthread.look.run.is_empty();
    let key = |&(index, kthread): &(usize, &Kthread)| {
        (!holds(kthread), kthread.bound != Some(core), kthread.since, index)
    };
    let (index, _) = ready.min_by_key(key)?;
    Some(KthreadId { program, index: index as u32 })
}

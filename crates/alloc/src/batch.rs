//! Where batch kthreads are: each is bound to a core and runs there whenever no latency-critical
//! program has it. They are spread evenly; one whose core has been taken moves to a free core without
//! batch, at most one for each core and [`rebalance`](crate::Settings::rebalance).

use crate::settings::Class;
use crate::state::{State, Tables};
use crate::{Allocator, CoreId, KthreadId, Nanos, Order, ProgramId};

/// A batch program has come.
pub(crate) fn place_all(allocator: &mut Allocator, program: ProgramId) {
    let tables = &mut allocator.tables;
    let Some(member) = tables.member(program).filter(|member| !member.is_critical()) else {
        return;
    };
    let kthreads = member.kthreads.len() as u32;
    let class = member.program.class;
    *tables.anywhere(class) += u32::from(kthreads == 0);
    for index in 0..kthreads {
        let ids = (0..allocator.tables.cores.len() as u32).map(CoreId);
        let load = |core: &CoreId| {
            let core = &allocator.tables.cores[core.index()];
            (core.batch, !core.is_free())
        };
        let core = ids.min_by_key(load).expect("a machine has cores");
        place(allocator, KthreadId { program, index }, core);
    }
}

fn place(allocator: &mut Allocator, id: KthreadId, core: CoreId) {
    displace(&mut allocator.tables, id);
    let blind = is_blind(&allocator.tables, id.program);
    let line = &mut allocator.tables.cores[core.index()];
    line.batch += 1;
    line.blind += u32::from(blind);
    allocator.tables.placed += 1;
    if let Some(kthread) = allocator.tables.kthread_mut(id) {
        (kthread.state, kthread.bound) = (State::Placed { core }, Some(core));
    }
    allocator.order(Order::Place { kthread: id, core });
}

/// It is bound to no core any more.
pub(crate) fn displace(tables: &mut Tables, id: KthreadId) {
    let blind = is_blind(tables, id.program);
    let Some(kthread) = tables.kthread_mut(id) else { return };
    if let State::Placed { core } = kthread.state {
        kthread.state = State::Parked;
        let line = &mut tables.cores[core.index()];
        line.batch -= 1;
        line.blind -= u32::from(blind);
        tables.placed -= 1;
    }
}

fn is_blind(tables: &Tables, program: ProgramId) -> bool {
    let class = tables.member(program).map(|member| member.program.class);
    class == Some(Class::Batch { looks: false })
}

/// Batch kthreads leave cores that are taken for free ones that have none.
pub(crate) fn rebalance(allocator: &mut Allocator, now: Nanos) {
    if now < next(allocator) {
        return;
    }
    allocator.rebalanced = now;
    loop {
        let ids = || (0..allocator.tables.cores.len() as u32).map(CoreId);
        let line = |core: CoreId| &allocator.tables.cores[core.index()];
        let Some(to) = ids().find(|&core| line(core).is_free() && line(core).batch == 0) else {
            return;
        };
        let taken = ids().filter(|&core| !line(core).is_free() && line(core).batch > 0);
        let Some(from) = taken.max_by_key(|&core| line(core).batch) else { return };
        let Some(kthread) = first_on(&allocator.tables, from) else { return };
        place(allocator, kthread, to);
    }
}

fn first_on(tables: &Tables, core: CoreId) -> Option<KthreadId> {
    let batch = tables.programs().filter(|(_, member)| !member.is_critical());
    let mut kthreads = batch.flat_map(|(program, member)| {
        let all = (0..).zip(&member.kthreads);
        all.map(move |(index, kthread)| (KthreadId { program, index }, kthread.state))
    });
    kthreads.find(|(_, state)| *state == State::Placed { core }).map(|(id, _)| id)
}

/// When to look for better places again.
pub(crate) fn next(allocator: &Allocator) -> Nanos {
    if allocator.tables.placed > 0 {
        allocator.rebalanced.plus(allocator.settings.rebalance)
    } else {
        Nanos::MAX
    }
}

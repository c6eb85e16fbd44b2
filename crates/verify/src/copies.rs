//! What code generation copies: the end of a loop, and the choice that one begins with.

use crate::above::writes;
use crate::code::Code;
use crate::loops::{changes, decision, is_on_each_round, is_written, step_of};
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

/// Are these blocks, which lead back to a cycle's header, copies of one? Then all end with the same test
/// of the same counter, which each round steps once by the same constant, against the same limit.
pub(crate) fn of_one_latch(code: &Code, cycle: &[usize], header: usize, latches: &[usize]) -> bool {
    let ways: Vec<(usize, usize)> = latches.iter().map(|&at| way(code, at, header)).collect();
    let latches: Vec<usize> = ways.iter().map(|&(from, _)| from).collect();
    let Some((test, again)) = ways.first().and_then(|&first| end(code, first)) else {
        return false;
    };
    let alike = |&way: &(usize, usize)| end(code, way) == Some((test, again));
    let is_counter = |register: Register| is_stepped_once(code, cycle, &latches, register);
    let operands = (0..test.op_count()).filter(|&n| match test.op_kind(n) {
        OpKind::Register => is_written(code, cycle, test.op_register(n)),
        OpKind::Memory => !stays(code, cycle, test),
        _ => false,
    });
    let changing: Vec<u32> = operands.collect();
    ways.iter().all(alike)
        && changing.iter().all(|&n| {
            test.op_kind(n) == OpKind::Register
                && test.op_register(n) == test.op_register(changing[0])
        })
        && changing.first().is_some_and(|&n| is_counter(test.op_register(n)))
}

/// The edge on which a header's predecessor was decided for: nothing is done on the rest of the way.
fn way(code: &Code, block: usize, header: usize) -> (usize, usize) {
    match code.blocks[block].before[..] {
        [before] if does_nothing(code, block) => (before, block),
        _ => (block, header),
    }
}

/// The test at the end of such an edge's first block, and the condition for the edge.
fn end(code: &Code, (block, to): (usize, usize)) -> Option<(&Instruction, ConditionCode)> {
    decision(code, block, to).filter(|(test, _)| {
        matches!(test.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) || step_of(test).is_some()
    })
}

/// Does each round add the same constant to a register, once? In each latch, or where every round passes.
fn is_stepped_once(code: &Code, cycle: &[usize], latches: &[usize], register: Register) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut steps = Vec::new();
    for &block in cycle {
        for i in code.of(block).iter().filter(|i| changes(&mut factory, i, register)) {
            let is_step = i.op0_register().full_register() == register.full_register()
                && matches!(i.op0_register().size(), 4 | 8);
            let Some(step) = step_of(i).filter(|_| is_step) else { return false };
            steps.push((block, step));
        }
    }
    let same = steps.iter().all(|&(_, step)| step == steps[0].1);
    let mut blocks: Vec<usize> = steps.iter().map(|&(block, _)| block).collect();
    let mut latches = latches.to_vec();
    blocks.sort_unstable();
    latches.sort_unstable();
    let once = match blocks[..] {
        [block] => is_on_each_round(code, cycle, block),
        _ => blocks == latches,
    };
    same && once
}

/// The block of a cycle that chooses among the same blocks of it as one outside does, by a table or a test.
pub(crate) fn choice(code: &Code, cycle: &[usize], outside: usize) -> Option<usize> {
    let first = chosen(code, cycle, outside)?;
    cycle.iter().copied().find(|&block| chosen(code, cycle, block).as_ref() == Some(&first))
}

/// Where in a cycle a block's choice leads.
fn chosen(code: &Code, cycle: &[usize], block: usize) -> Option<Vec<usize>> {
    let by_table = code.last_of(block).flow_control() == FlowControl::IndirectBranch;
    let next = code.blocks[block].next.iter();
    let mut to: Vec<usize> = next.map(|&to| past_jumps(code, to)).collect();
    to.retain(|to| cycle.binary_search(to).is_ok());
    to.sort_unstable();
    to.dedup();
    (to.len() >= if by_table { 1 } else { 2 }).then_some(to)
}

/// Where a block leads that does nothing but lead there, if it is one.
fn past_jumps(code: &Code, block: usize) -> usize {
    match code.blocks[block].next[..] {
        [to] if does_nothing(code, block) => to,
        _ => block,
    }
}

fn does_nothing(code: &Code, block: usize) -> bool {
    code.of(block).iter().all(|i| {
        i.mnemonic() == Mnemonic::Nop || i.flow_control() == FlowControl::UnconditionalBranch
    })
}

/// Is what an instruction reads a place on the stack that the cycle does not write? Of other memory, and of
/// what other pointers than the stack's write, nothing is known; calls write there if a callee may have
/// its address.
fn stays(code: &Code, cycle: &[usize], i: &Instruction) -> bool {
    let own = |base, index| base == Register::RSP && index == Register::None;
    if !own(i.memory_base(), i.memory_index()) {
        return false;
    }
    let begin = i.memory_displacement64() as i64;
    let end = begin + i.memory_size().size() as i64;
    let mut factory = InstructionInfoFactory::new();
    let mut all = cycle.iter().flat_map(|&block| code.of(block));
    all.all(|other| {
        if matches!(other.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            return !is_given_away(code, begin);
        }
        !writes(&mut factory, other, Register::RSP)
            && factory.info(other).used_memory().iter().all(|used| {
                let (from, size) = (used.displacement() as i64, used.memory_size().size() as i64);
                matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
                    || own(used.base(), used.index())
                        && size > 0
                        && (from >= end || from + size <= begin)
            })
    })
}

/// Does the function make a pointer that may be to a place on its stack: to that, or to something below?
fn is_given_away(code: &Code, place: i64) -> bool {
    code.instructions.iter().any(|i| match i.mnemonic() {
        Mnemonic::Lea => {
            i.memory_base() == Register::RSP
                && i.op0_register() != Register::RSP
                && (i.memory_index() != Register::None || i.memory_displacement64() as i64 <= place)
        }
        Mnemonic::Mov => i.op1_kind() == OpKind::Register && i.op1_register() == Register::RSP,
        _ => false,
    })
}

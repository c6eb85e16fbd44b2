//! Proofs that loops without a safepoint end soon: what the pass noted of them. And loops that code generation makes.

use crate::above::writes;
use crate::code::Code;
use crate::flow::{Prover, Rounds};
use crate::frames::touches_pages;
use crate::nests::{Noted, NotedLoops, cycles};
use crate::probes::setter_of;
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, Register,
};
use std::collections::{BTreeMap, BTreeSet};

/// The prover of one function.
pub struct Loops<'a> {
    code: &'a Code,
    notes: NotedLoops,
    /// Loops whose whole run was charged before they began: their first blocks.
    pub charged: BTreeSet<usize>,
    /// Loops that code generation made, and what they do says how often they go round.
    pub counted: BTreeSet<usize>,
    /// Loops that a note bounds.
    pub noted_used: BTreeSet<usize>,
    /// Cycles that are not known to end.
    pub open: BTreeSet<Vec<usize>>,
    /// Cycles that end, but are longer than the bound: how often they go round, and how long that is.
    pub long: BTreeMap<Vec<usize>, (u64, u64)>,
    bound: u64,
}

impl<'a> Loops<'a> {
    /// For one function, its edges without safepoints, and the notes on it; no loop may be longer than `bound`.
    #[must_use]
    pub fn new(code: &'a Code, next: &[Vec<usize>], noted: &[Noted], bound: u64) -> Self {
        Loops {
            code,
            notes: NotedLoops::of(code, next, noted),
            charged: BTreeSet::new(),
            counted: BTreeSet::new(),
            noted_used: BTreeSet::new(),
            open: BTreeSet::new(),
            long: BTreeMap::new(),
            bound,
        }
    }
}

impl Prover for Loops<'_> {
    fn rounds(&mut self, cycle: &[usize], entries: &[usize]) -> Option<Rounds> {
        if let Some((through, most)) = self.notes.rounds(self.code, cycle, entries) {
            if most == 0 {
                self.charged.insert(cycle[0]);
            } else {
                self.noted_used.insert(cycle[0]);
            }
            return Some(Rounds { through, most: most.max(1) });
        }
        let found = atomic(self.code, cycle).or_else(|| touches_pages(self.code, cycle));
        if found.is_some() {
            self.counted.insert(cycle[0]);
        }
        found
    }

    fn unproven(&mut self, cycle: &[usize]) {
        self.open.insert(cycle.to_vec());
    }

    fn too_long(&mut self, cycle: &[usize], most: u64, round: u64) -> bool {
        let long = most > 1 && most.saturating_mul(round) > self.bound;
        if long {
            self.long.insert(cycle.to_vec(), (most, round));
        }
        long
    }
}

/// How often an atomic operation that is a loop goes round, as its cost.
const RETRIES: u64 = 4;

/// The longest loop that is taken for one atomic operation.
const ATOMIC: usize = 8;

/// An atomic operation that the processor lacks: code generation computes the new value and tries to
/// exchange it for the old one until no other thread has come in between, which is soon, or another
/// thread's progress. All else happens in registers.
fn atomic(code: &Code, cycle: &[usize]) -> Option<Rounds> {
    let &[block] = cycle else { return None };
    let [above @ .., exchange, branch] = code.of(block) else { return None };
    let mut factory = InstructionInfoFactory::new();
    let is_exchange = exchange.has_lock_prefix()
        && matches!(
            exchange.mnemonic(),
            Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b
        );
    (is_exchange
        && branch.condition_code() == ConditionCode::ne
        && branch.near_branch_target() == code.address(block)
        && above.len() < ATOMIC
        && above.iter().all(|i| factory.info(i).used_memory().is_empty()))
    .then_some(Rounds { through: block, most: RETRIES })
}

/// The condition on which a branch leads to an address, one of the two that it may lead to.
fn condition_on(branch: &Instruction, to: u64) -> ConditionCode {
    let mut branch = *branch;
    if branch.near_branch_target() != to {
        branch.negate_condition_code();
    }
    branch.condition_code()
}

/// How a block decides to go on to another: the instruction that it tests, and the condition for it.
pub(crate) fn decision(
    code: &Code,
    block: usize,
    to: usize,
) -> Option<(&Instruction, ConditionCode)> {
    let (branch, above) = code.of(block).split_last()?;
    if branch.condition_code() == ConditionCode::None {
        return None;
    }
    let on = condition_on(branch, code.address(to));
    Some((&above[setter_of(code, block)?], on))
}

/// The constant that an instruction adds to its first operand, if that is all it does.
pub(crate) fn step_of(i: &Instruction) -> Option<i64> {
    let narrow = i.op0_register().size() == 4;
    let immediate = i.try_immediate(1).ok();
    let immediate = immediate.map(|c| if narrow { i64::from(c as i32) } else { c as i64 });
    match i.mnemonic() {
        Mnemonic::Inc => Some(1),
        Mnemonic::Dec => Some(-1),
        Mnemonic::Add => immediate,
        Mnemonic::Sub => immediate.and_then(i64::checked_neg),
        Mnemonic::Lea
            if i.memory_base().full_register() == i.op0_register().full_register()
                && i.memory_index() == Register::None =>
        {
            Some(i.memory_displacement64() as i64)
        }
        _ => None,
    }
}

/// Registers that callees keep.
pub(crate) fn is_preserved(register: Register) -> bool {
    matches!(
        register.full_register(),
        Register::RBX
            | Register::RBP
            | Register::R12
            | Register::R13
            | Register::R14
            | Register::R15
    )
}

pub(crate) fn is_written(code: &Code, cycle: &[usize], register: Register) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut all = cycle.iter().flat_map(|&block| code.of(block));
    all.any(|i| changes(&mut factory, i, register))
}

/// Whether an instruction writes to a register, or is a call that may.
pub(crate) fn changes(
    factory: &mut InstructionInfoFactory,
    i: &Instruction,
    register: Register,
) -> bool {
    let call = matches!(i.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
    writes(factory, i, register) || call && !is_preserved(register)
}

/// Does every round of a cycle pass a block?
pub(crate) fn is_on_each_round(code: &Code, cycle: &[usize], block: usize) -> bool {
    let rest: Vec<usize> = cycle.iter().copied().filter(|&other| other != block).collect();
    cycles(&|block| &code.blocks[block].next, &rest).is_empty()
}

//! Proofs that loops without a safepoint end soon: by what the pass noted of them, or by the loop's
//! own counter.

use crate::above::writes;
use crate::code::Code;
use crate::flow::{Prover, Rounds};
use crate::frames::touches_pages;
use crate::gates;
use crate::nests::{Noted, NotedLoops, cycles};
use crate::ranges::{Ranges, State, condition_on};
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};
use std::collections::{BTreeMap, BTreeSet};

/// The prover of one function.
pub struct Loops<'a> {
    code: &'a Code,
    notes: NotedLoops,
    ranges: Option<Ranges>,
    /// Loops whose whole run was charged before they began: their first blocks.
    pub charged: BTreeSet<usize>,
    /// Loops that the counter proved.
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
            ranges: None,
            charged: BTreeSet::new(),
            counted: BTreeSet::new(),
            noted_used: BTreeSet::new(),
            open: BTreeSet::new(),
            long: BTreeMap::new(),
            bound,
        }
    }

    /// What the registers hold when the cycle is entered.
    fn on_entry(&mut self, cycle: &[usize], entries: &[usize]) -> Option<State> {
        let code = self.code;
        let ranges = self.ranges.get_or_insert_with(|| Ranges::of(code));
        let mut joined: Option<State> = None;
        for &entry in entries {
            // Entered by a caller, or by the unwinder: anything.
            if entry == 0 || code.blocks[entry].before.is_empty() {
                return None;
            }
            for &from in &code.blocks[entry].before {
                if cycle.binary_search(&from).is_err() {
                    let state = ranges.on_edge(code, from, entry);
                    match &mut joined {
                        Some(old) => old.join(&state),
                        None => joined = Some(state),
                    }
                }
            }
        }
        joined
    }

    /// By the counter: one register that each round moves by a constant towards a limit.
    fn count(&mut self, cycle: &[usize], entries: &[usize]) -> Option<Rounds> {
        let code = self.code;
        let inside = |block: usize| cycle.binary_search(&block).is_ok();
        for &block in cycle {
            let next = &code.blocks[block].next;
            let Some(&stay) = next.iter().find(|&&to| inside(to)) else { continue };
            if next.len() != 2 || next.iter().all(|&to| inside(to)) {
                continue;
            }
            if let Some(rounds) = gates::rounds(code, cycle, block, stay) {
                return Some(rounds);
            }
            let Some(test) = Test::of(code, block, stay) else { continue };
            let Some(update) = update_of(code, cycle, test.register) else { continue };
            if test.limit.is_some_and(|limit| is_written(code, cycle, limit))
                || !tested_each_time(code, cycle, block, update.block)
            {
                continue;
            }
            let Some(state) = self.on_entry(cycle, entries) else { continue };
            if let Some(most) = most_rounds(&test, &update, &state) {
                return Some(Rounds { through: update.block, most });
            }
        }
        None
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
        let found = atomic(self.code, cycle)
            .or_else(|| touches_pages(self.code, cycle))
            .or_else(|| self.count(cycle, entries));
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
    let test = above.iter().rfind(|i| i.rflags_modified() & branch.rflags_read() != 0)?;
    Some((test, on))
}

/// The comparison that ends a loop: it stays while `register` is so against the limit.
#[derive(Debug)]
struct Test {
    register: Register,
    constant: u64,
    limit: Option<Register>,
    /// The comparison is the counter's own update, against zero.
    own: bool,
    stay: ConditionCode,
}

impl Test {
    fn of(code: &Code, block: usize, stay: usize) -> Option<Test> {
        let (i, stay) = decision(code, block, stay)?;
        if i.op0_kind() != OpKind::Register || !matches!(i.op0_register().size(), 4 | 8) {
            return None;
        }
        let register = i.op0_register();
        let plain = Test { register, constant: 0, limit: None, own: false, stay };
        match i.mnemonic() {
            Mnemonic::Cmp if i.op1_kind() == OpKind::Register => {
                Some(Test { limit: Some(i.op1_register()), ..plain })
            }
            Mnemonic::Cmp => Some(Test { constant: i.try_immediate(1).ok()?, ..plain }),
            Mnemonic::Test if i.op1_kind() == OpKind::Register && i.op1_register() == register => {
                Some(plain)
            }
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => {
                Some(Test { own: true, ..plain })
            }
            _ => None,
        }
    }
}

/// The one instruction of a cycle that changes a counter: adds a constant.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) block: usize,
    pub(crate) step: i64,
    width: usize,
}

pub(crate) fn step_of(i: &Instruction) -> Option<i64> {
    let immediate = |n: u32| {
        i.try_immediate(n)
            .ok()
            .map(|c| if i.op0_register().size() == 4 { i64::from(c as i32) } else { c as i64 })
    };
    match i.mnemonic() {
        Mnemonic::Inc => Some(1),
        Mnemonic::Dec => Some(-1),
        Mnemonic::Add if i.op1_kind() != OpKind::Register && i.op1_kind() != OpKind::Memory => {
            immediate(1)
        }
        Mnemonic::Sub if i.op1_kind() != OpKind::Register && i.op1_kind() != OpKind::Memory => {
            immediate(1).and_then(i64::checked_neg)
        }
        Mnemonic::Lea
            if i.memory_base().full_register() == i.op0_register().full_register()
                && i.memory_index() == Register::None =>
        {
            i64::try_from(i128::from(i.memory_displacement64() as i64)).ok()
        }
        _ => None,
    }
}

pub(crate) fn update_of(code: &Code, cycle: &[usize], register: Register) -> Option<Update> {
    let mut factory = InstructionInfoFactory::new();
    let mut found = None;
    for &block in cycle {
        for i in code.of(block) {
            if !changes(&mut factory, i, register) {
                continue;
            }
            let step = (i.op0_kind() == OpKind::Register
                && matches!(i.op0_register().size(), 4 | 8))
            .then(|| step_of(i))
            .flatten()?;
            if found.is_some() || step == 0 {
                return None;
            }
            found = Some(Update { block, step, width: i.op0_register().size() });
        }
    }
    found
}

/// Registers that callees keep.
fn is_preserved(register: Register) -> bool {
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

/// Is the test passed between any two updates? What the cycle's other blocks do among themselves is
/// an inner loop, and looked at as such.
pub(crate) fn tested_each_time(code: &Code, cycle: &[usize], test: usize, update: usize) -> bool {
    test == update || !cycles_around(code, cycle, test).iter().any(|part| part.contains(&update))
}

/// Does every round of a cycle pass a block?
pub(crate) fn is_on_each_round(code: &Code, cycle: &[usize], block: usize) -> bool {
    cycles_around(code, cycle, block).is_empty()
}

/// The cycles that are left of one without a block.
fn cycles_around(code: &Code, cycle: &[usize], without: usize) -> Vec<Vec<usize>> {
    let rest: Vec<usize> = cycle.iter().copied().filter(|&block| block != without).collect();
    cycles(&|block| &code.blocks[block].next, &rest)
}

/// How often a cycle goes round at most, from the counter's first value, step and limit.
fn most_rounds(test: &Test, update: &Update, first: &State) -> Option<u64> {
    let width = update.width.min(test.register.size());
    let all = if width == 4 { u64::from(u32::MAX) } else { u64::MAX };
    let (low, high) = first.get(sized(test.register, width)?)?;
    let (limit_low, limit_high) = match test.limit {
        Some(register) => first.get(sized(register, width)?)?,
        None => (test.constant & all, test.constant & all),
    };
    let step = update.step.unsigned_abs();
    let positive = all / 2;
    let small = high <= positive && limit_high <= positive;
    let about = |span: u64| Some(span / step + 2);
    if update.step > 0 {
        return match test.stay {
            ConditionCode::b | ConditionCode::be if limit_high <= all.saturating_sub(step) => {
                about(limit_high.saturating_sub(low))
            }
            ConditionCode::l | ConditionCode::le
                if small && limit_high <= positive.saturating_sub(step) =>
            {
                about(limit_high.saturating_sub(low))
            }
            ConditionCode::ne => exact(low, high, limit_low, limit_high, step, all),
            // Counts from below zero up to it.
            ConditionCode::s if low == high && low > positive => about(all - low + 1),
            _ => None,
        };
    }
    match test.stay {
        ConditionCode::ne => {
            let (from, to) = ((all - high, all - low), (all - limit_high, all - limit_low));
            exact(from.0, from.1, to.0, to.1, step, all)
        }
        ConditionCode::a | ConditionCode::ae if limit_low >= step => {
            about(high.saturating_sub(limit_low))
        }
        // Its own borrow: sub n, r; jae.
        ConditionCode::ae | ConditionCode::a if test.own => about(high),
        ConditionCode::g | ConditionCode::ge if small => about(high.saturating_sub(limit_low)),
        ConditionCode::ns if high <= positive => about(high),
        _ => None,
    }
}

/// Counting up to a value that must be hit.
fn exact(low: u64, high: u64, limit_low: u64, limit_high: u64, step: u64, all: u64) -> Option<u64> {
    if low == high && limit_low == limit_high {
        let span = limit_low.wrapping_sub(low) & all;
        return (span.is_multiple_of(step) && span > 0).then(|| span / step + 1);
    }
    (step == 1 && high < limit_low).then(|| limit_high - low + 1)
}

fn sized(register: Register, width: usize) -> Option<Register> {
    if width == 8 { Some(register.full_register()) } else { Some(register.full_register32()) }
}

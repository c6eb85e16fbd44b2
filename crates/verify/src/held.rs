//! Thread-local addresses that live across a safepoint: the code may resume on another thread, or
//! after another request has changed the variable.
//!
//! A forward pass over each function follows what is derived from `%fs:0` (or from what
//! `__tls_get_addr` returned) through registers and stack slots. A safepoint, or a call that may have
//! one, makes it stale, unless the critical-section depth is raised there; using it as an address
//! afterwards is a finding. What a function stores elsewhere or hands to its callees is not followed.

use crate::code::{Code, End, Target};
use crate::finding::{Finding, What};
use crate::loops::is_preserved;
use crate::paths::Outcome;
use crate::probes;
use crate::program::Program;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::collections::BTreeMap;

/// The index of a general register, whatever its width.
fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register() as usize - Register::RAX as usize)
}

/// How an address is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    /// No safepoint since it was taken.
    Fresh,
    /// One, whose address this is.
    Stale(u64),
}

/// What a function holds at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    registers: [Option<Held>; 16],
    /// By displacement from the stack pointer.
    slots: BTreeMap<i64, Held>,
    depth: i32,
}

impl State {
    fn is_empty(&self) -> bool {
        self.registers.iter().all(Option::is_none) && self.slots.is_empty()
    }

    fn get(&self, register: Register) -> Option<Held> {
        self.registers[number(register)?]
    }

    fn age(&mut self, at: u64) {
        if self.depth > 0 {
            return;
        }
        for held in self.registers.iter_mut().flatten().chain(self.slots.values_mut()) {
            if *held == Held::Fresh {
                *held = Held::Stale(at);
            }
        }
    }

    fn join(&mut self, other: &State) {
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            *mine = (*mine).max(theirs);
        }
        for (&slot, &held) in &other.slots {
            let mine = self.slots.entry(slot).or_insert(held);
            *mine = (*mine).max(held);
        }
        self.depth = self.depth.min(other.depth);
    }
}

/// The first stale use of each function that is instrumented.
#[must_use]
pub fn check(program: &Program<'_>, outcomes: &[Outcome]) -> Vec<Finding> {
    let mut factory = InstructionInfoFactory::new();
    let mut findings = Vec::new();
    for (function, code) in program.codes.iter().enumerate() {
        if !program.is_instrumented(function) || !code.instructions.iter().any(takes_base) {
            continue;
        }
        let look = Look { program, outcomes, function, code };
        if let Some((at, since)) = look.stale_use(&mut factory) {
            let detail =
                format!("a thread-local address is used after the safepoint at {since:#x}");
            findings.push(Finding::new(What::ThreadLocal, function, at, detail).from(since));
        }
    }
    findings
}

/// Reads `%fs:0`, or calls for an address.
fn takes_base(i: &Instruction) -> bool {
    reads_base(i) || i.is_call_near() || i.is_call_near_indirect()
}

fn reads_base(i: &Instruction) -> bool {
    i.op_count() == 2
        && i.op1_kind() == OpKind::Memory
        && i.segment_prefix() == Register::FS
        && i.memory_base() == Register::None
        && i.memory_index() == Register::None
        && i.memory_displacement64() == 0
        && matches!(i.mnemonic(), Mnemonic::Mov | Mnemonic::Add)
}

struct Look<'a> {
    program: &'a Program<'a>,
    outcomes: &'a [Outcome],
    function: usize,
    code: &'a Code,
}

impl Look<'_> {
    fn stale_use(&self, factory: &mut InstructionInfoFactory) -> Option<(u64, u64)> {
        let code = self.code;
        let checks = self.program.checks(self.function);
        let mut before: Vec<Option<State>> = vec![None; code.blocks.len()];
        let mut work: Vec<usize> = (0..code.blocks.len())
            .filter(|&b| b == 0 || code.blocks[b].before.is_empty())
            .collect();
        work.iter().for_each(|&b| before[b] = Some(State::default()));
        while let Some(block) = work.pop() {
            let Some(mut state) = before[block].clone() else { continue };
            for i in code.of(block) {
                if let Some(found) = stale_operand(i, &state) {
                    return Some(found);
                }
                self.step(factory, i, &mut state);
            }
            let address = code.last_of(block).ip();
            if checks.contains(&block) || self.may_yield(&code.blocks[block].end) {
                state.age(address);
            }
            self.after_call(&code.blocks[block].end, &mut state);
            for &to in &code.blocks[block].next {
                let merged = match &before[to] {
                    None => state.clone(),
                    Some(old) => {
                        let mut merged = old.clone();
                        merged.join(&state);
                        merged
                    }
                };
                if before[to].as_ref() != Some(&merged) {
                    before[to] = Some(merged);
                    work.push(to);
                }
            }
        }
        None
    }

    fn may_yield(&self, end: &End) -> bool {
        match end {
            End::Call(target) if self.program.is_slow(target) => true,
            End::Call(Target::Function(f)) => self.outcomes[*f].summary.from_last.is_some(),
            End::Call(Target::Pointer) => true,
            _ => false,
        }
    }

    fn after_call(&self, end: &End, state: &mut State) {
        let End::Call(target) = end else { return };
        let name = match target {
            // Keeps every register.
            _ if self.program.is_slow(target) => return,
            Target::Import(name) => name.as_str(),
            _ => "",
        };
        for (register, held) in (Register::RAX as usize..).zip(&mut state.registers) {
            *held = held.filter(|_| Register::try_from(register).is_ok_and(is_preserved));
        }
        if name.starts_with("__tls_get_addr") {
            state.registers[0] = Some(Held::Fresh);
        }
    }

    fn step(&self, factory: &mut InstructionInfoFactory, i: &Instruction, state: &mut State) {
        state.depth = (state.depth + probes::depth_change(&self.program.image, i)).max(0);
        if state.is_empty() && !reads_base(i) {
            return;
        }
        let to = (i.op_count() > 0 && i.op0_kind() == OpKind::Register).then(|| i.op0_register());
        let derived = match i.mnemonic() {
            _ if reads_base(i) => Some(Held::Fresh),
            Mnemonic::Mov if i.op1_kind() == OpKind::Register => state.get(i.op1_register()),
            Mnemonic::Mov if i.op1_kind() == OpKind::Memory => {
                slot_of(i).and_then(|slot| state.slots.get(&slot).copied())
            }
            Mnemonic::Lea => state.get(i.memory_base()).max(state.get(i.memory_index())),
            Mnemonic::Add | Mnemonic::Sub => {
                let other = (i.op1_kind() == OpKind::Register)
                    .then(|| state.get(i.op1_register()))
                    .flatten();
                to.and_then(|to| state.get(to)).max(other)
            }
            _ => None,
        };
        if i.mnemonic() == Mnemonic::Mov
            && i.op0_kind() == OpKind::Memory
            && let Some(slot) = slot_of(i)
        {
            match derived {
                Some(held) => state.slots.insert(slot, held),
                None => state.slots.remove(&slot),
            };
        }
        for used in factory.info(i).used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
                && let Some(at) = number(used.register())
            {
                state.registers[at] = None;
            }
        }
        if let Some(at) = to.filter(|to| to.size() == 8).and_then(number) {
            state.registers[at] = derived;
        }
        // The frame moved: slots are no longer what they were.
        if matches!(i.mnemonic(), Mnemonic::Push | Mnemonic::Pop) || to == Some(Register::RSP) {
            state.slots.clear();
        }
    }
}

fn slot_of(i: &Instruction) -> Option<i64> {
    (i.memory_base() == Register::RSP && i.memory_index() == Register::None)
        .then(|| i.memory_displacement64() as i64)
}

/// The address of an instruction that goes through a stale address, and since when it is stale.
fn stale_operand(i: &Instruction, state: &State) -> Option<(u64, u64)> {
    let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    if !memory || matches!(i.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return None;
    }
    [i.memory_base(), i.memory_index()].into_iter().find_map(|register| match state.get(register) {
        Some(Held::Stale(since)) => Some((i.ip(), since)),
        _ => None,
    })
}

//! The stack: red zones, since a safepoint's call overwrites what lies below the stack pointer, and large
//! frames.

use crate::code::Code;
use crate::finding::{Finding, What};
use crate::flow::Rounds;
use crate::program::Program;
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};

/// Where the stack and frame pointers are, relative to the stack pointer at entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    stack: Option<i64>,
    base: Option<i64>,
}

/// Functions with safepoints that access memory below their stack pointer: the first access of each.
#[must_use]
pub fn check(program: &Program<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (function, probes) in program.probes.iter().enumerate() {
        let Some(probe) = probes.first() else { continue };
        if let Some(access) = below_stack(&program.codes[function]) {
            let detail =
                format!("the red zone is in use (at {access:#x}) in a function with safepoints");
            findings
                .push(Finding::new(What::RedZone, function, probe.address, detail).from(access));
        }
    }
    findings
}

fn below_stack(code: &Code) -> Option<u64> {
    let mut before: Vec<Option<Frame>> = vec![None; code.blocks.len()];
    let mut work = vec![0];
    *before.first_mut()? = Some(Frame { stack: Some(0), base: None });
    for (at, block) in code.blocks.iter().enumerate().skip(1) {
        if block.before.is_empty() {
            before[at] = Some(Frame { stack: None, base: None });
            work.push(at);
        }
    }
    while let Some(block) = work.pop() {
        let Some(mut frame) = before[block] else { continue };
        for i in code.of(block) {
            if accesses_below(i, frame) {
                return Some(i.ip());
            }
            step(i, &mut frame);
        }
        for &to in &code.blocks[block].next {
            let merged = match before[to] {
                None => frame,
                Some(old) => Frame {
                    stack: old.stack.filter(|_| old.stack == frame.stack),
                    base: old.base.filter(|_| old.base == frame.base),
                },
            };
            if before[to] != Some(merged) {
                before[to] = Some(merged);
                work.push(to);
            }
        }
    }
    None
}

fn accesses_below(i: &Instruction, frame: Frame) -> bool {
    let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    // Hints and address arithmetic touch nothing.
    let touches = !matches!(i.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    if !memory || !touches || i.memory_index() != Register::None {
        return false;
    }
    // A thread's own block is not on the stack.
    if matches!(i.segment_prefix(), Register::FS | Register::GS) {
        return false;
    }
    let displacement = i.memory_displacement64() as i64;
    match i.memory_base() {
        Register::RSP => displacement < 0,
        Register::RBP => frame
            .base
            .zip(frame.stack)
            .is_some_and(|(base, stack)| base.saturating_add(displacement) < stack),
        _ => false,
    }
}

/// A large frame's pages, touched one after the other as code generation does it: down to where a register
/// says, which the block before has set so far below the stack pointer.
pub(crate) fn touches_pages(code: &Code, cycle: &[usize]) -> Option<Rounds> {
    let &[block] = cycle else { return None };
    let [down, touch, test, again] = code.of(block) else { return None };
    let on_stack =
        |i: &Instruction| i.op0_kind() == OpKind::Register && i.op0_register() == Register::RSP;
    let size = down.try_immediate(1).ok().filter(|_| down.mnemonic() == Mnemonic::Sub)?;
    let end = test.op1_register();
    let &[before] =
        &*code.blocks[block].before.iter().copied().filter(|&b| b != block).collect::<Vec<_>>()
    else {
        return None;
    };
    let [.., copy, minus] = code.of(before) else { return None };
    let frame = minus.try_immediate(1).ok().filter(|_| minus.mnemonic() == Mnemonic::Sub)?;
    (on_stack(down)
        && touch.mnemonic() == Mnemonic::Mov
        && touch.op0_kind() == OpKind::Memory
        && touch.memory_base() == Register::RSP
        && test.mnemonic() == Mnemonic::Cmp
        && on_stack(test)
        && test.op1_kind() == OpKind::Register
        && again.condition_code() == ConditionCode::ne
        && copy.mnemonic() == Mnemonic::Mov
        && copy.op1_register() == Register::RSP
        && [copy, minus].iter().all(|i| i.op0_register() == end)
        && size > 0
        && frame.is_multiple_of(size))
    .then(|| Rounds { through: block, most: frame / size })
}

fn step(i: &Instruction, frame: &mut Frame) {
    let to = |register: Register| {
        i.op_count() > 0
            && i.op0_kind() == OpKind::Register
            && i.op0_register().full_register() == register
    };
    let constant = || i.try_immediate(1).ok().map(|n| n as i64);
    match i.mnemonic() {
        Mnemonic::Mov
            if to(Register::RBP)
                && i.op1_kind() == OpKind::Register
                && i.op1_register() == Register::RSP =>
        {
            frame.base = frame.stack;
        }
        Mnemonic::Lea if to(Register::RSP) && i.memory_index() == Register::None => {
            let from = match i.memory_base() {
                Register::RBP => frame.base,
                Register::RSP => frame.stack,
                _ => None,
            };
            frame.stack = from.and_then(|from| from.checked_add(i.memory_displacement64() as i64));
        }
        Mnemonic::Add if to(Register::RSP) => {
            frame.stack = frame.stack.zip(constant()).and_then(|(stack, n)| stack.checked_add(n));
        }
        Mnemonic::Sub if to(Register::RSP) => {
            frame.stack = frame.stack.zip(constant()).and_then(|(stack, n)| stack.checked_sub(n));
        }
        Mnemonic::Leave => {
            *frame = Frame { stack: frame.base.map(|base| base.saturating_add(8)), base: None }
        }
        Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq => {
            frame.base = frame.base.filter(|_| i.mnemonic() != Mnemonic::Pop || !to(Register::RBP));
            let by = i64::from(i.stack_pointer_increment());
            frame.stack = frame.stack.map(|stack| stack.saturating_add(by));
        }
        _ if to(Register::RSP) => frame.stack = None,
        _ if to(Register::RBP)
            && !matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push) =>
        {
            frame.base = None;
        }
        _ => {}
    }
}

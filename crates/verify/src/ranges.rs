//! What values general registers may have: unsigned intervals, by a forward pass over a function.
//!
//! Only what loop counters need: constants, masks, narrow loads, minima, and what a branch that was
//! taken says. Everything else may be anything.

use crate::code::Code;
use iced_x86::{
    ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// An interval, both ends included; `None`: anything.
pub type Range = Option<(u64, u64)>;

/// A range for each of the 16 general registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State([Range; 16]);

/// The index of a general register, whatever its width.
#[must_use]
pub fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register() as usize - Register::RAX as usize)
}

impl State {
    /// A register's range, as an operand of its width.
    #[must_use]
    pub fn get(&self, register: Register) -> Range {
        let range = self.0[number(register)?];
        match register.size() {
            8 => range,
            // The upper half of a wider value is not looked at.
            4 => Some(range.filter(|&(_, high)| high <= LOW32).unwrap_or((0, LOW32))),
            _ => None,
        }
    }

    fn set(&mut self, register: Register, range: Range) {
        if let Some(at) = number(register) {
            self.0[at] = match register.size() {
                8 => range,
                4 => Some(range.filter(|&(_, high)| high <= LOW32).unwrap_or((0, LOW32))),
                _ => None,
            };
        }
    }

    /// What holds in either case.
    pub fn join(&mut self, other: &State) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.zip(theirs).map(|((a, b), (c, d))| (a.min(c), b.max(d)));
        }
    }
}

const LOW32: u64 = u32::MAX as u64;

/// The ranges of one function.
pub struct Ranges {
    /// At the beginning of each block; `None`: not reached.
    before: Vec<Option<State>>,
}

/// What a call may leave changed.
pub(crate) const CALLER_SAVED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

impl Ranges {
    /// Goes over the function until nothing changes.
    #[must_use]
    pub fn of(code: &Code) -> Self {
        let mut before: Vec<Option<State>> = vec![None; code.blocks.len()];
        let mut visits = vec![0_u32; code.blocks.len()];
        let mut factory = InstructionInfoFactory::new();
        let mut work: Vec<usize> = Vec::new();
        for (at, block) in code.blocks.iter().enumerate() {
            if at == 0 || block.before.is_empty() {
                before[at] = Some(State::default());
                work.push(at);
            }
        }
        while let Some(block) = work.pop() {
            let Some(start) = before[block] else { continue };
            let end = through(&mut factory, code.of(block), start);
            for &to in &code.blocks[block].next {
                let mut state = end;
                refine(code, block, to, &mut state);
                if let Some(old) = before[to] {
                    state.join(&old);
                    if state == old {
                        continue;
                    }
                    visits[to] += 1;
                    // What keeps growing has no bound.
                    if visits[to] > 3 {
                        for (new, old) in state.0.iter_mut().zip(old.0) {
                            *new = new.filter(|_| *new == old);
                        }
                    }
                }
                before[to] = Some(state);
                work.push(to);
            }
        }
        Ranges { before }
    }

    /// On the edge from one block to another.
    #[must_use]
    pub fn on_edge(&self, code: &Code, from: usize, to: usize) -> State {
        let Some(start) = self.before[from] else { return State::default() };
        let mut state = through(&mut InstructionInfoFactory::new(), code.of(from), start);
        refine(code, from, to, &mut state);
        state
    }
}

fn through(factory: &mut InstructionInfoFactory, code: &[Instruction], mut state: State) -> State {
    let mut compared = None;
    for i in code {
        step(factory, i, &mut state, compared);
        if i.mnemonic() == Mnemonic::Cmp && i.op1_kind() == OpKind::Register {
            compared = Some((i.op0_register(), i.op1_register()));
        } else if i.rflags_modified() != 0 {
            compared = None;
        }
    }
    state
}

fn step(
    factory: &mut InstructionInfoFactory,
    i: &Instruction,
    state: &mut State,
    compared: Option<(Register, Register)>,
) {
    let to = i.op0_register();
    let computed = (i.op_count() > 0 && i.op0_kind() == OpKind::Register && to.is_gpr())
        .then(|| value(i, state, compared))
        .flatten();
    let plain = !matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    for used in factory.info(i).used_registers() {
        if matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
            continue;
        }
        state.set(used.register(), None);
        if used.register().size() < 4
            && let Some(at) = number(used.register())
        {
            state.0[at] = None;
        }
    }
    if plain && computed.is_some() {
        state.set(to, computed);
    }
    // A call keeps what the callee must keep; the others are gone.
    if matches!(i.flow_control(), iced_x86::FlowControl::Call | iced_x86::FlowControl::IndirectCall)
    {
        for register in CALLER_SAVED {
            state.set(register, None);
        }
    }
}

/// The range that an instruction gives its first operand.
fn value(i: &Instruction, state: &State, compared: Option<(Register, Register)>) -> Range {
    let to = i.op0_register();
    let limit = if to.size() == 4 { LOW32 } else { u64::MAX };
    let constant =
        (i.op_count() == 2).then(|| i.try_immediate(1).ok()).flatten().map(|c| c & limit);
    let source = || match i.op1_kind() {
        OpKind::Register => state.get(i.op1_register()),
        OpKind::Memory => None,
        _ => constant.map(|c| (c, c)),
    };
    let own = state.get(to);
    match i.mnemonic() {
        Mnemonic::Mov => source(),
        Mnemonic::Xor | Mnemonic::Sub
            if i.op1_kind() == OpKind::Register && i.op1_register() == to =>
        {
            Some((0, 0))
        }
        Mnemonic::Movzx => Some((
            0,
            if i.memory_size().size() == 1
                || i.op1_kind() == OpKind::Register && i.op1_register().size() == 1
            {
                0xff
            } else {
                0xffff
            },
        )),
        Mnemonic::And => {
            // Immediates are sign-extended: a mask that clears low bits only bounds nothing.
            constant
                .filter(|&c| c <= limit / 2)
                .map(|c| (0, own.map_or(c, |(_, high)| high.min(c))))
        }
        Mnemonic::Shr => {
            let by = constant.filter(|&c| c < 64)?;
            let (low, high) = own.unwrap_or((0, limit));
            Some((low >> by, high >> by))
        }
        Mnemonic::Add | Mnemonic::Sub => {
            let by = constant?;
            let by = if i.mnemonic() == Mnemonic::Add { by } else { by.wrapping_neg() & limit };
            shifted(own?, by, limit)
        }
        Mnemonic::Inc => shifted(own?, 1, limit),
        Mnemonic::Dec => shifted(own?, limit, limit),
        _ if i.condition_code() != ConditionCode::None && i.op_count() == 2 => {
            moved(i, state, compared, source())
        }
        _ => None,
    }
}

/// An interval plus a constant, unless that wraps around in between.
fn shifted((low, high): (u64, u64), by: u64, limit: u64) -> Range {
    let sum = |x: u64| x.wrapping_add(by) & limit;
    (sum(low) <= sum(high)).then(|| (sum(low), sum(high)))
}

/// A conditional move: either value; after the comparison that makes it a minimum, no more than the
/// old one.
fn moved(
    i: &Instruction,
    state: &State,
    compared: Option<(Register, Register)>,
    source: Range,
) -> Range {
    let (to, own) = (i.op0_register(), state.get(i.op0_register()));
    let from = (i.op1_kind() == OpKind::Register).then(|| i.op1_register());
    let minimum = match (compared, i.condition_code()) {
        // cmp a, b; cmovb b ← a
        (Some((a, b)), ConditionCode::b | ConditionCode::be) => from == Some(a) && to == b,
        // cmp a, b; cmova a ← b
        (Some((a, b)), ConditionCode::a | ConditionCode::ae) => from == Some(b) && to == a,
        _ => false,
    };
    let either = own.zip(source).map(|((a, b), (c, d))| (a.min(c), b.max(d)));
    match (minimum, own, source) {
        (true, Some((a, b)), Some((c, d))) => Some((a.min(c), b.min(d))),
        (true, Some((_, most)), None) | (true, None, Some((_, most))) => Some((0, most)),
        _ => either,
    }
}

/// What a branch that led from one block to another says of the register it compared.
fn refine(code: &Code, from: usize, to: usize, state: &mut State) {
    let Some((branch, above)) = code.of(from).split_last() else { return };
    if code.blocks[from].next.len() != 2 || branch.condition_code() == ConditionCode::None {
        return;
    }
    let Some(at) = above.iter().rposition(|i| i.rflags_modified() & branch.rflags_read() != 0)
    else {
        return;
    };
    let compare = &above[at];
    let register = compare.op0_register();
    let against = match compare.mnemonic() {
        Mnemonic::Test
            if compare.op1_kind() == OpKind::Register && compare.op1_register() == register =>
        {
            0
        }
        Mnemonic::Cmp => match compare.try_immediate(1) {
            Ok(n) => n,
            Err(_) => return,
        },
        _ => return,
    };
    let width = register.size();
    let mut factory = InstructionInfoFactory::new();
    let mut kept = compare.op0_kind() == OpKind::Register && matches!(width, 4 | 8);
    for i in &above[at + 1..] {
        crate::probes::written(&mut factory, i, |r| kept &= r != register.full_register());
    }
    let Some(index) = number(register).filter(|_| kept) else { return };
    let limit = if width == 4 { LOW32 } else { u64::MAX };
    // A 32-bit comparison says nothing of a value that may be wider.
    if width == 4 && state.0[index].is_none_or(|(_, high)| high > LOW32) {
        return;
    }
    let condition = condition_on(branch, code.address(to));
    let (low, high) = state.0[index].unwrap_or((0, limit));
    let narrowed = narrow(condition, against & limit, (low, high), limit);
    if narrowed.0 <= narrowed.1 {
        state.0[index] = Some(narrowed);
    }
}

fn narrow(condition: ConditionCode, n: u64, (low, high): (u64, u64), limit: u64) -> (u64, u64) {
    let positive = limit / 2;
    match condition {
        ConditionCode::b => (low, high.min(n.saturating_sub(1))),
        ConditionCode::be => (low, high.min(n)),
        ConditionCode::a => (low.max(n.saturating_add(1)), high),
        ConditionCode::ae => (low.max(n), high),
        ConditionCode::e => (n, n),
        ConditionCode::ne if n == low => (low.saturating_add(1), high),
        ConditionCode::g if n < positive => (low.max(n + 1), high.min(positive)),
        ConditionCode::ge if n <= positive => (low.max(n), high.min(positive)),
        ConditionCode::ns if n == 0 => (low, high.min(positive)),
        // Below in the signed sense, for what is not negative.
        ConditionCode::l if high <= positive && n <= positive => {
            (low, high.min(n.saturating_sub(1)))
        }
        ConditionCode::le if high <= positive && n <= positive => (low, high.min(n)),
        _ => (low, high),
    }
}

/// The condition on which a branch leads to an address, one of the two that it may lead to.
#[must_use]
pub fn condition_on(branch: &Instruction, to: u64) -> ConditionCode {
    let mut branch = *branch;
    if branch.near_branch_target() != to {
        branch.negate_condition_code();
    }
    branch.condition_code()
}

//! Where indirect jumps lead: jump tables and computed gotos.

use crate::above::{Above, writes};
use crate::image::Image;
use crate::loops::changes;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use std::collections::BTreeSet;

/// How far back the table's address and the index's bound are looked for.
const WINDOW: usize = 64;
/// Longer tables are taken to be something else.
const MOST_ENTRIES: u64 = 65_536;

/// The targets of the last of `code`'s instructions, an indirect jump; none if they are not found.
/// `starts`: the addresses that the function's code computes; a table ends where another may begin.
/// `valid` says whether an instruction of the function begins at an address.
#[must_use]
pub fn targets(
    image: &Image<'_>,
    code: &[Instruction],
    starts: &BTreeSet<u64>,
    valid: &dyn Fn(u64) -> bool,
) -> Vec<u64> {
    let found = by_table(image, code, starts, valid);
    match (code.first(), code.last()) {
        // Labels whose addresses lie in data, as of a computed goto: one of them it must be.
        (Some(first), Some(jump)) if found.is_empty() && may_be_goto(jump) => {
            let end = image
                .function_at(first.ip())
                .map_or(first.ip(), |at| first.ip().saturating_add(image.functions[at].size));
            let inside = image.pointed.range(first.ip() + 1..end.max(first.ip() + 1));
            inside.copied().filter(|&to| valid(to)).collect()
        }
        _ => found,
    }
}

/// Through a register, or by an index: not as a virtual function is called in tail position.
fn may_be_goto(jump: &Instruction) -> bool {
    jump.op0_kind() == OpKind::Register || jump.memory_index() != Register::None
}

fn by_table(
    image: &Image<'_>,
    code: &[Instruction],
    starts: &BTreeSet<u64>,
    valid: &dyn Fn(u64) -> bool,
) -> Vec<u64> {
    let Some((jump, before)) = code.split_last() else { return Vec::new() };
    let mut search = Search { image, above: Above::new(image, before), starts };
    if jump.op0_kind() == OpKind::Memory {
        return search.absolute(jump, before.len(), valid);
    }
    let register = jump.op0_register();
    let Some(at) = search.writer(register, before.len()) else { return Vec::new() };
    let writer = &before[at];
    match writer.mnemonic() {
        // mov (table,index,8), r; jmp *r
        Mnemonic::Mov if writer.op1_kind() == OpKind::Memory => search.absolute(writer, at, valid),
        // movslq (table,index,4), r; add table, r; jmp *r
        Mnemonic::Add if writer.op1_kind() == OpKind::Register => {
            search.relative(register, writer.op1_register(), at, valid)
        }
        _ => Vec::new(),
    }
}

struct Search<'a> {
    image: &'a Image<'a>,
    above: Above<'a>,
    starts: &'a BTreeSet<u64>,
}

impl Search<'_> {
    /// The nearest instruction above `from` that writes a register.
    fn writer(&mut self, register: Register, from: usize) -> Option<usize> {
        self.above.writer(register, from).filter(|at| at + WINDOW >= from)
    }

    /// How many entries a table has: one more than the largest index, where that is known, or as many as
    /// there is room for.
    fn count(&mut self, table: u64, size: u64, index: Register, from: usize) -> u64 {
        self.bound(index, from).unwrap_or_else(|| {
            let next = self.starts.range(table.saturating_add(1)..).next();
            next.map_or(MOST_ENTRIES, |next| ((next - table) / size).min(MOST_ENTRIES))
        })
    }

    /// One past the largest index, from `cmp $n, index; ja` above the jump. The index may have been moved
    /// to another register, or to the stack and back, but not changed since.
    fn bound(&mut self, index: Register, from: usize) -> Option<u64> {
        let mut index = Index::In(index.full_register());
        for at in (from.saturating_sub(WINDOW)..from).rev() {
            let i = &self.above.code[at];
            let compares = matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
            if !index.is(i) {
                if index.is_changed(&mut self.above.factory, i) {
                    return None;
                }
                continue;
            }
            let constant = i.try_immediate(1).ok();
            match i.mnemonic() {
                Mnemonic::Cmp if constant.is_some() => {
                    let next = self.above.code.get(at + 1).map(Instruction::mnemonic);
                    let more = u64::from(!matches!(next, Some(Mnemonic::Jae | Mnemonic::Jb)));
                    return constant.map(|n| n.saturating_add(more).min(MOST_ENTRIES));
                }
                Mnemonic::And => {
                    return constant.map(|n| n.saturating_add(1).min(MOST_ENTRIES));
                }
                Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsxd => index = Index::from(i)?,
                _ if compares => {}
                _ => return None,
            }
        }
        None
    }

    fn absolute(&mut self, load: &Instruction, at: usize, valid: &dyn Fn(u64) -> bool) -> Vec<u64> {
        if load.memory_index() == Register::None || load.memory_index_scale() != 8 {
            return Vec::new();
        }
        let displacement = load.memory_displacement64();
        let table = match load.memory_base() {
            Register::None => Some(displacement),
            base => {
                self.above.address_in(base, at).map(|address| address.wrapping_add(displacement))
            }
        };
        let Some(table) = table else { return Vec::new() };
        let count = self.count(table, 8, load.memory_index(), at);
        let entry = |n: u64| self.image.word_at(table.wrapping_add(8 * n));
        (0..count).map_while(entry).take_while(|&to| valid(to)).collect()
    }

    fn relative(
        &mut self,
        sum: Register,
        other: Register,
        at: usize,
        valid: &dyn Fn(u64) -> bool,
    ) -> Vec<u64> {
        // Either addend may be the entry.
        for (entry, base) in [(sum, other), (other, sum)] {
            let Some(load) = self.writer(entry, at) else { continue };
            let i = self.above.code[load];
            if i.mnemonic() != Mnemonic::Movsxd || i.memory_index_scale() != 4 {
                continue;
            }
            let table = self
                .above
                .address_in(base, at)
                .or_else(|| self.above.address_in(i.memory_base(), load));
            let Some(table) = table else { continue };
            let count = self.count(table, 4, i.memory_index(), load);
            let read = |n: u64| {
                let bytes = self.image.bytes_at(table.wrapping_add(4 * n))?.first_chunk::<4>()?;
                Some(table.wrapping_add(i64::from(i32::from_le_bytes(*bytes)) as u64))
            };
            return (0..count).map_while(read).take_while(|&to| valid(to)).collect();
        }
        Vec::new()
    }
}

/// Where an index is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    In(Register),
    /// So far from the stack pointer.
    OnStack(u64),
}

impl Index {
    /// Is it an instruction's first operand?
    fn is(self, i: &Instruction) -> bool {
        match self {
            Index::In(register) => {
                i.op0_kind() == OpKind::Register && i.op0_register().full_register() == register
            }
            Index::OnStack(_) => i.op0_kind() == OpKind::Memory && Index::slot(i) == Some(self),
        }
    }

    /// What a move copies into its first operand.
    fn from(i: &Instruction) -> Option<Index> {
        match i.op1_kind() {
            OpKind::Register => Some(Index::In(i.op1_register().full_register())),
            OpKind::Memory => Index::slot(i),
            _ => None,
        }
    }

    fn slot(i: &Instruction) -> Option<Index> {
        let own = i.memory_base() == Register::RSP && i.memory_index() == Register::None;
        own.then(|| Index::OnStack(i.memory_displacement64()))
    }

    /// May an instruction change it that does not name it as its first operand?
    fn is_changed(self, factory: &mut InstructionInfoFactory, i: &Instruction) -> bool {
        match self {
            Index::In(register) => changes(factory, i, register),
            Index::OnStack(_) => writes(factory, i, Register::RSP),
        }
    }
}

/// Does an indirect jump without a table leave the function: a call in tail position? It does if it
/// goes through memory without an index (a virtual table), or if the stack frame was taken down
/// right before it, or if there never was one.
#[must_use]
pub fn leaves(code: &[Instruction], jump: &Instruction) -> bool {
    if jump.op0_kind() == OpKind::Memory {
        return jump.memory_index() == Register::None;
    }
    let at = code.partition_point(|i| i.ip() < jump.ip());
    let frame = code.iter().any(|i| i.mnemonic() == Mnemonic::Push || is_stack_adjustment(i));
    let taken_down = code[at.saturating_sub(6)..at]
        .iter()
        .any(|i| i.mnemonic() == Mnemonic::Pop || is_stack_adjustment(i));
    !frame || taken_down
}

fn is_stack_adjustment(i: &Instruction) -> bool {
    matches!(i.mnemonic(), Mnemonic::Add | Mnemonic::Sub | Mnemonic::Lea)
        && i.op0_kind() == OpKind::Register
        && i.op0_register() == Register::RSP
}

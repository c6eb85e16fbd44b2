//! Checks of loops that are charged as a whole (`pass/src/emit/cut.cpp`).
//!
//! On entry the work of all iterations is subtracted from the budget. If it does not fit, a branch
//! leads to where the charge is taken back and on to the check between chunks, which calls the slow
//! path when it is time. So whatever passes the branch has looked at the budget.

use crate::code::{Code, End};
use crate::image::Image;
use crate::probes::{BUDGET, Kind, Probe, field};
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

/// How many blocks may lie between the branch and the check.
const REACH: usize = 4;

/// The branches of a function that decide whether a whole loop fits. `checks`: its other safepoints.
#[must_use]
pub fn find(image: &Image<'_>, code: &Code, checks: &[Probe]) -> Vec<Probe> {
    if checks.is_empty() {
        return Vec::new();
    }
    let at =
        |block: usize| checks.iter().find(|probe| probe.block == block && probe.kind.is_check());
    let mut found = Vec::new();
    for block in 0..code.blocks.len() {
        if code.blocks[block].next.len() != 2 || at(block).is_some() {
            continue;
        }
        let Some((counter, loaded)) = decides(image, code, block) else { continue };
        for &to in &code.blocks[block].next {
            let Some((check, undone)) = straight_to(image, code, to, counter, &|b| at(b).is_some())
            else {
                continue;
            };
            let Some(probe) = at(check) else { continue };
            // In memory the charge is read from there; in a register, it is taken back in it.
            if undone && (loaded || probe.kind == Kind::Register) {
                let address = code.last_of(block).ip();
                found.push(Probe { kind: Kind::Whole, block, address, call: probe.call });
                break;
            }
        }
    }
    found
}

/// What sets the flags that a block's branch depends on: the how manieth of its instructions.
fn setter_of(code: &Code, block: usize) -> Option<usize> {
    let (branch, above) = code.of(block).split_last()?;
    above.iter().rposition(|i| i.rflags_modified() & branch.rflags_read() != 0)
}

/// The register whose subtraction or comparison a block's branch depends on, and whether it was
/// loaded from the budget.
fn decides(image: &Image<'_>, code: &Code, block: usize) -> Option<(Register, bool)> {
    let (branch, above) = code.of(block).split_last()?;
    let at = setter_of(code, block)?;
    let ordered = matches!(
        branch.condition_code(),
        ConditionCode::b
            | ConditionCode::ae
            | ConditionCode::be
            | ConditionCode::a
            | ConditionCode::s
            | ConditionCode::ns
            | ConditionCode::l
            | ConditionCode::ge
    );
    let setter = &above[at];
    let counts =
        matches!(setter.mnemonic(), Mnemonic::Sub | Mnemonic::Add | Mnemonic::Cmp | Mnemonic::Test);
    if !ordered || !counts || setter.op0_kind() != OpKind::Register {
        return (ordered && counts && field(image, setter) == Some(BUDGET))
            .then_some((Register::None, true));
    }
    // Either side may be the budget.
    let sides = [setter.op0_register(), setter.op1_register()];
    let load = |i: &Instruction| {
        i.mnemonic() == Mnemonic::Mov
            && i.op0_kind() == OpKind::Register
            && field(image, i) == Some(BUDGET)
            && sides.iter().any(|side| side.full_register() == i.op0_register())
    };
    let loaded = above[..at].iter().any(load) || above.iter().any(|i| stores(image, i));
    Some((setter.op0_register().full_register(), loaded))
}

fn stores(image: &Image<'_>, i: &Instruction) -> bool {
    i.op_count() > 0
        && i.op0_kind() == OpKind::Memory
        && field(image, i) == Some(BUDGET)
        && !matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Test)
}

/// Follows a way without branches to a check: which block, and whether the budget is set on it.
fn straight_to(
    image: &Image<'_>,
    code: &Code,
    from: usize,
    counter: Register,
    is_check: &dyn Fn(usize) -> bool,
) -> Option<(usize, bool)> {
    let mut factory = InstructionInfoFactory::new();
    let mut undone = false;
    let mut block = from;
    for _ in 0..REACH {
        let check = is_check(block);
        // The charge may be taken back in the check's own block, before what it looks at.
        let all = code.of(block);
        let before = if check { setter_of(code, block).unwrap_or(0) } else { all.len() };
        for i in &all[..before] {
            let mut writes = false;
            crate::probes::written(&mut factory, i, |r| writes |= r == counter);
            undone |= stores(image, i) || writes;
        }
        if check {
            return Some((block, undone));
        }
        let this = &code.blocks[block];
        let (&[only], End::Flow) = (this.next.as_slice(), &this.end) else { return None };
        block = only;
    }
    None
}

//! Checks of loops that are charged as a whole (`pass/src/emit/cut.cpp`).
//!
//! On entry the work of all iterations is subtracted from the budget. If it does not fit, a branch
//! leads to where the charge is taken back and on to the check between chunks, which calls the slow
//! path when it is time. So whatever passes the branch has looked at the budget.

use crate::code::{Code, End};
use crate::image::Image;
use crate::probes::{BUDGET, Kind, Probe, field, setter_of};
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind};

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
        if !decides(image, code, block) {
            continue;
        }
        let to = code.blocks[block].next.iter();
        if let Some(probe) = to.filter_map(|&to| undone(image, code, to, &at)).next() {
            let address = code.last_of(block).ip();
            found.push(Probe { kind: Kind::Whole, block, address, call: probe.call });
        }
    }
    found
}

/// Does a block's branch depend on whether the budget covers what is subtracted from it?
fn decides(image: &Image<'_>, code: &Code, block: usize) -> bool {
    let Some((branch, above)) = code.of(block).split_last() else { return false };
    let Some(at) = setter_of(code, block) else { return false };
    let setter = &above[at];
    let ordered = matches!(
        branch.condition_code(),
        ConditionCode::b | ConditionCode::ae | ConditionCode::be | ConditionCode::a
    );
    let counts = matches!(setter.mnemonic(), Mnemonic::Sub | Mnemonic::Add | Mnemonic::Cmp);
    // Either side may be the budget.
    let load = |i: &Instruction| {
        i.mnemonic() == Mnemonic::Mov
            && i.op0_kind() == OpKind::Register
            && field(image, i) == Some(BUDGET)
            && [setter.op0_register(), setter.op1_register()]
                .iter()
                .any(|side| side.full_register() == i.op0_register())
    };
    ordered
        && counts
        && (field(image, setter) == Some(BUDGET)
            || above[..at].iter().any(load)
            || above.iter().any(|i| stores(image, i)))
}

fn stores(image: &Image<'_>, i: &Instruction) -> bool {
    i.op_count() > 0
        && i.op0_kind() == OpKind::Memory
        && field(image, i) == Some(BUDGET)
        && !matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Test)
}

/// Follows a way without branches to a check, if the budget is set on it before that.
fn undone<'a>(
    image: &Image<'_>,
    code: &Code,
    from: usize,
    check: &dyn Fn(usize) -> Option<&'a Probe>,
) -> Option<&'a Probe> {
    let mut undone = false;
    let mut block = from;
    for _ in 0..REACH {
        let found = check(block);
        // The charge may be taken back in the check's own block, before what it looks at.
        let all = code.of(block);
        let before = found.map_or(all.len(), |_| setter_of(code, block).unwrap_or(0));
        undone |= all[..before].iter().any(|i| stores(image, i));
        if found.is_some() {
            return found.filter(|_| undone);
        }
        let this = &code.blocks[block];
        let (&[only], End::Flow) = (this.next.as_slice(), &this.end) else { return None };
        block = only;
    }
    None
}

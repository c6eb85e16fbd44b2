//! The pass's gates: loops that are left, towards a safepoint, where some bits of a counter are 0.

use crate::code::Code;
use crate::flow::Rounds;
use crate::loops::{changes, tested_each_time, update_of};
use iced_x86::{ConditionCode, InstructionInfoFactory, Mnemonic, OpKind, Register};

/// How often a cycle goes round at most before it is left at the end of `block`, from where it goes on
/// to `stay`, if that is a gate. From the lowest bit that the counter's step changes on, they take all
/// their values before one comes again, wherever the counter starts.
pub(crate) fn rounds(code: &Code, cycle: &[usize], block: usize, stay: usize) -> Option<Rounds> {
    let (branch, above) = code.of(block).split_last()?;
    let taken = branch.near_branch_target() == code.address(stay);
    let on = if taken { ConditionCode::ne } else { ConditionCode::e };
    let test = above.last()?;
    if branch.condition_code() != on
        || test.mnemonic() != Mnemonic::Test
        || test.op0_kind() != OpKind::Register
    {
        return None;
    }
    // An upper byte's bits are not the counter's lowest.
    let register = test.op0_register();
    if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) {
        return None;
    }
    let mask = test.try_immediate(1).ok()? & (u64::MAX >> (64 - 8 * register.size()));
    let (counter, through) = original(code, cycle, block, register.full_register());
    let update = update_of(code, cycle, counter)?;
    let low = update.step.trailing_zeros();
    let period = (mask >> low).checked_add(1)?;
    (mask == (period - 1) << low
        && period.is_power_of_two()
        && through.iter().all(|&at| tested_each_time(code, cycle, at, update.block)))
    .then_some(Rounds { through: update.block, most: period })
}

/// The register that the tested one is a constant more than, and the blocks that each round has to pass
/// for it to be so: the test's, and where it was copied.
fn original(code: &Code, cycle: &[usize], test: usize, tested: Register) -> (Register, Vec<usize>) {
    let (mut register, mut through) = (tested, vec![test]);
    for _ in 0..3 {
        let here = through[through.len() - 1];
        let Some((source, block)) = copied_in(code, &[here], register)
            .or_else(|| copied_in(code, cycle, register))
            .filter(|&(source, _)| source != register)
        else {
            break;
        };
        register = source;
        through.push(block);
    }
    (register, through)
}

/// The copy that is the only instruction of these blocks to write a register, and its block.
fn copied_in(code: &Code, blocks: &[usize], register: Register) -> Option<(Register, usize)> {
    let mut factory = InstructionInfoFactory::new();
    let mut found = None;
    for &block in blocks {
        for i in code.of(block) {
            if !changes(&mut factory, i, register) {
                continue;
            }
            let source = match i.mnemonic() {
                Mnemonic::Mov if i.op1_kind() == OpKind::Register => i.op1_register(),
                Mnemonic::Lea if i.memory_index() == Register::None => i.memory_base(),
                _ => return None,
            };
            if found.is_some() || source == Register::None {
                return None;
            }
            found = Some((source.full_register(), block));
        }
    }
    found
}

//! The pass's gates: loops that are left, towards a safepoint, where some bits of a counter are 0.

use crate::code::Code;
use crate::flow::Rounds;
use crate::loops::{changes, is_written, tested_each_time, update_of};
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

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
    let Origin { counter, shift, through } = origin(code, cycle, block, above.len() - 1, register)?;
    let update = update_of(code, cycle, counter)?;
    let low = update.step.trailing_zeros() + shift;
    let period = (mask.checked_shr(low)?).checked_add(1)?;
    (mask == (period - 1) << low
        && period.is_power_of_two()
        && through.iter().all(|&at| tested_each_time(code, cycle, at, update.block)))
    .then_some(Rounds { through: update.block, most: period })
}

/// How many instructions may lie between the counter and the test.
const REACH: usize = 6;

/// What a tested register holds: a counter, shifted, and something that is the same in each round.
struct Origin {
    counter: Register,
    shift: u32,
    /// Blocks that each round has to pass for it to be so: the test's, and those that compute it.
    through: Vec<usize>,
}

/// Goes back from a test, the instruction `at` of `block`, to the counter.
fn origin(
    code: &Code,
    cycle: &[usize],
    block: usize,
    at: usize,
    tested: Register,
) -> Option<Origin> {
    let mut place = (block, at);
    let mut found = Origin { counter: tested.full_register(), shift: 0, through: vec![block] };
    for _ in 0..REACH {
        let register = found.counter;
        // Above in the block, or the cycle's only one to write the register.
        let Some(writer) = above(code, place, register).or_else(|| only(code, cycle, register))
        else {
            break;
        };
        let Some((source, shift)) = source(code, cycle, writer) else { break };
        // The test may look at no more bits than were copied.
        if code.of(writer.0)[writer.1].op0_register().size() < 4 {
            return None;
        }
        place = writer;
        found.counter = source.full_register();
        found.shift += shift;
        if !found.through.contains(&place.0) {
            found.through.push(place.0);
        }
    }
    Some(found)
}

/// An instruction: a block, and where in it.
type Place = (usize, usize);

/// The last instruction above a place in its block that writes a register.
fn above(code: &Code, (block, at): Place, register: Register) -> Option<Place> {
    let mut factory = InstructionInfoFactory::new();
    let last = code.of(block)[..at].iter().rposition(|i| changes(&mut factory, i, register))?;
    Some((block, last))
}

/// The only instruction of a cycle that writes a register.
fn only(code: &Code, cycle: &[usize], register: Register) -> Option<Place> {
    let mut factory = InstructionInfoFactory::new();
    let all = cycle.iter().flat_map(|&block| (0..code.of(block).len()).map(move |at| (block, at)));
    let mut writers =
        all.filter(|&(block, at)| changes(&mut factory, &code.of(block)[at], register));
    writers.next().filter(|_| writers.next().is_none())
}

/// The register whose value before the instruction at a place, shifted, makes up that of the register
/// which it writes, but for what is the same in each round.
fn source(code: &Code, cycle: &[usize], place: Place) -> Option<(Register, u32)> {
    let i = &code.of(place.0)[place.1];
    let fixed = |register| register == Register::None || !is_written(code, cycle, register);
    match i.mnemonic() {
        Mnemonic::Mov if i.op1_kind() == OpKind::Register => Some((i.op1_register(), 0)),
        Mnemonic::Lea if fixed(i.memory_index()) => Some((i.memory_base(), 0)),
        Mnemonic::Lea if fixed(i.memory_base()) => {
            Some((i.memory_index(), i.memory_index_scale().trailing_zeros()))
        }
        Mnemonic::Shl => Some((i.op0_register(), u32::try_from(i.try_immediate(1).ok()?).ok()?)),
        Mnemonic::Add if i.op0_kind() != OpKind::Register => None,
        Mnemonic::Add if i.op1_kind() == OpKind::Memory => {
            stays(code, cycle, i).then_some((i.op0_register(), 0))
        }
        Mnemonic::Add if i.op1_kind() == OpKind::Register => {
            if fixed(i.op1_register()) {
                return Some((i.op0_register(), 0));
            }
            let start = above(code, place, i.op0_register())?;
            let start = &code.of(start.0)[start.1];
            let same = start.mnemonic() == Mnemonic::Mov
                && match start.op1_kind() {
                    OpKind::Register => fixed(start.op1_register()),
                    OpKind::Memory => stays(code, cycle, start),
                    _ => true,
                };
            same.then_some((i.op1_register(), 0))
        }
        _ => None,
    }
    .filter(|&(register, _)| register != Register::None && register != Register::RIP)
}

/// Is what an instruction reads a place on the stack that the cycle does not write? Of other memory, and of
/// what other pointers than the stack's write, nothing is known; calls write there if a callee may have
/// its address.
pub(crate) fn stays(code: &Code, cycle: &[usize], i: &Instruction) -> bool {
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
        let mut moves = false;
        crate::probes::written(&mut factory, other, |r| moves |= r == Register::RSP);
        !moves
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

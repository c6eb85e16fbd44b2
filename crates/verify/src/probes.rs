//! Finds safepoints in machine code.
//!
//! What the pass emits (`pass/src/emit/emit.cpp`) is a check and a conditional branch to a cold block that
//! calls `curtail_safepoint_slow`. A path passes the safepoint when it passes the branch. A call that
//! no such check guards was put there by hand: it counts only where it is made.

use crate::above::writes;
use crate::code::{Code, End};
use crate::image::Image;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register, RflagsBits};

/// The thread-local block's fields (`curtail_safepoint.h`).
pub(crate) const BUDGET: i64 = 0;
const POLL: i64 = 8;
const DEPTH: i64 = 12;
const PENDING: i64 = 16;
/// How many instructions above the branch are looked at for the check.
const WINDOW: usize = 12;

/// How a safepoint decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Subtracts from the budget.
    Clock,
    /// Subtracts the work of a whole loop, and goes on to another check if that does not fit.
    Whole,
    /// Looks at the poll word.
    Flag,
    /// At the end of a critical section, if a yield fell due inside: no check of the time.
    Pending,
    /// No check: a call in the source.
    ByHand,
}

impl Kind {
    /// Does a path pass the safepoint with the check, whether it is due or not?
    #[must_use]
    pub fn is_check(self) -> bool {
        !matches!(self, Kind::Pending | Kind::ByHand)
    }
}

/// A safepoint.
#[derive(Clone, Debug)]
pub struct Probe {
    /// How it decides.
    pub kind: Kind,
    /// The block whose branch it is; of one by hand, the block of the call.
    pub block: usize,
    /// The address of that branch, or call.
    pub address: u64,
    /// The block with the call.
    pub call: usize,
}

/// Where an instruction accesses the thread's safepoint block: the offset in it.
#[must_use]
pub fn field(image: &Image<'_>, i: &Instruction) -> Option<i64> {
    if !(0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory)
        || i.segment_prefix() != Register::FS
    {
        return None;
    }
    // Displacements are sign-extended from 32 bits.
    let displacement = i64::from(i.memory_displacement64() as i32);
    let fields = 0..64;
    // Local-exec: beside the block's offset there may be a register that is zero.
    let local = image.block.map(|block| displacement - block).filter(|at| fields.contains(at));
    if local.is_some() && i.memory_index() == Register::None {
        return local;
    }
    // Initial-exec: the block's offset is in a register.
    let based = i.memory_base() != Register::None || i.memory_index() != Register::None;
    (based && fields.contains(&displacement)).then_some(displacement)
}

/// Does an instruction access a field of the block, or (unoptimised code) compute its address?
fn touches(image: &Image<'_>, i: &Instruction, offset: i64) -> bool {
    if field(image, i) == Some(offset) {
        return true;
    }
    if i.mnemonic() == Mnemonic::Lea && i.memory_index() == Register::None {
        return image.block.is_some_and(|block| i.memory_displacement64() as i64 == block + offset);
    }
    // Of a shared object's initial-exec code: the block's offset is loaded.
    i.is_ip_rel_memory_operand()
        && image
            .imports
            .get(&i.ip_rel_memory_address())
            .is_some_and(|name| name == "curtail_safepoint")
}

/// All safepoints of a function. `slow`: is it the slow path that a block calls?
#[must_use]
pub fn find(image: &Image<'_>, code: &Code, slow: &dyn Fn(usize) -> bool) -> Vec<Probe> {
    let mut probes = Vec::new();
    for call in (0..code.blocks.len()).filter(|&block| slow(block)) {
        let mut checks = Vec::new();
        let (bare, pending) = checks_above(image, code, call, &mut checks);
        for &(block, kind) in &checks {
            probes.push(Probe { kind, block, address: code.last_of(block).ip(), call });
        }
        // These count where the call is made only.
        for kind in
            [bare.then_some(Kind::ByHand), pending.then_some(Kind::Pending)].into_iter().flatten()
        {
            let address = code.last_of(call).ip();
            probes.push(Probe { kind, block: call, address, call });
        }
    }
    probes.extend(crate::charges::find(image, code, &probes));
    probes.sort_by_key(|probe| (probe.address, probe.kind));
    probes.dedup_by_key(|probe| (probe.block, probe.kind));
    probes
}

/// Finds the checks that lead to a cold call. Returns whether it is reached without one as well, and
/// whether by the end of a critical section.
fn checks_above(
    image: &Image<'_>,
    code: &Code,
    call: usize,
    checks: &mut Vec<(usize, Kind)>,
) -> (bool, bool) {
    let mut pending = false;
    let mut bare = code.blocks[call].before.is_empty();
    let mut work = vec![call];
    let mut seen = vec![call];
    while let Some(block) = work.pop() {
        for &above in &code.blocks[block].before {
            if code.blocks[above].next.len() == 2 {
                match check_of(image, code, above) {
                    Some(Kind::Pending) => pending = true,
                    Some(kind) => checks.push((above, kind)),
                    None => bare = true,
                }
            } else if code.blocks[above].end == End::Flow && code.blocks[above].next.len() == 1 {
                // A part of the cold path.
                if !seen.contains(&above) {
                    seen.push(above);
                    bare |= code.blocks[above].before.is_empty();
                    work.push(above);
                }
            } else {
                bare = true;
            }
        }
    }
    (bare, pending)
}

/// What sets the flags that a block's branch depends on: the how manieth of its instructions.
pub(crate) fn setter_of(code: &Code, block: usize) -> Option<usize> {
    let (branch, above) = code.of(block).split_last()?;
    above.iter().rposition(|i| i.rflags_modified() & branch.rflags_read() != 0)
}

/// What the branch at a block's end depends on, if that is a safepoint's check.
fn check_of(image: &Image<'_>, code: &Code, block: usize) -> Option<Kind> {
    let (branch, above) = code.of(block).split_last()?;
    let setter = setter_of(code, block)?;
    let nearby = &above[above.len().saturating_sub(WINDOW)..];
    let touches = |offset: i64| nearby.iter().any(|i| touches(image, i, offset));
    let mut signed = branch.rflags_read() & RflagsBits::SF != 0;
    let mut sets = &above[setter];
    // Unoptimised code keeps the sign in a register, and tests that.
    let kept = |i: &Instruction| matches!(i.mnemonic(), Mnemonic::Sets | Mnemonic::Setns);
    let mut factory = InstructionInfoFactory::new();
    if sets.mnemonic() == Mnemonic::Test
        && let Some(at) = above[..setter].iter().rposition(kept)
        && above[at].op0_register() == sets.op0_register()
        && !above[at + 1..setter].iter().any(|i| writes(&mut factory, i, sets.op0_register()))
        && let Some(before) =
            above[..at].iter().rposition(|i| i.rflags_modified() & RflagsBits::SF != 0)
    {
        (sets, signed) = (&above[before], true);
    }
    match field(image, sets) {
        Some(BUDGET) if signed => return Some(Kind::Clock),
        Some(POLL) => return Some(Kind::Flag),
        Some(PENDING | DEPTH) => return Some(Kind::Pending),
        _ => {}
    }
    if !counts(sets) {
        return None;
    }
    if touches(PENDING) && touches(DEPTH) {
        return Some(Kind::Pending);
    }
    // Unoptimised code loads the word first.
    match (touches(BUDGET), touches(POLL)) {
        (true, _) if branch.rflags_read() != RflagsBits::ZF => Some(Kind::Clock),
        (_, true) if branch.rflags_read() == RflagsBits::ZF => Some(Kind::Flag),
        _ => None,
    }
}

/// Arithmetic or a comparison whose outcome a check may be.
fn counts(i: &Instruction) -> bool {
    matches!(
        i.mnemonic(),
        Mnemonic::Sub
            | Mnemonic::Add
            | Mnemonic::Dec
            | Mnemonic::Inc
            | Mnemonic::Cmp
            | Mnemonic::Test
    )
}

//! What machine code costs, in the pass's units (`pass/src/facts/cost.cpp`: about one IR instruction).
//! Only proportions matter, and the bound is not exact to the unit.

use crate::names::is_listed;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

/// A call, beside what the callee costs.
pub const CALL: u64 = 5;
/// A function of a library that the table does not know.
pub const LIBRARY: u64 = 25;
/// What callees through pointers keep to is a part of the bound: this one (`Quarter` in the pass).
pub const SHARE: u64 = 4;
/// What may lie between a call and the return in a chain of returns (`ReturnTolerance`).
pub const RETURN: u64 = 16;

/// One instruction.
#[must_use]
pub fn of(i: &Instruction) -> u64 {
    if i.has_lock_prefix() {
        return 15;
    }
    if i.has_rep_prefix() || i.has_repe_prefix() || i.has_repne_prefix() {
        return if i.is_string_instruction() { 30 } else { 1 };
    }
    match i.mnemonic() {
        Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::INVALID | Mnemonic::Int3 | Mnemonic::Ud2 => 0,
        Mnemonic::Div | Mnemonic::Idiv => 10,
        Mnemonic::Xchg if i.op1_kind() == OpKind::Memory || i.op0_kind() == OpKind::Memory => 15,
        Mnemonic::Divss
        | Mnemonic::Divsd
        | Mnemonic::Divps
        | Mnemonic::Divpd
        | Mnemonic::Vdivss
        | Mnemonic::Vdivsd
        | Mnemonic::Vdivps
        | Mnemonic::Vdivpd
        | Mnemonic::Sqrtss
        | Mnemonic::Sqrtsd
        | Mnemonic::Sqrtps
        | Mnemonic::Sqrtpd
        | Mnemonic::Vsqrtss
        | Mnemonic::Vsqrtsd
        | Mnemonic::Vsqrtps
        | Mnemonic::Vsqrtpd
        | Mnemonic::Fdiv
        | Mnemonic::Fdivp
        | Mnemonic::Fdivr
        | Mnemonic::Fdivrp
        | Mnemonic::Fsqrt => 5,
        Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Sfence => 15,
        Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Cpuid | Mnemonic::Pause => 25,
        Mnemonic::Fsin
        | Mnemonic::Fcos
        | Mnemonic::Fsincos
        | Mnemonic::Fptan
        | Mnemonic::Fpatan
        | Mnemonic::F2xm1
        | Mnemonic::Fyl2x
        | Mnemonic::Fyl2xp1 => 40,
        Mnemonic::Syscall => 100,
        // A copy between registers is renaming.
        Mnemonic::Mov
        | Mnemonic::Movaps
        | Mnemonic::Movups
        | Mnemonic::Movapd
        | Mnemonic::Vmovaps
        | Mnemonic::Vmovups
        | Mnemonic::Vmovdqa
        | Mnemonic::Movdqa
            if i.op0_kind() == OpKind::Register && i.op1_kind() == OpKind::Register =>
        {
            0
        }
        _ => match i.flow_control() {
            FlowControl::UnconditionalBranch => 0,
            FlowControl::Call | FlowControl::IndirectCall => CALL,
            _ => 1,
        },
    }
}

/// A library function by name. What it does in proportion to a length counts as a middling one.
#[must_use]
pub fn of_library(name: &str) -> u64 {
    let plain = name.split('@').next().unwrap_or(name);
    match plain {
        "memcpy" | "memmove" | "memset" | "memcmp" | "bcmp" | "strlen" | "memchr" => 30,
        "sin" | "cos" | "tan" | "exp" | "log" | "pow" | "exp2" | "log2" | "sinf" | "cosf"
        | "expf" | "logf" | "powf" => 40,
        _ if is_listed("allocator", plain) => 40,
        _ => LIBRARY,
    }
}

/// Library functions that do not come back.
#[must_use]
pub fn never_returns(name: &str) -> bool {
    is_listed("never-returns", name.split('@').next().unwrap_or(name))
}

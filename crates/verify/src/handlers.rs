//! Signal handlers: functions whose address goes to `signal` or, in a `struct sigaction`, to
//! `sigaction`, as far as straight code shows it.

use crate::above::Above;
use crate::code::{End, Target};
use crate::program::Program;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use std::collections::HashMap;

/// How many instructions above the call are looked at.
const WINDOW: usize = 96;

const DIRECT: &[&str] =
    &["signal", "bsd_signal", "sysv_signal", "__sysv_signal", "ssignal", "sigset"];
const BY_STRUCT: &[&str] = &["sigaction", "__sigaction", "__libc_sigaction"];

/// Handlers by function, with the address of the call that sets them.
#[must_use]
pub fn find(program: &Program<'_>) -> HashMap<usize, u64> {
    let mut found = HashMap::new();
    for code in &program.codes {
        for (block, this) in code.blocks.iter().enumerate() {
            let (End::Call(target) | End::Tail(target)) = &this.end else { continue };
            let name = match target {
                Target::Import(name) => name.as_str(),
                Target::Function(f) => program.image.functions[*f].symbol.as_str(),
                _ => continue,
            };
            let name = name.split('@').next().unwrap_or(name);
            let call = code.last_of(block).ip();
            let above = &code.instructions[this.past.saturating_sub(WINDOW)..this.past - 1];
            let mut look = Look { program, above: Above::new(&program.image, above) };
            let handlers = if DIRECT.contains(&name) {
                look.above.address_in(Register::RSI, above.len()).into_iter().collect()
            } else if BY_STRUCT.contains(&name) {
                look.in_struct()
            } else {
                continue;
            };
            for address in handlers {
                if let Some(function) = program.image.function_from(address) {
                    found.entry(function).or_insert(call);
                }
            }
        }
    }
    found
}

struct Look<'a> {
    program: &'a Program<'a>,
    above: Above<'a>,
}

impl Look<'_> {
    /// What was stored as the first field of the struct that the second argument points to.
    fn in_struct(&mut self) -> Vec<u64> {
        let Some(at) = self.above.writer(Register::RSI, self.above.code.len()) else {
            return Vec::new();
        };
        let mut pointer = self.above.code[at];
        // The struct lies at the top of the stack, or its address was kept.
        if pointer.mnemonic() == Mnemonic::Mov && pointer.op1_kind() == OpKind::Register {
            if pointer.op1_register() == Register::RSP {
                return self.stored(|i| is_at(i, Register::RSP, 0));
            }
            let Some(at) = self.above.writer(pointer.op1_register(), at) else {
                return Vec::new();
            };
            pointer = self.above.code[at];
        }
        match pointer.mnemonic() {
            Mnemonic::Lea if pointer.is_ip_rel_memory_operand() => {
                self.in_static(pointer.ip_rel_memory_address())
            }
            Mnemonic::Lea if pointer.memory_index() == Register::None => {
                let (base, displacement) = (pointer.memory_base(), pointer.memory_displacement64());
                self.stored(|i| is_at(i, base, displacement))
            }
            Mnemonic::Mov => pointer.try_immediate(1).map_or(Vec::new(), |a| self.in_static(a)),
            _ => Vec::new(),
        }
    }

    /// A struct in data: what the file holds there, and what the code above stores.
    fn in_static(&mut self, address: u64) -> Vec<u64> {
        let is_there =
            |i: &Instruction| i.is_ip_rel_memory_operand() && i.ip_rel_memory_address() == address;
        let mut found = self.stored(is_there);
        found.extend(self.program.image.word_at(address));
        found
    }

    /// What the code stores at a place.
    fn stored(&mut self, is_there: impl Fn(&Instruction) -> bool) -> Vec<u64> {
        let code = self.above.code;
        let stores = (0..code.len()).filter(|&at| {
            let i = &code[at];
            i.op_count() == 2 && i.op0_kind() == OpKind::Memory && is_there(i)
        });
        stores.filter_map(|at| self.stored_by(at)).collect()
    }

    fn stored_by(&mut self, at: usize) -> Option<u64> {
        let i = self.above.code[at];
        match i.op1_kind() {
            OpKind::Register => self.above.address_in(i.op1_register(), at),
            _ => i.try_immediate(1).ok(),
        }
    }
}

/// Is an instruction's operand in memory so far from where a register points?
fn is_at(i: &Instruction, base: Register, displacement: u64) -> bool {
    i.memory_base() == base
        && i.memory_index() == Register::None
        && i.memory_displacement64() == displacement
}

//! Signal handlers: functions whose address goes to `signal` or, in a `struct sigaction`, to
//! `sigaction`, as far as straight code shows it.

use crate::above::Above;
use crate::code::{End, Target};
use crate::program::Program;
use iced_x86::{Mnemonic, OpKind, Register};
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
        let pointer = self.above.code[at];
        let (base, displacement) = match pointer.mnemonic() {
            Mnemonic::Lea if pointer.is_ip_rel_memory_operand() => {
                return self.in_static(pointer.ip_rel_memory_address());
            }
            Mnemonic::Lea if pointer.memory_index() == Register::None => {
                (pointer.memory_base(), pointer.memory_displacement64())
            }
            // The struct lies at the top of the stack, or its address was kept.
            Mnemonic::Mov if pointer.op1_kind() == OpKind::Register => {
                return match pointer.op1_register() {
                    Register::RSP => self.stored(Register::RSP, 0),
                    kept => match self.above.writer(kept, at).map(|at| self.above.code[at]) {
                        Some(lea)
                            if lea.mnemonic() == Mnemonic::Lea
                                && !lea.is_ip_rel_memory_operand() =>
                        {
                            self.stored(lea.memory_base(), lea.memory_displacement64())
                        }
                        Some(lea) if lea.mnemonic() == Mnemonic::Lea => {
                            self.in_static(lea.ip_rel_memory_address())
                        }
                        _ => Vec::new(),
                    },
                };
            }
            Mnemonic::Mov => {
                return pointer.try_immediate(1).map_or(Vec::new(), |a| self.in_static(a));
            }
            _ => return Vec::new(),
        };
        self.stored(base, displacement)
    }

    /// A struct in data: what the file holds there, and what the code above stores.
    fn in_static(&mut self, address: u64) -> Vec<u64> {
        let mut found: Vec<u64> = self.program.image.word_at(address).into_iter().collect();
        for at in 0..self.above.code.len() {
            let i = self.above.code[at];
            if i.op0_kind() == OpKind::Memory
                && i.is_ip_rel_memory_operand()
                && i.ip_rel_memory_address() == address
            {
                found.extend(self.stored_by(at));
            }
        }
        found
    }

    fn stored(&mut self, base: Register, displacement: u64) -> Vec<u64> {
        let mut found = Vec::new();
        for at in 0..self.above.code.len() {
            let i = &self.above.code[at];
            if i.op_count() == 2
                && i.op0_kind() == OpKind::Memory
                && i.memory_base() == base
                && i.memory_index() == Register::None
                && i.memory_displacement64() == displacement
            {
                found.extend(self.stored_by(at));
            }
        }
        found
    }

    fn stored_by(&mut self, at: usize) -> Option<u64> {
        let i = self.above.code[at];
        match i.op1_kind() {
            OpKind::Register => self.above.address_in(i.op1_register(), at),
            _ => i.try_immediate(1).ok(),
        }
    }
}

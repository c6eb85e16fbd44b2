//! Straight code, read upwards: what a register holds at an instruction, as far as those above it tell.

use crate::image::Image;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

/// How many moves an address is followed through.
const MOVES: usize = 6;

/// Instructions in order.
pub(crate) struct Above<'a> {
    pub(crate) code: &'a [Instruction],
    pub(crate) factory: InstructionInfoFactory,
    image: &'a Image<'a>,
}

impl<'a> Above<'a> {
    pub(crate) fn new(image: &'a Image<'a>, code: &'a [Instruction]) -> Self {
        Above { code, factory: InstructionInfoFactory::new(), image }
    }

    /// The nearest instruction above `from` that writes a register.
    pub(crate) fn writer(&mut self, register: Register, from: usize) -> Option<usize> {
        (0..from).rev().find(|&at| writes(&mut self.factory, &self.code[at], register))
    }

    /// The address that a register (general or vector) holds above `from`, if the nearest writers are a `lea`, a
    /// constant, a load from the global offset table, or moves from one. Tables of loops are loaded far above: any
    /// of the function will do, if there is no other kind of writer nearer than it.
    pub(crate) fn address_in(&mut self, register: Register, from: usize) -> Option<u64> {
        let (mut register, mut from) = (register, from);
        for _ in 0..MOVES {
            from = self.writer(register, from)?;
            let i = &self.code[from];
            match i.mnemonic() {
                Mnemonic::Lea if i.is_ip_rel_memory_operand() => {
                    return Some(i.ip_rel_memory_address());
                }
                Mnemonic::Mov | Mnemonic::Movq | Mnemonic::Vmovq | Mnemonic::Movaps
                    if i.op1_kind() == OpKind::Register =>
                {
                    register = i.op1_register();
                }
                Mnemonic::Mov if i.is_ip_rel_memory_operand() => {
                    let slot = i.ip_rel_memory_address();
                    return match self.image.imports.get(&slot) {
                        Some(name) => self.image.symbols.get(name).copied(),
                        None => self.image.word_at(slot),
                    };
                }
                Mnemonic::Mov => return i.try_immediate(1).ok(),
                // Saved and restored around something: look further up.
                Mnemonic::Pop => {}
                _ => return None,
            }
        }
        None
    }
}

/// Does an instruction write a register, or a part of it?
pub(crate) fn writes(
    factory: &mut InstructionInfoFactory,
    i: &Instruction,
    register: Register,
) -> bool {
    factory.info(i).used_registers().iter().any(|used| {
        used.register().full_register() == register.full_register()
            && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
    })
}

//! One function's machine code as a control-flow graph.
//!
//! Blocks end at branches, and behind every call, so that a block holds at most one call, its last
//! instruction. The whole extent is decoded, so that blocks which only the unwinder enters (landing
//! pads) are there, too: as blocks without predecessors.

use crate::image::Image;
use crate::tables;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use std::collections::{BTreeSet, HashMap};

/// Whom a call or a jump out of the function reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A function of the program, by its index.
    Function(usize),
    /// A function of another file, by name.
    Import(String),
    /// Code of the program that no function begins at.
    Elsewhere(u64),
    /// Through a pointer.
    Pointer,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With a branch, or by running into the next block.
    Flow,
    /// With a call that comes back (one that does not ends in `Stop`).
    Call(Target),
    /// With a call whose callee the function leaves to: a jump out of it.
    Tail(Target),
    /// With a conditional jump out of it.
    MaybeTail(Target),
    /// With a return.
    Return,
    /// It goes on nowhere: a trap, or a call that does not come back.
    Stop,
    /// With a jump through a table or a register whose targets are not known.
    Unknown,
}

/// A basic block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its instructions, as a range of the function's.
    pub first: usize,
    /// One past its last instruction.
    pub past: usize,
    /// How it ends.
    pub end: End,
    /// Where it goes on within the function.
    pub next: Vec<usize>,
    /// From where it is reached within the function.
    pub before: Vec<usize>,
}

/// A function's code.
#[derive(Debug, Default)]
pub struct Code {
    /// Every instruction of its extent, in order.
    pub instructions: Vec<Instruction>,
    /// Blocks by address; the first is the entry.
    pub blocks: Vec<Block>,
    /// Addresses of indirect jumps whose targets were not found: they count as reaching every block
    /// that nothing else reaches.
    pub unresolved: Vec<u64>,
}

impl Code {
    /// The instructions of a block.
    #[must_use]
    pub fn of(&self, block: usize) -> &[Instruction] {
        let block = &self.blocks[block];
        &self.instructions[block.first..block.past]
    }

    /// A block's last instruction.
    #[must_use]
    pub fn last_of(&self, block: usize) -> &Instruction {
        &self.instructions[self.blocks[block].past - 1]
    }

    /// The block that begins at, or contains, an address.
    #[must_use]
    pub fn block_at(&self, address: u64) -> Option<usize> {
        let start = |block: &Block| self.instructions[block.first].ip();
        let after = self.blocks.partition_point(|block| start(block) <= address);
        let index = after.checked_sub(1)?;
        (address < self.last_of(index).next_ip()).then_some(index)
    }

    /// Where a block begins.
    #[must_use]
    pub fn address(&self, block: usize) -> u64 {
        self.instructions[self.blocks[block].first].ip()
    }
}

/// Whom a call or jump instruction reaches.
#[must_use]
pub fn target_of(image: &Image<'_>, i: &Instruction) -> Target {
    if matches!(i.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32) {
        return resolve(image, i.near_branch_target());
    }
    if i.is_ip_rel_memory_operand() {
        let slot = i.ip_rel_memory_address();
        if let Some(name) = image.imports.get(&slot) {
            return match image.symbols.get(name) {
                Some(&own) => resolve(image, own),
                None => Target::Import(name.clone()),
            };
        }
        let got = image.section_at(slot).is_some_and(|section| section.name.starts_with(".got"));
        if let Some(address) = image.word_at(slot).filter(|_| got)
            && image.is_code(address)
        {
            return resolve(image, address);
        }
    }
    Target::Pointer
}

fn resolve(image: &Image<'_>, address: u64) -> Target {
    if let Some(name) = image.stubs.get(&address) {
        return match image.symbols.get(name).and_then(|&own| image.function_from(own)) {
            Some(index) => Target::Function(index),
            None => Target::Import(name.clone()),
        };
    }
    image.function_from(address).map_or(Target::Elsewhere(address), Target::Function)
}

/// Decodes a function. All calls come back, until `settle` says otherwise.
#[must_use]
pub fn decode(image: &Image<'_>, function: usize) -> Code {
    let extent = &image.functions[function];
    let bytes = image.bytes_at(extent.address).unwrap_or(&[]);
    let bytes = &bytes[..bytes.len().min(usize::try_from(extent.size).unwrap_or(usize::MAX))];
    let decoder = Decoder::with_ip(64, bytes, extent.address, DecoderOptions::NONE);
    let instructions: Vec<Instruction> = decoder.into_iter().collect();
    let mut shape = Shape { image, instructions: &instructions, jumps: HashMap::new() };
    let leaders = shape.leaders();
    let blocks = shape.blocks(&leaders);
    let unresolved = blocks
        .iter()
        .filter(|block| block.end == End::Unknown)
        .map(|block| instructions[block.past - 1].ip())
        .collect();
    Code { instructions, blocks, unresolved }
}

struct Shape<'a> {
    image: &'a Image<'a>,
    instructions: &'a [Instruction],
    /// Targets of resolved indirect jumps, by the jump's address.
    jumps: HashMap<u64, Vec<u64>>,
}

fn is_jump(i: &Instruction) -> bool {
    matches!(
        i.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::XbeginXabortXend
    ) && matches!(i.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32)
}

fn ends_block(i: &Instruction) -> bool {
    i.flow_control() != FlowControl::Next || i.is_invalid()
}

impl Shape<'_> {
    fn position(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }

    /// Positions at which blocks begin.
    fn leaders(&mut self) -> BTreeSet<usize> {
        let mut leaders = BTreeSet::from([0]);
        for (at, i) in self.instructions.iter().enumerate() {
            if ends_block(i) {
                leaders.insert(at + 1);
            }
            if is_jump(i) {
                leaders.extend(self.position(i.near_branch_target()));
            }
        }
        let computed = self.instructions.iter().filter(|i| i.mnemonic() == Mnemonic::Lea);
        let computed = computed.filter(|i| i.is_ip_rel_memory_operand());
        let starts: BTreeSet<u64> = computed.map(Instruction::ip_rel_memory_address).collect();
        for (at, i) in self.instructions.iter().enumerate() {
            if i.flow_control() != FlowControl::IndirectBranch {
                continue;
            }
            let valid = |address: u64| self.position(address).is_some();
            let targets = tables::targets(self.image, &self.instructions[..=at], &starts, &valid);
            leaders.extend(targets.iter().filter_map(|&address| self.position(address)));
            if !targets.is_empty() {
                self.jumps.insert(i.ip(), targets);
            }
        }
        leaders.retain(|&at| at < self.instructions.len());
        leaders
    }

    fn blocks(&self, leaders: &BTreeSet<usize>) -> Vec<Block> {
        let starts: Vec<usize> = leaders.iter().copied().collect();
        let number = |address: u64| starts.binary_search(&self.position(address)?).ok();
        let mut blocks = Vec::with_capacity(starts.len());
        for (at, &first) in starts.iter().enumerate() {
            let past = starts.get(at + 1).copied().unwrap_or(self.instructions.len());
            let last = &self.instructions[past - 1];
            let following = (at + 1 < starts.len()).then_some(at + 1);
            let (end, next) = self.end_of(last, following, &number);
            blocks.push(Block { first, past, end, next, before: Vec::new() });
        }
        blocks
    }

    fn end_of(
        &self,
        last: &Instruction,
        following: Option<usize>,
        number: &dyn Fn(u64) -> Option<usize>,
    ) -> (End, Vec<usize>) {
        let flow = |next: Vec<usize>| {
            let end = if next.is_empty() { End::Stop } else { End::Flow };
            (end, next)
        };
        let onwards: Vec<usize> = following.into_iter().collect();
        if last.is_invalid() {
            return (End::Stop, Vec::new());
        }
        match last.flow_control() {
            FlowControl::Return => (End::Return, Vec::new()),
            FlowControl::Interrupt | FlowControl::Exception => (End::Stop, Vec::new()),
            FlowControl::Call | FlowControl::IndirectCall
                if (last.is_call_near() || last.is_call_near_indirect()) =>
            {
                (End::Call(target_of(self.image, last)), onwards)
            }
            // System calls are calls to the decoder, too.
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => flow(onwards),
            FlowControl::UnconditionalBranch => match number(last.near_branch_target()) {
                Some(block) => flow(vec![block]),
                None => (End::Tail(target_of(self.image, last)), Vec::new()),
            },
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                let mut next = onwards;
                match number(last.near_branch_target()) {
                    Some(block) => next.push(block),
                    None if is_jump(last) => {
                        return (End::MaybeTail(target_of(self.image, last)), next);
                    }
                    None => {}
                }
                flow(next)
            }
            FlowControl::IndirectBranch => self.indirect(last, number),
        }
    }

    fn indirect(
        &self,
        last: &Instruction,
        number: &dyn Fn(u64) -> Option<usize>,
    ) -> (End, Vec<usize>) {
        if let Some(targets) = self.jumps.get(&last.ip()) {
            let mut next: Vec<usize> = targets.iter().filter_map(|&to| number(to)).collect();
            next.sort_unstable();
            next.dedup();
            return (End::Flow, next);
        }
        match target_of(self.image, last) {
            Target::Pointer if !tables::leaves(self.instructions, last) => {
                (End::Unknown, Vec::new())
            }
            target => (End::Tail(target), Vec::new()),
        }
    }
}

impl Code {
    /// Cuts what lies behind calls that do not come back, then makes the edges. Once, after decoding.
    pub fn settle(&mut self, stops: &dyn Fn(&Target) -> bool) {
        for block in &mut self.blocks {
            let stopped = match &block.end {
                // A call that nothing follows cannot come back either.
                End::Call(target) => stops(target) || block.next.is_empty(),
                End::Tail(target) => stops(target),
                End::MaybeTail(target) if stops(target) => {
                    block.end = End::Flow;
                    false
                }
                _ => false,
            };
            if stopped {
                block.end = End::Stop;
                block.next.clear();
            }
        }
        self.drop_padding();
        connect(self);
    }

    /// What fills up the space in front of an aligned block runs only if something falls into it.
    fn drop_padding(&mut self) {
        let reached = reached(&self.blocks, |block| block.next.clone());
        let padding = |i: &Instruction| matches!(i.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        for (block, _) in
            self.blocks.iter_mut().zip(reached).skip(1).filter(|(_, reached)| !reached)
        {
            if self.instructions[block.first..block.past].iter().all(padding) {
                block.end = End::Stop;
                block.next.clear();
            }
        }
    }

    /// Blocks from which every path ends in a trap, in a call that does not come back, or in going on
    /// unwinding. They carry no safepoints.
    #[must_use]
    pub fn cold(&self) -> Vec<bool> {
        let mut cold = vec![false; self.blocks.len()];
        let mut work: Vec<usize> = (0..self.blocks.len()).rev().collect();
        while let Some(block) = work.pop() {
            let this = &self.blocks[block];
            let ends = match this.end {
                End::Stop => true,
                End::Flow | End::Call(_) => {
                    !this.next.is_empty() && this.next.iter().all(|&to| cold[to])
                }
                _ => false,
            };
            if ends && !cold[block] {
                cold[block] = true;
                work.extend(&this.before);
            }
        }
        cold
    }

    /// Can it come back to its caller, if those that `stops` names do not?
    #[must_use]
    pub fn returns(&self, stops: &dyn Fn(&Target) -> bool) -> bool {
        let next = |block: &Block| match &block.end {
            End::Call(target) | End::Tail(target) if stops(target) => Vec::new(),
            _ => block.next.clone(),
        };
        // What nothing leads to is a landing pad, from which it may come back as well.
        let mut seen = vec![false; self.blocks.len()];
        let reached = reached(&self.blocks, next);
        let mut work: Vec<usize> =
            (0..self.blocks.len()).filter(|&b| b == 0 || !reached[b]).collect();
        while let Some(at) = work.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match &self.blocks[at].end {
                End::Return | End::Unknown => return true,
                End::Tail(target) | End::MaybeTail(target) if !stops(target) => return true,
                _ => work.extend(next(&self.blocks[at])),
            }
        }
        false
    }
}

/// Where some edge leads to.
fn reached(blocks: &[Block], next: impl Fn(&Block) -> Vec<usize>) -> Vec<bool> {
    let mut reached = vec![false; blocks.len()];
    blocks.iter().flat_map(next).for_each(|to| reached[to] = true);
    reached
}

/// Unknown jumps reach every block that nothing else does; then the edges backwards.
fn connect(code: &mut Code) {
    let reached = reached(&code.blocks, |block| block.next.clone());
    let orphans: Vec<usize> = (1..code.blocks.len()).filter(|&at| !reached[at]).collect();
    for block in &mut code.blocks {
        if block.end == End::Unknown {
            block.next.clone_from(&orphans);
        }
    }
    for from in 0..code.blocks.len() {
        for at in 0..code.blocks[from].next.len() {
            let to = code.blocks[from].next[at];
            code.blocks[to].before.push(from);
        }
    }
    for block in &mut code.blocks {
        block.before.sort_unstable();
        block.before.dedup();
        // Both ways of a branch may lead to the same place.
        block.next.dedup();
    }
}

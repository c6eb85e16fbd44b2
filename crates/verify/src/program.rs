//! The whole program decoded: every function's code, where its safepoints are, what the pass noted.

use crate::code::{self, Code, End, Target};
use crate::cost;
use crate::image::Image;
use crate::nests::Noted;
use crate::notes::Notes;
use crate::probes::{self, Probe};
use iced_x86::{Instruction, Mnemonic, OpKind};
use std::collections::HashSet;

/// The slow path's symbol.
pub const SLOW: [&str; 2] = ["curtail_safepoint_slow", "curtail_safepoint_slow_sse"];

/// Between the pieces of a long library call (`crates/fiber/native/long_calls.c`): the runtime's own
/// safepoint, in every program.
const BETWEEN_PIECES: &str = "curtail_long_yield";

/// A program, decoded.
#[derive(Debug)]
pub struct Program<'a> {
    /// The file.
    pub image: Image<'a>,
    /// Code by function.
    pub codes: Vec<Code>,
    /// Safepoints by function.
    pub probes: Vec<Vec<Probe>>,
    /// What the pass noted.
    pub notes: Notes,
    /// Functions whose address is taken: they may be called from anywhere.
    pub taken: HashSet<usize>,
    /// Readable names by function.
    pub readable: Vec<String>,
    slow: [Option<usize>; 2],
}

impl<'a> Program<'a> {
    /// Decodes everything in the image.
    ///
    /// # Errors
    /// Notes that make no sense.
    pub fn new(image: Image<'a>, notes: Notes) -> Result<Self, String> {
        let count = image.functions.len();
        let mut codes: Vec<Code> = (0..count).map(|f| code::decode(&image, f)).collect();
        let dead = never_return(&image, &codes);
        let stops = |target: &Target| stops(&dead, target);
        codes.iter_mut().for_each(|code| code.settle(&stops));
        let slow = SLOW
            .map(|name| image.symbols.get(name).and_then(|&address| image.function_from(address)));
        let probes = codes
            .iter()
            .zip(&image.functions)
            .map(|(code, extent)| {
                if extent.symbol == BETWEEN_PIECES {
                    return Vec::new();
                }
                let calls = |b: usize| {
                    matches!(&code.blocks[b].end, End::Call(t) | End::Tail(t) if is_slow(&slow, t))
                };
                probes::find(&image, code, &calls)
            })
            .collect();
        let readable = image
            .functions
            .iter()
            .map(|extent| match extent.symbol.as_str() {
                "" => format!("function at {:#x}", extent.address),
                name => crate::names::demangle(name),
            })
            .collect();
        let mut taken = image.address_taken(&addresses_in(&codes));
        // Its address goes to the start-up code, which calls it once.
        taken.retain(|&f| image.functions[f].symbol != "main");
        Ok(Program { image, codes, probes, notes, taken, readable, slow })
    }

    /// Is it the slow path that is called?
    #[must_use]
    pub fn is_slow(&self, target: &Target) -> bool {
        is_slow(&self.slow, target)
    }

    /// The blocks of a function with a safepoint that paths pass.
    #[must_use]
    pub fn checks(&self, function: usize) -> HashSet<usize> {
        let probes = self.probes[function].iter();
        probes.filter(|probe| probe.kind.is_check()).map(|probe| probe.block).collect()
    }

    /// Did the pass put safepoints in, or decide that none are needed?
    #[must_use]
    pub fn is_instrumented(&self, function: usize) -> bool {
        let start = self.image.functions[function].address;
        match self.notes.function(start) {
            Some(note) => note.why == 0,
            None => self.probes[function].iter().any(|probe| probe.kind.is_check()),
        }
    }

    /// The notes on a function's loops.
    #[must_use]
    pub fn noted_loops(&self, function: usize) -> Vec<Noted> {
        let extent = &self.image.functions[function];
        let code = &self.codes[function];
        let notes =
            self.notes.loops_between(extent.address, extent.address.saturating_add(extent.size));
        notes
            .filter_map(|(address, depth, note)| {
                let block = code.block_at(address)?;
                Some(Noted { address, block, depth: usize::from(depth), note })
            })
            .collect()
    }

    /// The functions that one calls or jumps to directly.
    pub fn callees(&self, function: usize) -> impl Iterator<Item = usize> + '_ {
        self.codes[function].blocks.iter().filter_map(|block| match block.end {
            End::Call(Target::Function(f))
            | End::Tail(Target::Function(f))
            | End::MaybeTail(Target::Function(f)) => Some(f),
            _ => None,
        })
    }
}

fn is_slow(slow: &[Option<usize>], target: &Target) -> bool {
    match target {
        Target::Function(f) => slow.contains(&Some(*f)),
        Target::Import(name) => SLOW.contains(&name.as_str()),
        _ => false,
    }
}

fn stops(dead: &HashSet<usize>, target: &Target) -> bool {
    match target {
        Target::Function(f) => dead.contains(f),
        Target::Import(name) => cost::never_returns(name),
        _ => false,
    }
}

/// The functions that never return: known ones, and those that always end in them.
fn never_return(image: &Image<'_>, codes: &[Code]) -> HashSet<usize> {
    let mut dead: HashSet<usize> =
        (0..codes.len()).filter(|&f| cost::never_returns(&image.functions[f].symbol)).collect();
    loop {
        let more: Vec<usize> = (0..codes.len())
            .filter(|f| !dead.contains(f))
            .filter(|&f| {
                !codes[f].blocks.is_empty() && !codes[f].returns(&|target| stops(&dead, target))
            })
            .collect();
        if more.is_empty() {
            return dead;
        }
        dead.extend(more);
    }
}

/// Addresses that code computes: candidates for functions called through pointers.
fn addresses_in(codes: &[Code]) -> HashSet<u64> {
    let taken = |i: &Instruction| match i.mnemonic() {
        Mnemonic::Lea if i.is_ip_rel_memory_operand() => Some(i.ip_rel_memory_address()),
        Mnemonic::Mov
            if matches!(
                i.op1_kind(),
                OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
            ) =>
        {
            i.try_immediate(1).ok()
        }
        Mnemonic::Push => i.try_immediate(0).ok(),
        _ => None,
    };
    codes.iter().flat_map(|code| &code.instructions).filter_map(taken).collect()
}

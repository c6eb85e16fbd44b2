//! The program as a file: sections, functions and their extents, what the loader will write where.
//!
//! Read once, then shared and never changed. Nothing in the file is trusted: every offset is checked
//! against what it points into, and what does not fit is an error or left out, never a panic.

use crate::names::Names;
use object::elf;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags, SymbolKind};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A section that is loaded.
#[derive(Debug)]
pub struct Section<'a> {
    /// Its name.
    pub name: String,
    /// Where it is loaded.
    pub address: u64,
    /// Its bytes in the file; shorter than in memory for `.bss`.
    pub data: &'a [u8],
    /// Holds code.
    pub code: bool,
}

/// A function: its extent is what its symbol says, or the unwind table.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Its first instruction.
    pub address: u64,
    /// Bytes; never beyond its section.
    pub size: u64,
    /// As in the symbol table; empty if there is none.
    pub symbol: String,
}

/// The file, read.
#[derive(Debug, Default)]
pub struct Image<'a> {
    /// Loaded sections, by address.
    pub sections: Vec<Section<'a>>,
    /// Functions by address, not overlapping.
    pub functions: Vec<Extent>,
    /// Every symbol's address by its name.
    pub symbols: HashMap<String, u64>,
    /// Words that the loader sets to an address of this program: slot and address.
    pub relative: BTreeMap<u64, u64>,
    /// The addresses in `relative`, in order.
    pub pointed: BTreeSet<u64>,
    /// Words that the loader sets to a symbol's address: slot and name.
    pub imports: HashMap<u64, String>,
    /// Linkage stubs, by the address that callers use: what they jump to.
    pub stubs: HashMap<u64, String>,
    /// Offset of the safepoint block from `%fs:0`, if the program has it in its own TLS segment.
    pub block: Option<i64>,
    /// Mangled and readable.
    pub names: Names,
}

impl<'a> Image<'a> {
    /// Reads an ELF program or shared object for x86-64.
    ///
    /// # Errors
    /// Why it is none, in a line.
    pub fn read(bytes: &'a [u8]) -> Result<Self, String> {
        if !bytes.starts_with(b"\x7fELF") {
            return Err("not an ELF file".into());
        }
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes)
            .map_err(|error| format!("bad ELF file: {error}"))?;
        if file.architecture() != object::Architecture::X86_64 || !file.is_little_endian() {
            return Err("not an x86-64 program".into());
        }
        let kind = file.elf_header().e_type.get(file.endian());
        if kind != elf::ET_EXEC && kind != elf::ET_DYN {
            return Err("not a linked program or shared object".into());
        }
        let sections = sections_of(&file)?;
        if !sections.iter().any(|section| section.code && !section.data.is_empty()) {
            return Err("there is no code in it".into());
        }
        let mut image = Image { sections, ..Image::default() };
        image.read_relocations(&file);
        image.pointed = image.relative.values().copied().collect();
        image.read_symbols(&file);
        image.find_stubs();
        Ok(image)
    }

    /// The section that holds an address.
    #[must_use]
    pub fn section_at(&self, address: u64) -> Option<&Section<'a>> {
        let after = self.sections.partition_point(|section| section.address <= address);
        let section = self.sections.get(after.checked_sub(1)?)?;
        (address - section.address < section.data.len() as u64).then_some(section)
    }

    /// The section of that name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The file's bytes from an address to the end of its section.
    #[must_use]
    pub fn bytes_at(&self, address: u64) -> Option<&'a [u8]> {
        let section = self.section_at(address)?;
        section.data.get(usize::try_from(address - section.address).ok()?..)
    }

    /// The word that the program will find at an address.
    #[must_use]
    pub fn word_at(&self, address: u64) -> Option<u64> {
        if let Some(&value) = self.relative.get(&address) {
            return Some(value);
        }
        let bytes = self.bytes_at(address)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Does code lie there?
    #[must_use]
    pub fn is_code(&self, address: u64) -> bool {
        self.section_at(address).is_some_and(|section| section.code)
    }

    /// The function that contains an address: its index.
    #[must_use]
    pub fn function_at(&self, address: u64) -> Option<usize> {
        let after = self.functions.partition_point(|function| function.address <= address);
        let index = after.checked_sub(1)?;
        let function = &self.functions[index];
        (address - function.address < function.size).then_some(index)
    }

    /// The function that begins there.
    #[must_use]
    pub fn function_from(&self, address: u64) -> Option<usize> {
        self.functions.binary_search_by_key(&address, |function| function.address).ok()
    }

    fn read_relocations<'d>(&mut self, file: &impl Object<'d>) {
        let names: HashMap<usize, String> = file
            .dynamic_symbols()
            .filter_map(|symbol| Some((symbol.index().0, symbol.name().ok()?.to_owned())))
            .collect();
        for (slot, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let object::RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            match (r_type, relocation.target()) {
                (elf::R_X86_64_RELATIVE | elf::R_X86_64_IRELATIVE, _) => {
                    self.relative.insert(slot, relocation.addend() as u64);
                }
                (_, RelocationTarget::Symbol(index)) => {
                    if let Some(name) = names.get(&index.0).filter(|name| !name.is_empty()) {
                        self.imports.insert(slot, name.clone());
                    }
                }
                _ => {}
            }
        }
        if let Some(relr) = self.section(".relr.dyn").map(|section| section.data) {
            self.read_packed(relr);
        }
    }

    /// RELR: addresses, each followed by bitmaps of the words behind it.
    fn read_packed(&mut self, relr: &[u8]) {
        let mut next = 0_u64;
        let mut slots = Vec::new();
        for word in relr.chunks_exact(8).filter_map(|word| word.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            if word & 1 == 0 {
                slots.push(word);
                next = word.wrapping_add(8);
            } else {
                let bits = (0..63).filter(|bit| word >> (bit + 1) & 1 == 1);
                slots.extend(bits.map(|bit: u64| next.wrapping_add(8 * bit)));
                next = next.wrapping_add(63 * 8);
            }
        }
        for slot in slots {
            if let Some(bytes) = self.bytes_at(slot).and_then(|bytes| bytes.first_chunk::<8>()) {
                self.relative.insert(slot, u64::from_le_bytes(*bytes));
            }
        }
    }

    fn read_symbols<'d>(&mut self, file: &impl Object<'d>) {
        let mut starts: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Some(name) = symbol.name().ok().filter(|name| !name.is_empty()) else { continue };
            if symbol.is_undefined() {
                continue;
            }
            if symbol.kind() == SymbolKind::Tls {
                if name == "curtail_safepoint" {
                    self.block = tls_offset(file, symbol.address());
                }
                continue;
            }
            self.symbols.entry(name.to_owned()).or_insert(symbol.address());
            if symbol.kind() != SymbolKind::Text || !self.is_code(symbol.address()) {
                continue;
            }
            let entry = starts.entry(symbol.address()).or_default();
            self.names.add(symbol.address(), name);
            // Of several names the first with a size; a global one before local ones.
            if entry.1.is_empty() || (symbol.size() > entry.0) {
                *entry = (symbol.size(), name.to_owned());
            }
        }
        for (address, size) in crate::unwind::ranges(self) {
            let entry = starts.entry(address).or_default();
            if entry.0 == 0 {
                entry.0 = size;
            }
        }
        self.settle(starts);
    }

    /// Cuts extents so that none reaches into the next, or out of its section.
    fn settle(&mut self, starts: BTreeMap<u64, (u64, String)>) {
        let all: Vec<u64> = starts.keys().copied().collect();
        for (at, (address, (size, symbol))) in starts.into_iter().enumerate() {
            let Some(rest) = self.bytes_at(address).map(|bytes| bytes.len() as u64) else {
                continue;
            };
            let gap = all.get(at + 1).map_or(rest, |next| (next - address).min(rest));
            // A symbol without a size (assembly): up to the next one.
            let size = if size == 0 { gap } else { size.min(gap) };
            if size > 0 {
                self.functions.push(Extent { address, size, symbol });
            }
        }
    }

    /// Linkage stubs are a jump through a word that the loader fills in.
    fn find_stubs(&mut self) {
        let mut found = HashMap::new();
        for section in self.sections.iter().filter(|section| section.name.contains("plt")) {
            if !section.code {
                continue;
            }
            for (at, chunk) in section.data.chunks(16).enumerate() {
                let start = section.address.wrapping_add(16 * at as u64);
                if let Some(name) = self.stub_target(start, chunk) {
                    found.insert(start, name);
                }
            }
        }
        self.stubs = found;
    }

    fn stub_target(&self, start: u64, code: &[u8]) -> Option<String> {
        use iced_x86::{Decoder, DecoderOptions, FlowControl};
        Decoder::with_ip(64, code, start, DecoderOptions::NONE)
            .into_iter()
            .find(|i| i.flow_control() == FlowControl::IndirectBranch)
            .filter(iced_x86::Instruction::is_ip_rel_memory_operand)
            .and_then(|jump| self.imports.get(&jump.ip_rel_memory_address()).cloned())
    }

    /// The addresses in `.init_array`, `.preinit_array`, `.fini_array`, and `_init`, `_fini`.
    #[must_use]
    pub fn startup(&self) -> HashMap<u64, &'static str> {
        let mut found = HashMap::new();
        for section in &self.sections {
            let what = match section.name.as_str() {
                name if name.starts_with(".fini_array") || name.starts_with(".dtors") => {
                    "destructor at exit"
                }
                name if name.starts_with(".init_array") || name.starts_with(".preinit_array") => {
                    "static initialiser"
                }
                _ => continue,
            };
            for offset in (0..section.data.len() as u64).step_by(8) {
                if let Some(address) = self.word_at(section.address.wrapping_add(offset)) {
                    found.insert(address, what);
                }
            }
        }
        found
    }

    /// Functions whose address lies in data, or is taken by `addresses` (from code).
    #[must_use]
    pub fn address_taken(&self, addresses: &HashSet<u64>) -> HashSet<usize> {
        let written = self.relative.values().chain(addresses);
        written.filter_map(|&address| self.function_from(address)).collect()
    }
}

fn sections_of<'a>(
    file: &object::read::elf::ElfFile64<'a, object::Endianness>,
) -> Result<Vec<Section<'a>>, String> {
    let mut sections = Vec::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        if sh_flags & u64::from(elf::SHF_ALLOC) == 0 || sh_flags & u64::from(elf::SHF_TLS) != 0 {
            continue;
        }
        let name = section.name().unwrap_or("").to_owned();
        let data = section.data().map_err(|error| format!("bad ELF file: {name}: {error}"))?;
        let code = sh_flags & u64::from(elf::SHF_EXECINSTR) != 0;
        sections.push(Section { name, address: section.address(), data, code });
    }
    sections.sort_by_key(|section| section.address);
    Ok(sections)
}

/// x86-64 puts the program's TLS segment right below `%fs:0`.
fn tls_offset<'d>(file: &impl Object<'d>, value: u64) -> Option<i64> {
    let mut end = 0_u64;
    let mut align = 1_u64;
    let mut start = u64::MAX;
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        if sh_flags & u64::from(elf::SHF_TLS) == 0 {
            continue;
        }
        start = start.min(section.address());
        end = end.max(section.address().checked_add(section.size())?);
        align = align.max(section.align()).min(4096);
    }
    let size = end.checked_sub(start)?;
    let value = value.checked_sub(start).unwrap_or(value);
    // Symbols' values count from the segment's start; `object` gives them as they are.
    let start_skew = start % align;
    let top = start_skew.checked_add(size)?.checked_next_multiple_of(align)?;
    i64::try_from(value)
        .ok()?
        .checked_add(i64::try_from(start_skew).ok()?)?
        .checked_sub(i64::try_from(top).ok()?)
}

/// A section that is not loaded (line tables, notes), decompressed where it must be.
#[must_use]
pub fn unloaded<'a>(bytes: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes).ok()?;
    file.section_by_name(name)?.uncompressed_data().ok()
}

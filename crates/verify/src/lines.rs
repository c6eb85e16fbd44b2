//! Source lines of addresses, where the program has line tables.

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, LittleEndian};
use std::rc::Rc;

type Slice = EndianRcSlice<LittleEndian>;

/// The program's line tables.
pub struct Lines(Option<Context<Slice>>);

impl Lines {
    /// Of a program; tables that cannot be read count as none.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let load = |section: gimli::SectionId| -> Result<Slice, gimli::Error> {
            let data = crate::image::unloaded(bytes, section.name()).unwrap_or_default();
            Ok(EndianRcSlice::new(Rc::from(data.as_ref()), LittleEndian))
        };
        let dwarf = Dwarf::load(load).ok();
        Lines(dwarf.and_then(|dwarf| Context::from_dwarf(dwarf).ok()))
    }

    /// File and line.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<(String, u32)> {
        let location = self.0.as_ref()?.find_location(address).ok()??;
        Some((location.file?.to_owned(), location.line.unwrap_or(0)))
    }

    /// The functions that the address lies in, innermost first: what was inlined there.
    #[must_use]
    pub fn functions(&self, address: u64) -> Vec<String> {
        let Some(context) = &self.0 else { return Vec::new() };
        let Ok(mut frames) = context.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let mut names = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            names.extend(frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned())));
        }
        names
    }
}

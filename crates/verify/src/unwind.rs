//! Extents of functions from `.eh_frame`, for programs without symbols and for symbols without sizes.

use crate::image::Image;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};

/// Start and length of every range that the unwind table describes. A malformed table gives what can
/// be read before the fault.
#[must_use]
pub fn ranges(image: &Image<'_>) -> Vec<(u64, u64)> {
    let Some(section) = image.section(".eh_frame") else { return Vec::new() };
    let table = EhFrame::new(section.data, LittleEndian);
    let mut bases = BaseAddresses::default().set_eh_frame(section.address);
    if let Some(text) = image.section(".text") {
        bases = bases.set_text(text.address);
    }
    let mut found = Vec::new();
    let mut entries = table.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|_, bases, offset| table.cie_from_offset(bases, offset));
        let Ok(fde) = fde else { continue };
        if fde.len() > 0 && image.is_code(fde.initial_address()) {
            found.push((fde.initial_address(), fde.len()));
        }
    }
    // Linkage stubs and start-up code have entries that span many of them.
    found.retain(|&(start, _)| {
        image.section_at(start).is_some_and(|section| !section.name.contains("plt"))
    });
    found
}

//! Where the calling thread's thread-local variables lie.
//!
//! Each thread asks the loader once, since that takes the loader's lock, and keeps the answer: the
//! variables of a library that is loaded later are not known.

use libc::{c_int, c_void};
use std::cell::RefCell;

const MOST: usize = 32;

/// Ranges of addresses.
struct Ranges {
    ranges: [(usize, usize); MOST],
    count: usize,
}

thread_local! {
    static KNOWN: RefCell<Option<Ranges>> = const { RefCell::new(None) };
}

/// Whether an address lies in the calling thread's thread-local variables.
pub(crate) fn is_thread_local(address: usize) -> bool {
    if KNOWN.with_borrow(Option::is_none) {
        let found = find();
        KNOWN.set(Some(found));
    }
    KNOWN.with_borrow(|known| {
        known.as_ref().is_some_and(|known| {
            known.ranges[..known.count].iter().any(|&(start, end)| (start..end).contains(&address))
        })
    })
}

/// Asks the loader.
fn find() -> Ranges {
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description of a module, and our own list.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Ranges>()) };
        if info.dlpi_tls_data.is_null() || info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: so many headers lie there.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let start = info.dlpi_tls_data as usize;
        for tls in headers.iter().filter(|header| header.p_type == libc::PT_TLS) {
            if let Some(place) = found.ranges.get_mut(found.count) {
                *place = (start, start + tls.p_memsz as usize);
                found.count += 1;
            }
        }
        0
    }
    let mut found = Ranges { ranges: [(0, 0); MOST], count: 0 };
    // SAFETY: `look` keeps to its arguments.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

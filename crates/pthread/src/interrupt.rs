//! Where a thread that computes may be interrupted, so that others have their turn: in the program, and in
//! its libraries, but those below.
//!
//! The C library, the loader, the unwinder and C++'s library keep locks of which only the kernel knows: a
//! thread that were interrupted there would stop all others that want one, and their kthreads with them.

use curtail_signal::{self as signal, Code};
use libc::{c_int, c_void};
use std::ffi::CStr;
use std::ops::Range;

/// What the names of objects begin with that are left alone.
const KEPT_OUT: &[&str] = &[
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-",
    "libpthread",
    "libgcc_s",
    "libstdc++",
    "linux-vdso",
    "libcurtail_pthread",
    "libasan",
    "libtsan",
    "libnss",
    "libresolv",
];

/// Before the first kthread is made.
pub(crate) fn allow() {
    let mut application: Vec<Range<usize>> = Vec::new();
    // SAFETY: `look` keeps to its arguments.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut application).cast()) };
    application.sort_by_key(|range| range.start);
    let own = allow as *const () as usize;
    application.retain(|range| !range.contains(&own));
    // SAFETY: what runs there has thread-locals of its own, and so can tell an interruption by others of
    // its kthread from one by the kernel as little as a thread of the kernel can.
    unsafe { signal::allow(Code { application, program: 0..0 }) };
}

unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of an object, and our own list.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Range<usize>>>()) };
    let name = match info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: a C string of the loader's.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    };
    let name = name.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or_default();
    if KEPT_OUT.iter().any(|kept_out| file.starts_with(kept_out)) || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: so many headers lie there.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let code = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
    found.extend(code.map(|header| {
        let start = info.dlpi_addr as usize + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    }));
    0
}

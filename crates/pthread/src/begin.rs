//! `main` runs as the first thread of a runtime, in programs that have threads.
//!
//! The C library's start calls `__libc_start_main` with the program's `main`; the definition here hands it
//! another one. A program none of whose objects asks for `pthread_create` gets its own: a shell, or `env`,
//! that starts the real one goes by as if this were not there.

#![allow(unreachable_pub, reason = "the C library's start reaches this by its name")]

use crate::follow;
use crate::identity;
use crate::interrupt;
use crate::schedule::usual_stack;
use crate::signals;
use crate::thread;
use curtail_libc::real;
use curtail_rt::Runtime;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

type Main = unsafe extern "C-unwind" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// After how long a kthread that is in a call of the kernel, or computes, has another take its place.
const STUCK: Duration = Duration::from_millis(20);

/// How long a thread runs while others are ready, where it computes.
const QUANTUM: Duration = Duration::from_millis(2);

static MAIN: OnceLock<Main> = OnceLock::new();
/// What `pthread_self` says in the first thread; 0: there is none of Curtail's.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// See [`FIRST`].
pub(crate) fn first() -> usize {
    FIRST.load(Ordering::Relaxed)
}

/// # Safety
/// Called by the C library's start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    type Start = unsafe extern "C" fn(
        Main,
        c_int,
        *mut *mut c_char,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    let _ = MAIN.set(main);
    real!(c"__libc_start_main", new, Start; main_instead, argc, argv, init, fini, rtld_fini, stack_end)
}

unsafe extern "C-unwind" fn main_instead(
    argc: c_int,
    argv: *mut *mut c_char,
    envp: *mut *mut c_char,
) -> c_int {
    let main = *MAIN.get().expect("set before");
    if !has_threads() {
        // SAFETY: the program's own arguments.
        return unsafe { main(argc, argv, envp) };
    }
    if let Err(reason) = curtail_rt::own_thread_locals() {
        eprintln!("curtail: the program runs on the kernel's threads: {reason}");
        // SAFETY: as above.
        return unsafe { main(argc, argv, envp) };
    }
    interrupt::allow();
    follow::prepare();
    let arguments = Arguments { argc, argv, envp, mask: signals::block_all() };
    let builder = Runtime::builder()
        .stack_size(usual_stack())
        .preempt_by_signal(QUANTUM)
        .on_kthread(follow::take_common)
        .spin(Duration::ZERO)
        .watchdog(Some(STUCK))
        .ignore_stalls();
    let result = builder.try_run(move || run_main(arguments));
    eprintln!("curtail: {}", result.expect_err("the first thread ends the process"));
    1
}

/// What `main` gets.
struct Arguments {
    argc: c_int,
    argv: *mut *mut c_char,
    envp: *mut *mut c_char,
    /// Signals that were blocked.
    mask: follow::Set,
}

// SAFETY: the process's own, which stay.
unsafe impl Send for Arguments {}

/// The first thread: as the C library's, it ends the process with what `main` returns.
fn run_main(mut arguments: Arguments) {
    // SAFETY: no arguments.
    FIRST.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
    identity::follow_fibers();
    let mask = arguments.mask;
    thread::live_first(call_main, (&raw mut arguments).cast(), mask);
    // SAFETY: as the C library does, on the thread that ran `main`.
    unsafe { libc::exit(arguments.argc) }
}

/// Leaves the answer of `main` in the place of `argc`.
unsafe extern "C-unwind" fn call_main(arguments: *mut c_void) -> *mut c_void {
    // SAFETY: `run_main`'s own, which waits for this.
    let arguments = unsafe { &mut *arguments.cast::<Arguments>() };
    let main = MAIN.get().expect("set before");
    // SAFETY: the program's own arguments.
    arguments.argc = unsafe { main(arguments.argc, arguments.argv, arguments.envp) };
    ptr::null_mut()
}

/// Whether the program, or a library that it was started with, asks for threads.
fn has_threads() -> bool {
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description of an object, and our own flag.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<bool>()) };
        let own = look as *const () as usize;
        // SAFETY: as above: so many headers lie there.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let base = info.dlpi_addr as usize;
        let is_own = headers.iter().any(|header| {
            let start = base + header.p_vaddr as usize;
            header.p_type == libc::PT_LOAD
                && (start..start + header.p_memsz as usize).contains(&own)
        });
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        let name = match info.dlpi_name.is_null() {
            true => c"",
            // SAFETY: a C string of the loader's.
            false => unsafe { CStr::from_ptr(info.dlpi_name) },
        };
        // Every program of C++ has it; those with threads ask it for them.
        let is_cxx = name.to_string_lossy().contains("/libstdc++.so");
        if let (false, Some(dynamic)) = (is_own || is_cxx, dynamic) {
            // SAFETY: a loaded object's own table.
            *found |= unsafe { asks_for_threads(base, base + dynamic.p_vaddr as usize) };
        }
        c_int::from(*found)
    }
    let mut found = false;
    // SAFETY: `look` keeps to its arguments.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// Whether a function of that name starts threads: C's, and what programs call of C++'s `std::thread`.
fn starts_threads(name: &[u8]) -> bool {
    matches!(name, b"pthread_create" | b"thrd_create")
        || name.starts_with(b"_ZNSt6thread15_M_start_thread")
}

/// Whether a loaded object takes `pthread_create` or `thrd_create` from elsewhere.
///
/// # Safety
/// `dynamic` is the address of its dynamic table, and it is loaded at `base`.
unsafe fn asks_for_threads(base: usize, dynamic: usize) -> bool {
    const STRINGS: u64 = 5;
    const SYMBOLS: u64 = 6;
    /// A weak one asks whether there are threads.
    const GLOBAL: u8 = 1;
    let (mut strings, mut symbols) = (0, 0);
    let mut at: *const [u64; 2] = ptr::with_exposed_provenance(dynamic);
    // SAFETY: by contract; the table ends with a zero.
    unsafe {
        while (*at)[0] != 0 {
            let [tag, value] = *at;
            // The loader has made addresses of most, not of the vDSO's.
            let value = value as usize;
            let value = if value < base { base + value } else { value };
            match tag {
                STRINGS => strings = value,
                SYMBOLS => symbols = value,
                _ => {}
            }
            at = at.add(1);
        }
    }
    if strings == 0 || symbols == 0 || symbols >= strings {
        return false;
    }
    // Linkers put the names right behind the symbols.
    let count = (strings - symbols) / size_of::<libc::Elf64_Sym>();
    let table: *const libc::Elf64_Sym = ptr::with_exposed_provenance(symbols);
    (0..count).any(|index| {
        // SAFETY: within the table; a name's place is within the names.
        unsafe {
            let symbol = &*table.add(index);
            let name: *const c_char =
                ptr::with_exposed_provenance(strings + symbol.st_name as usize);
            symbol.st_shndx == 0
                && symbol.st_info >> 4 == GLOBAL
                && starts_threads(CStr::from_ptr(name).to_bytes())
        }
    })
}

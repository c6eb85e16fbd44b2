//! Thread-locals of a stack's own: an image of the kernel thread's, at the top of the stack.
//!
//! An image is what glibc has for each of its threads: the static thread-local variables of all loaded
//! modules, and above them the thread's descriptor (`struct pthread`), to which the thread pointer
//! (`%fs`) points. A switch to the stack sets the thread pointer, so whatever runs there finds
//! thread-locals that no other stack has, on whichever kernel thread it runs: Rust's and C's, `errno`, the
//! allocator's cache, pthread's keys, the owner's number in a lock.
//!
//! * `libc` finds what glibc has for that, and says why it can't be done where it can't;
//! * this file makes images, and makes used ones new again;
//! * `ends` runs the destructors of thread-locals at a thread's end.
//!
//! **Who touches an image.** The kernel thread that runs its stack, and before that the one that made it.
//!
//! An image is never freed: glibc does not export what gives an allocator's cache back. It stays with its
//! stack, which a pool keeps for the next thread.

mod ends;
mod libc_parts;

use crate::safepoint::{block_of, leave_kthread, lend, take_back, thread_pointer};
pub use ends::{add_destructor, end_thread_locals, remove_destructor};
use libc_parts::Parts;
use std::arch::asm;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Why stacks have no thread-locals of their own here.
pub type Refusal = &'static str;

/// Whose thread-locals what runs on a stack has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locals {
    /// Its own. Where that can't be ([`support`]), its kthread's.
    #[default]
    Own,
    /// Those of the kthread that it runs on, and of all else that shares them there.
    Shared,
}

impl Locals {
    /// What there is of it in this process.
    #[must_use]
    pub fn in_effect(self) -> Self {
        if self == Self::Own && support().is_err() { Self::Shared } else { self }
    }
}

/// What is needed to make images, after one was tried.
struct Maker {
    parts: Parts,
    /// Static thread-locals as a thread finds them, but the C library's: offsets from the thread pointer
    /// (downwards), and what lies there.
    fresh: Vec<(usize, Box<[u8]>)>,
}

/// For `getaddrinfo` and its kin: `struct __res_state`, and some more.
const RESOLVER_BYTES: usize = 640;

/// Whether stacks can have thread-locals of their own in this process.
///
/// # Errors
/// Why not: then they share their kernel thread's.
pub fn support() -> Result<(), Refusal> {
    maker().map(|_| ())
}

/// The number by which locks of C know the calling thread as their owner; `None`: it can't be told.
#[must_use]
pub fn own_number() -> Option<u32> {
    maker().ok().map(|maker| maker.parts.own_number())
}

/// Calls `f` with the thread-locals of the calling kernel thread, where a fiber of it has others: for what the
/// C library does to the threads that it knows. In a signal's handler, too.
///
/// # Safety
/// `f` does not switch, keeps no address of a thread-local, and calls nothing that relies on the fiber's.
pub unsafe fn with_kthreads_locals<R>(f: impl FnOnce() -> R) -> R {
    match crate::safepoint::base() {
        0 => f(),
        // SAFETY: the kernel thread's own thread-locals, which nothing uses while a fiber runs.
        base => unsafe { with_pointer(base, f) },
    }
}

/// The thread-locals of a fiber, in a fork's child, are its kernel thread's from now on: the C library gives
/// those of the kernel thread to a thread that the child starts. The kernel writes there no longer.
///
/// # Safety
/// The process has no other thread, and nothing switches to what has the kernel thread's thread-locals.
pub unsafe fn leave_kthreads_locals() {
    let base = crate::safepoint::base();
    if base == 0 || base == thread_pointer() {
        return;
    }
    if let Ok(maker) = maker() {
        maker.parts.end_sequences(base);
    }
    crate::safepoint::set_base();
}

fn maker() -> Result<&'static Maker, Refusal> {
    static MAKER: OnceLock<Result<Maker, Refusal>> = OnceLock::new();
    MAKER.get_or_init(Maker::find).as_ref().map_err(|&why| why)
}

/// An image's thread pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image(usize);

impl Image {
    /// Bytes that an image takes below the address where it ends.
    pub(crate) fn bytes() -> Result<usize, Refusal> {
        maker().map(Maker::bytes)
    }

    /// An image that ends at `end` at most.
    ///
    /// # Safety
    /// [`Image::bytes`] bytes below are writable, zero, and used by nothing else from now on.
    pub(crate) unsafe fn make(end: usize) -> Result<Self, Refusal> {
        // SAFETY: by contract.
        maker().and_then(|maker| unsafe { maker.make(end) })
    }

    /// Where it begins.
    pub(crate) fn start(self) -> usize {
        maker().map_or(self.0, |maker| maker.start_of(self.0))
    }

    /// The thread pointer.
    #[inline(always)]
    pub(crate) fn pointer(self) -> usize {
        self.0
    }

    /// What ran with it is over: calls the destructors of its thread-locals, on the caller's stack, as on a
    /// plain thread, and makes them new.
    ///
    /// # Safety
    /// Nothing runs with it.
    pub(crate) unsafe fn retire(self) {
        // SAFETY: by contract; the destructors switch nowhere, since no kthread is known there.
        unsafe {
            leave_kthread(self.0);
            with_pointer(self.0, end_thread_locals);
            self.renew();
        }
    }

    /// Makes thread-locals what they are when a thread begins. The C library's stay as they are, its
    /// allocator's cache among them.
    ///
    /// # Safety
    /// Nothing runs with it, and the thread that did has ended by [`end_thread_locals`].
    pub(crate) unsafe fn renew(self) {
        if let Ok(maker) = maker() {
            // SAFETY: by contract.
            unsafe { maker.renew(self.0) };
        }
    }
}

impl Maker {
    fn find() -> Result<Self, Refusal> {
        if cfg!(curtail_sanitize) {
            return Err("sanitizers keep their own state in the kernel threads' thread-locals");
        }
        let mut maker = Self { parts: Parts::find()?, fresh: Vec::new() };
        limit_arenas();
        let bytes = maker.bytes().next_multiple_of(rustix::param::page_size());
        // SAFETY: a fresh private mapping. It stays: an image is never freed.
        let memory = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                bytes,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE,
            )
        };
        let memory = memory.map_err(|_| "no memory for thread-locals to be tried")?;
        // SAFETY: the mapping is ours, zero, and large enough.
        let pointer = unsafe { maker.make(memory as usize + bytes)? }.0;
        // SAFETY: made above, and used by nothing else.
        unsafe { with_pointer(pointer, try_out) }?;
        maker.fresh = maker
            .parts
            .modules()
            .map(|(start, length)| {
                let place: *const u8 = ptr::with_exposed_provenance(pointer - start);
                // SAFETY: the image's static thread-locals of a module, which lie there.
                (start, unsafe { std::slice::from_raw_parts(place, length) }.into())
            })
            .collect();
        Ok(maker)
    }

    fn bytes(&self) -> usize {
        self.parts.static_bytes()
            + self.parts.descriptor_bytes()
            + RESOLVER_BYTES
            + self.parts.align()
    }

    fn start_of(&self, pointer: usize) -> usize {
        (pointer - self.parts.static_bytes() - RESOLVER_BYTES) & !15
    }

    unsafe fn make(&self, end: usize) -> Result<Image, Refusal> {
        let pointer = (end - self.parts.descriptor_bytes()) & !(self.parts.align() - 1);
        // SAFETY: by the caller's contract there is room below and above.
        unsafe {
            self.parts.initialise(pointer, next_number())?;
            let resolver = self.start_of(pointer);
            with_pointer(pointer, || self.parts.begin_thread(resolver));
        }
        Ok(Image(pointer))
    }

    unsafe fn renew(&self, pointer: usize) {
        for (start, bytes) in &self.fresh {
            let place: *mut u8 = ptr::with_exposed_provenance_mut(pointer - start);
            // SAFETY: as in `find`; nothing runs with the image.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        }
        // SAFETY: as above.
        unsafe { self.parts.free_dynamic(pointer) };
    }
}

/// glibc's allocator makes an arena for each thread that allocates first, up to eight for each core, and
/// keeps memory in each. Only as many threads run at once as there are cores, however many there are. A
/// limit of the user's stays.
fn limit_arenas() {
    const M_ARENA_MAX: libc::c_int = -8;
    let asked = |name| std::env::var_os(name).is_some();
    if !asked("MALLOC_ARENA_MAX") && !asked("GLIBC_TUNABLES") {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        // SAFETY: sets a number of the allocator's.
        unsafe { libc::mallopt(M_ARENA_MAX, cores.max(2) as libc::c_int) };
    }
}

/// A number for a thread that the kernel does not know, for owners of locks: above those of the kernel's
/// threads (2^22 at most), below the bits that futexes use for themselves.
fn next_number() -> u32 {
    const FIRST: u32 = 1 << 22;
    const LAST: u32 = (1 << 30) - 1;
    static NEXT: AtomicU32 = AtomicU32::new(FIRST);
    let next = |number| Some(if number == LAST { FIRST } else { number + 1 });
    NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(FIRST)
}

/// What is tried with the first image, before any stack gets one.
#[inline(never)]
fn try_out() -> Result<(), Refusal> {
    use std::cell::Cell;
    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(7) };
    }
    let here = thread_pointer();
    // SAFETY: these calls take nothing, and touch the calling thread's own.
    let (me, errno) = unsafe { (libc::pthread_self() as usize, libc::__errno_location().addr()) };
    if me != here {
        return Err("pthread_self is not the thread pointer");
    }
    if errno >= here || here - errno > 1 << 20 {
        return Err("errno lies elsewhere than the thread-locals");
    }
    if OWN.replace(8) != 7 {
        return Err("new thread-locals are not as they should begin");
    }
    if block_of(here).addr().abs_diff(here) > 1 << 24 {
        return Err("the safepoint's block lies elsewhere than the thread-locals");
    }
    Ok(())
}

static BY_INSTRUCTION: AtomicBool = AtomicBool::new(false);

/// Sets the thread pointer.
///
/// # Safety
/// There are thread-locals at `pointer` that no other thread uses. No address of a thread-local that was
/// formed before is used after.
#[inline(always)]
pub(crate) unsafe fn set_thread_pointer(pointer: usize) {
    if BY_INSTRUCTION.load(Ordering::Relaxed) {
        // SAFETY: the kernel has allowed the instruction (`HWCAP2_FSGSBASE`); by contract.
        unsafe { asm!("wrfsbase {}", in(reg) pointer, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: by contract.
        unsafe { set_by_call(pointer) };
    }
}

#[cold]
#[inline(never)]
unsafe fn set_by_call(pointer: usize) {
    const ARCH_SET_FS: usize = 0x1002;
    // SAFETY: the call itself, which touches no memory; `errno` is not written, as it would be by libc's.
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_arch_prctl => _, in("rdi") ARCH_SET_FS,
            in("rsi") pointer, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

/// Whether the processor and the kernel let programs set the thread pointer by an instruction: otherwise
/// each switch between own thread-locals is a system call.
#[must_use]
pub fn is_quick() -> bool {
    const HWCAP2_FSGSBASE: u64 = 2;
    // SAFETY: asks for a constant of the process.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

fn learn_how() {
    BY_INSTRUCTION.store(is_quick(), Ordering::Relaxed);
}

/// Calls `f` with other thread-locals.
///
/// # Safety
/// There are thread-locals at `pointer` that no other thread uses. `f` does not switch, and keeps no
/// address of a thread-local.
#[inline(never)]
unsafe fn with_pointer<R>(pointer: usize, f: impl FnOnce() -> R) -> R {
    #[inline(never)]
    fn call<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    let before = thread_pointer();
    // SAFETY: by contract; `call` is a function of its own, so that the compiler forms no address of a
    // thread-local outside of it.
    unsafe {
        let words = lend(pointer);
        set_thread_pointer(pointer);
        let result = call(f);
        set_thread_pointer(before);
        take_back(pointer, words);
        result
    }
}

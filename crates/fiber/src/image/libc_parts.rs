//! What glibc has for making threads, and does not export to programs: found by name, and checked.
//!
//! glibc 2.34 and later keep these names for their own dynamic loader and for debuggers
//! (`GLIBC_PRIVATE`). Where one is missing or another thing than is expected, there are no images: never
//! a guess.

use super::Refusal;
use crate::safepoint::thread_pointer;
use libc::{c_char, c_int, c_void};
use std::ptr;

/// The control block's words that each thread has like any other: from `multiple_threads` on, the stack's
/// and the pointers' guard among them.
const COMMON: std::ops::Range<usize> = 24..80;
const TCB: usize = 0;
const DTV: usize = 8;
const SELF: usize = 16;
const MULTIPLE_THREADS: usize = 24;
/// `dtv_t`'s value of what is not allocated.
const UNALLOCATED: usize = usize::MAX;

type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Call = unsafe extern "C" fn();

/// The functions of glibc that make a thread's image.
pub(super) struct Parts {
    allocate: Allocate,
    begin_ctype: Call,
    pub(super) call_destructors: Call,
    static_bytes: usize,
    descriptor_bytes: usize,
    align: usize,
    tid: usize,
    list: usize,
    /// The head of the list of robust locks, which points to itself.
    robust: usize,
    specific: usize,
    first_specific: usize,
    rseq: Option<isize>,
    /// Of the pointer to the resolver's state, from the thread pointer.
    resolver: Option<isize>,
    /// Of modules with static thread-locals, but the C library: how far below the thread pointer they
    /// begin, and how many bytes.
    modules: Vec<(usize, usize)>,
    /// Of the list of modules, when only such were loaded; 0: others were, too.
    generation: usize,
}

fn look_up(name: &std::ffi::CStr) -> Option<*mut c_void> {
    // SAFETY: a name that ends with zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast::<c_char>()) };
    (!found.is_null()).then_some(found)
}

/// A field's offset in `struct pthread`, as debuggers are told it.
fn field(name: &std::ffi::CStr) -> Option<usize> {
    let found = look_up(name)?.cast::<[u32; 3]>();
    // SAFETY: the descriptors are arrays of three such numbers: bits, count, offset.
    Some(unsafe { found.read_unaligned() }[2] as usize)
}

fn word(address: usize) -> usize {
    let place: *const usize = ptr::with_exposed_provenance(address);
    // SAFETY: by the callers, a word of the calling thread's descriptor, which is that long.
    unsafe { place.read_volatile() }
}

/// # Safety
/// A word of memory of the caller's.
unsafe fn set_word(address: usize, value: usize) {
    let place: *mut usize = ptr::with_exposed_provenance_mut(address);
    // SAFETY: by contract.
    unsafe { place.write(value) };
}

/// # Safety
/// Half a word of memory of the caller's.
unsafe fn set_half(address: usize, value: u32) {
    let place: *mut u32 = ptr::with_exposed_provenance_mut(address);
    // SAFETY: by contract.
    unsafe { place.write(value) };
}

const MISSING: Refusal = "this glibc does not have what makes a thread's variables";

/// Bytes of static thread-locals and descriptor, to what these are aligned, and bytes of the descriptor.
fn sizes() -> Result<(usize, usize, usize), Refusal> {
    if look_up(c"gnu_get_libc_version").is_none() {
        return Err("the C library is not glibc, or it is linked statically");
    }
    let info = look_up(c"_dl_get_tls_static_info").ok_or(MISSING)?;
    let (mut size, mut align) = (0_usize, 0_usize);
    // SAFETY: its type in glibc since 2.2: two places for sizes.
    unsafe {
        let info: unsafe extern "C" fn(*mut usize, *mut usize) = std::mem::transmute(info);
        info(&raw mut size, &raw mut align);
    }
    let descriptor = look_up(c"_thread_db_sizeof_pthread").ok_or(MISSING)?.cast::<u32>();
    // SAFETY: a number of that size, by the name.
    let descriptor_bytes = unsafe { descriptor.read_unaligned() } as usize;
    let is_sane = (512..16_384).contains(&descriptor_bytes)
        && (descriptor_bytes..1 << 22).contains(&size)
        && align.is_power_of_two()
        && align <= 1 << 16;
    if !is_sane {
        return Err("the size of this glibc's thread descriptor is not to be believed");
    }
    Ok((size, align, descriptor_bytes))
}

impl Parts {
    pub(super) fn find() -> Result<Self, Refusal> {
        super::learn_how();
        let (size, align, descriptor_bytes) = sizes()?;
        let [allocate, begin_ctype, call_destructors] =
            [c"_dl_allocate_tls", c"__ctype_init", c"__call_tls_dtors"].map(look_up);
        let (allocate, begin_ctype) = (allocate.ok_or(MISSING)?, begin_ctype.ok_or(MISSING)?);
        let call_destructors = call_destructors.ok_or(MISSING)?;
        let tid = field(c"_thread_db_pthread_tid").ok_or(MISSING)?;
        let list = field(c"_thread_db_pthread_list").ok_or(MISSING)?;
        let specific = field(c"_thread_db_pthread_specific").ok_or(MISSING)?;
        if [tid, list, specific].iter().any(|&at| at + 64 > descriptor_bytes || at < COMMON.end) {
            return Err("a field of this glibc's thread descriptor lies outside of it");
        }
        let me = thread_pointer();
        if word(me + TCB) != me || word(me + SELF) != me {
            return Err("a thread's descriptor does not begin with its address");
        }
        // SAFETY: no arguments.
        let number = unsafe { libc::gettid() }.cast_unsigned();
        if word((me + tid) & !7) >> (8 * (tid & 4)) & 0xffff_ffff != number as usize {
            return Err("a thread's descriptor does not hold its number where it should");
        }
        let robust = (tid.next_multiple_of(8)..tid + 48).step_by(8);
        let robust =
            robust.filter(|&at| at + 24 <= descriptor_bytes).find(|&at| word(me + at) == me + at);
        let robust = robust.ok_or("a thread's list of robust locks is not where it should be")?;
        let first = word(me + specific).wrapping_sub(me);
        if first >= specific || first < COMMON.end {
            return Err("a thread's values of keys are not where they should be");
        }
        // SAFETY: their types, by their names.
        let (allocate, begin_ctype, call_destructors) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Allocate>(allocate),
                std::mem::transmute::<*mut c_void, Call>(begin_ctype),
                std::mem::transmute::<*mut c_void, Call>(call_destructors),
            )
        };
        let offset = |place: *mut c_void| place.addr().wrapping_sub(me).cast_signed();
        let rseq = look_up(c"__rseq_offset").map(|place| {
            // SAFETY: a constant of glibc, of that type.
            unsafe { place.cast::<isize>().read() }
        });
        // A thread-local: asked for by its name, it is the calling thread's.
        let resolver = look_up(c"__resp").map(offset);
        let static_bytes = size - descriptor_bytes;
        let (modules, are_all) = modules(me, static_bytes);
        // SAFETY: the calling thread's own vector; its first word is the generation.
        let generation = unsafe { *ptr::with_exposed_provenance::<usize>(word(me + DTV)) };
        let within = |at: isize| at < 0 && at.unsigned_abs() <= static_bytes;
        Ok(Self {
            allocate,
            begin_ctype,
            call_destructors,
            static_bytes: static_bytes.next_multiple_of(align.max(64)),
            descriptor_bytes,
            align: align.max(64),
            tid,
            list,
            robust,
            specific,
            first_specific: first,
            rseq: rseq
                .filter(|&at| within(at) || (0..descriptor_bytes.cast_signed()).contains(&at)),
            resolver: resolver.filter(|&at| within(at)),
            modules,
            generation: if are_all { generation } else { 0 },
        })
    }

    /// The calling thread's.
    pub(super) fn own_number(&self) -> u32 {
        let place: *const u32 = ptr::with_exposed_provenance(thread_pointer() + self.tid);
        // SAFETY: a field of the calling thread's descriptor.
        unsafe { place.read_volatile() }
    }

    pub(super) fn static_bytes(&self) -> usize {
        self.static_bytes
    }

    pub(super) fn descriptor_bytes(&self) -> usize {
        self.descriptor_bytes
    }

    pub(super) fn align(&self) -> usize {
        self.align
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = (usize, usize)> {
        self.modules.iter().copied()
    }

    /// A new descriptor at `pointer`, and thread-locals below.
    ///
    /// # Safety
    /// There is room for both, of zeros, and nothing else uses it.
    pub(super) unsafe fn initialise(&self, pointer: usize, number: u32) -> Result<(), Refusal> {
        let me = thread_pointer();
        // SAFETY: by contract; what is read is the calling thread's own descriptor.
        unsafe {
            let place: *mut c_void = ptr::with_exposed_provenance_mut(pointer);
            if (self.allocate)(place).is_null() {
                return Err("no memory for thread-locals");
            }
            set_word(pointer + TCB, pointer);
            set_word(pointer + SELF, pointer);
            for at in COMMON.step_by(8) {
                set_word(pointer + at, word(me + at));
            }
            set_half(pointer + MULTIPLE_THREADS, 1);
            for at in [self.list, self.list + 8] {
                set_word(pointer + at, pointer + self.list);
            }
            set_half(pointer + self.tid, number);
            set_word(pointer + self.robust, pointer + self.robust);
            set_word(pointer + self.robust + 8, word(me + self.robust + 8));
            if self.robust - 8 > self.tid {
                set_word(pointer + self.robust - 8, pointer + self.robust);
            }
            set_word(pointer + self.specific, pointer + self.first_specific);
            if let Some(at) = self.rseq {
                // `cpu_id`: not registered, so that the kernel is asked.
                set_half(pointer.wrapping_add_signed(at) + 4, u32::MAX);
            }
        }
        Ok(())
    }

    /// The kernel writes no longer where the calling kernel thread runs (`rseq`), which it does in the
    /// thread-locals at `pointer`; nor does it read there.
    pub(super) fn end_sequences(&self, pointer: usize) {
        const UNREGISTER: usize = 1;
        const SIGNATURE: usize = 0x5305_3053;
        const AT_RSEQ_FEATURE_SIZE: u64 = 27;
        const AT_RSEQ_ALIGN: u64 = 28;
        const FIRST_BYTES: usize = 32;
        let Some(at) = self.rseq else { return };
        // SAFETY: asks for constants of the process.
        let (bytes, align) =
            unsafe { (libc::getauxval(AT_RSEQ_FEATURE_SIZE), libc::getauxval(AT_RSEQ_ALIGN)) };
        // As many as glibc has told of: another number is an error, and changes nothing.
        let later = (bytes as usize).next_multiple_of((align as usize).max(FIRST_BYTES));
        for bytes in [FIRST_BYTES, later] {
            let place = pointer.wrapping_add_signed(at);
            // SAFETY: the kernel forgets a place.
            unsafe { libc::syscall(libc::SYS_rseq, place, bytes, UNREGISTER, SIGNATURE) };
        }
    }

    /// What a thread of glibc's does first, with its own thread-locals. `resolver`: memory for the
    /// resolver's state.
    pub(super) fn begin_thread(&self, resolver: usize) {
        // SAFETY: it sets thread-locals of the C library's.
        unsafe { (self.begin_ctype)() };
        if let Some(at) = self.resolver {
            // SAFETY: the C library's pointer, in this thread's thread-locals.
            unsafe { set_word(thread_pointer().wrapping_add_signed(at), resolver) };
        }
    }

    /// Frees what of an image was allocated when it was first used: thread-locals of libraries that were
    /// loaded later.
    ///
    /// # Safety
    /// Nothing runs with the image.
    pub(super) unsafe fn free_dynamic(&self, pointer: usize) {
        // SAFETY: glibc's vector of a thread's blocks: pairs of a block and of what frees it; the pair
        // before the first counts those behind it. By contract nothing else touches it.
        unsafe {
            let vector: *mut [usize; 2] = ptr::with_exposed_provenance_mut(word(pointer + DTV));
            if (*vector)[0] == self.generation {
                return; // It has used no other modules than those.
            }
            let count = (*vector.sub(1))[0];
            for at in 1..=count {
                let pair = vector.add(at);
                if (*pair)[1] != 0 {
                    libc::free(ptr::with_exposed_provenance_mut((*pair)[1]));
                    *pair = [UNALLOCATED, 0];
                }
            }
        }
    }
}

/// See [`Parts::modules`]; and whether there are no others.
fn modules(me: usize, static_bytes: usize) -> (Vec<(usize, usize)>, bool) {
    struct Found {
        me: usize,
        errno: usize,
        static_bytes: usize,
        modules: Vec<(usize, usize)>,
        are_all: bool,
    }
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description of a module, and our own list.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: so many headers lie there.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        // Null where the calling thread has none of a module that was loaded later.
        let start = info.dlpi_tls_data.addr();
        for header in headers.iter().filter(|header| header.p_type == libc::PT_TLS) {
            let below = found.me.wrapping_sub(start);
            let length = header.p_memsz as usize;
            let is_libc = (start..start + length).contains(&found.errno);
            match below <= found.static_bytes && length <= below {
                true if !is_libc => found.modules.push((below, length)),
                true => {}
                false => found.are_all = false,
            }
        }
        0
    }
    // SAFETY: the calling thread's own variable.
    let errno = unsafe { libc::__errno_location() }.addr();
    let mut found = Found { me, errno, static_bytes, modules: Vec::new(), are_all: true };
    // SAFETY: `look` keeps to its arguments.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    (found.modules, found.are_all)
}

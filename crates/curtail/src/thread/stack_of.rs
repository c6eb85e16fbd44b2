//! The stack of another thread of this process.
//!
//! That thread copies its registers and the memory of its stack in a signal's handler, by one system
//! call that does not fault, and goes on. The caller unwinds the copy and finds the names: whatever
//! code was interrupted, in the middle of a switch or without unwind tables, the worst is a stack
//! that ends early.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Module, ModuleSectionInfo, Unwinder};
use libc::{c_int, c_void, iovec, siginfo_t, ucontext_t};
use object::{Object, ObjectSection};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Frames that are told at most.
const MOST: usize = 64;
/// Words of stack that are copied at most.
const WORDS: usize = 4_096;
/// How long to wait for the other thread's handler.
const PATIENCE: Duration = Duration::from_millis(200);

/// The thread that is asked (a kernel thread's number; 0: none), and what it has copied.
static ASKED: AtomicI32 = AtomicI32::new(0);
static REGISTERS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static STACK: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static COPIED: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicBool = AtomicBool::new(false);
/// Handlers that may write the copy now.
static COPYING: AtomicUsize = AtomicUsize::new(0);

fn signal() -> c_int {
    libc::SIGRTMIN() + 5
}

/// The functions on the stack of thread `tid`, innermost first; empty: it did not answer in time (it
/// is about to end, or stopped).
///
/// A system call that the thread waits in may be interrupted by this, as by any signal's handler.
pub(super) fn stack_of(tid: libc::pid_t) -> Vec<String> {
    // Names take long: others may ask meanwhile.
    let copy = ask(tid);
    copy.map_or_else(Vec::new, |copy| copy.frames().into_iter().flat_map(names_at).collect())
}

/// Has the thread make a copy, and takes it; `None`: it did not answer in time.
fn ask(tid: libc::pid_t) -> Option<Copy> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    install();
    if COPYING.load(Ordering::Acquire) != 0 {
        return None; // One that was asked long ago is at it only now.
    }
    DONE.store(false, Ordering::Relaxed);
    ASKED.store(tid, Ordering::Release);
    // SAFETY: sends a signal that has a handler to a thread of this process, or to none.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) } == 0;
    let until = Instant::now() + PATIENCE;
    while sent && !DONE.load(Ordering::Acquire) && Instant::now() < until {
        std::thread::park_timeout(Duration::from_micros(200));
    }
    ASKED.store(0, Ordering::SeqCst);
    DONE.load(Ordering::Acquire).then(|| Copy {
        registers: [0, 1, 2].map(|index| REGISTERS[index].load(Ordering::Relaxed)),
        stack: STACK[..COPIED.load(Ordering::Relaxed) / 8]
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect(),
    })
}

/// What a thread copied: its rip, rsp and rbp, and its stack from rsp on.
struct Copy {
    registers: [u64; 3],
    stack: Vec<u64>,
}

impl Copy {
    /// The addresses of its frames.
    fn frames(&self) -> Vec<u64> {
        let [ip, sp, bp] = self.registers;
        let mut read = |address: u64| {
            let offset = address.checked_sub(sp).filter(|offset| offset % 8 == 0).ok_or(())?;
            self.stack.get((offset / 8) as usize).copied().ok_or(())
        };
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        let unwinder = tables.of(loaded());
        let mut cache = CacheX86_64::new();
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut walk = unwinder.iter_frames(ip, registers, &mut cache, &mut read);
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = walk.next() {
            frames.push(frame.address_for_lookup());
            if frames.len() == MOST {
                break;
            }
        }
        frames
    }
}

/// Reading a large program's unwind tables takes far longer than unwinding by them, so they are kept.
static TABLES: Mutex<Tables> = Mutex::new(Tables(None));

struct Tables(Option<(Vec<Loaded>, UnwinderX86_64<Vec<u8>>)>);

impl Tables {
    /// The tables of what is loaded.
    fn of(&mut self, loaded: Vec<Loaded>) -> &UnwinderX86_64<Vec<u8>> {
        if self.0.as_ref().is_some_and(|(of, _)| *of != loaded) {
            self.0 = None;
        }
        let (_, unwinder) = self.0.get_or_insert_with(|| {
            let mut unwinder = UnwinderX86_64::new();
            loaded.iter().filter_map(module).for_each(|module| unwinder.add_module(module));
            (loaded, unwinder)
        });
        unwinder
    }
}

/// A loaded file.
#[derive(PartialEq, Eq)]
struct Loaded {
    path: String,
    bias: u64,
    code: Range<u64>,
}

/// What is loaded.
fn loaded() -> Vec<Loaded> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        into: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description of a module, and our own list.
        let (info, loaded) = unsafe { (&*info, &mut *into.cast::<Vec<Loaded>>()) };
        // SAFETY: the description's own names and headers.
        let (name, headers) = unsafe {
            (
                std::ffi::CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned(),
                std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)),
            )
        };
        let is_code = |header: &&libc::Elf64_Phdr| {
            header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0
        };
        if let Some(code) = headers.iter().find(is_code) {
            let begin = info.dlpi_addr + code.p_vaddr;
            let path = if name.is_empty() { "/proc/self/exe".to_owned() } else { name };
            let code = begin..begin + code.p_memsz;
            loaded.push(Loaded { path, bias: info.dlpi_addr, code });
        }
        0
    }
    let mut loaded: Vec<Loaded> = Vec::new();
    // SAFETY: `note` takes what the loader passes and our list.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut loaded).cast()) };
    loaded
}

fn module(loaded: &Loaded) -> Option<Module<Vec<u8>>> {
    let file = std::fs::read(&loaded.path).ok()?;
    let file = object::File::parse(&*file).ok()?;
    let (path, code) = (loaded.path.clone(), loaded.code.clone());
    Some(Module::new(path, code, loaded.bias, Sections(file)))
}

struct Sections<'a>(object::File<'a>);

impl Sections<'_> {
    fn find(&self, name: &[u8]) -> Option<object::Section<'_, '_>> {
        self.0.section_by_name_bytes(name)
    }
}

impl ModuleSectionInfo<Vec<u8>> for Sections<'_> {
    fn base_svma(&self) -> u64 {
        0
    }

    fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        self.find(name).map(|section| section.address()..section.address() + section.size())
    }

    fn section_data(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        Some(self.find(name)?.uncompressed_data().ok()?.into_owned())
    }
}

/// The functions at an address: several where some are inlined.
fn names_at(address: u64) -> Vec<String> {
    let mut names = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut(address as usize), |symbol| {
        let Some(name) = symbol.name() else { return };
        let place = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!(" ({}:{line})", file.display()),
            _ => String::new(),
        };
        names.push(format!("{name:#}{place}"));
    });
    if names.is_empty() {
        names.push(format!("{address:#x}"));
    }
    names
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the action is fully initialised; the handler has this signature.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = copy_stack as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
            // One that pre-empts must not do so in here.
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(signal(), &raw const action, ptr::null_mut());
        }
    });
}

/// The handler: two system calls and a few stores, on the signals' stack.
extern "C" fn copy_stack(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: no arguments, always succeeds.
    let me = unsafe { libc::gettid() };
    // Before the look at the question: a caller that takes that back and asks anew sees this.
    COPYING.fetch_add(1, Ordering::SeqCst);
    if ASKED.load(Ordering::SeqCst) == me {
        copy_from(context);
        DONE.store(true, Ordering::Release);
    }
    COPYING.fetch_sub(1, Ordering::Release);
}

/// Copies the interrupted registers and stack.
fn copy_from(context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted registers to such a handler.
    let registers = unsafe { &(*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let wanted = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP];
    for (place, register) in REGISTERS.iter().zip(wanted) {
        place.store(registers[register as usize] as u64, Ordering::Relaxed);
    }
    let from = registers[libc::REG_RSP as usize] as usize;
    let here = iovec { iov_base: STACK.as_ptr().cast_mut().cast(), iov_len: WORDS * 8 };
    let there = iovec { iov_base: ptr::without_provenance_mut(from), iov_len: WORDS * 8 };
    // SAFETY: the kernel writes to our own words, which are atomics and which the asking thread
    // does not read yet; what it can't read, it does not.
    let copied = unsafe { copy(&raw const here, &raw const there) };
    COPIED.store(copied.max(0) as usize, Ordering::Relaxed);
}

/// process_vm_readv(2) of this process, without touching errno, which is the interrupted code's. It
/// reads page by page up to where nothing is mapped.
unsafe fn copy(here: *const iovec, there: *const iovec) -> isize {
    let answer: isize;
    // SAFETY: Linux's convention on x86-64; the arguments are the caller's.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_process_vm_readv => answer,
            in("rdi") libc::getpid() as i64, in("rsi") here, in("rdx") 1, in("r10") there,
            in("r8") 1, in("r9") 0, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

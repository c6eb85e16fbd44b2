//! From a copied stack to the functions on it. What is wrong in a copy, or has no unwind tables,
//! makes the list end early.

use curtail_fiber::StackCopy;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Module, ModuleSectionInfo, Unwinder};
use libc::{c_int, c_void};
use object::{Object, ObjectSection};
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Frames that are read at most.
const MOST: usize = 64;

/// For one stack after the other.
pub(super) struct Unwinding(CacheX86_64);

impl Unwinding {
    pub(super) fn new() -> Self {
        Self(CacheX86_64::new())
    }

    /// The addresses of the frames, innermost first; for all but that one, of the call.
    pub(super) fn frames(&mut self, copy: &StackCopy) -> Vec<u64> {
        let [ip, sp, bp] = [copy.ip, copy.sp, copy.bp].map(|register| register as u64);
        let mut read = |address: u64| {
            let offset = address.checked_sub(sp).filter(|offset| offset % 8 == 0).ok_or(())?;
            copy.words.get((offset / 8) as usize).map(|&word| word as u64).ok_or(())
        };
        // One stack at a time: the watchdog may want it.
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        let unwinder = tables.of(loaded());
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut walk = unwinder.iter_frames(ip, registers, &mut self.0, &mut read);
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

/// Reading a large program's unwind tables takes far longer than unwinding by them, so they are
/// kept.
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
pub(super) fn names_at(address: u64) -> Vec<String> {
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

//! Which code of this program may be interrupted.
//!
//! Found once for the process, from the symbols of its own file: functions that are the
//! application's by their names (`names`), less those of the same addresses that are not.

mod names;

use crate::{Code, allow};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SegmentFlags, SymbolKind};
use std::fs::File;
use std::ops::Range;
use std::sync::OnceLock;

/// What there is to interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruptible {
    /// Functions of the application.
    pub functions: usize,
    /// Other functions of the program, among which the runtime, and what was kept out.
    pub others: usize,
}

/// A function of the program: its addresses as loaded, and whether it is the application's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    code: Range<usize>,
    application: bool,
}

/// Two functions of the application that are no farther apart are one range: what lies between is
/// padding.
const PADDING: usize = 64;

/// Whether this program can be pre-empted by signal, and what of it. The first call finds out, for
/// all that follow; `keep_out` are patterns for names of functions that are not to be interrupted.
///
/// # Errors
/// A reason why not, as a sentence without a full stop.
pub fn interruptible(keep_out: &[String]) -> Result<Interruptible, String> {
    static FOUND: OnceLock<Result<Interruptible, String>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let (functions, program) = read(keep_out)?;
            let found = Interruptible {
                functions: functions.iter().filter(|function| function.application).count(),
                others: functions.iter().filter(|function| !function.application).count(),
            };
            let application = merge(functions);
            if application.is_empty() {
                return Err("no function of the application is known".to_owned());
            }
            // SAFETY: what is left out are the functions that are known not to be re-entrant; that
            // the others are is what `Preempt::Signal` asks of the application.
            unsafe { allow(Code { application, program }) };
            Ok(found)
        })
        .clone()
}

/// All functions of the program, and the addresses between which its code lies.
fn read(keep_out: &[String]) -> Result<(Vec<Function>, Range<usize>), String> {
    let file = File::open("/proc/self/exe")
        .map_err(|error| format!("the program's own file cannot be read: {error}"))?;
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<object::Endianness, _>::parse(&cache)
        .map_err(|error| format!("the program's own file is not understood: {error}"))?;
    let base = loaded_at();
    let program = code_segments(&elf, base);
    if !program.contains(&(read as *const () as usize)) {
        return Err("the runtime is not part of the program, but of a library".to_owned());
    }
    let mut functions = Vec::new();
    for symbol in elf.symbols() {
        if symbol.kind() != SymbolKind::Text || symbol.size() == 0 || !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        if names::is_allocator(name) {
            return Err(format!(
                "the program contains an allocator ({name}), whose functions cannot be told from \
                 the application's"
            ));
        }
        let start = base.wrapping_add(symbol.address() as usize);
        let application = names::is_application(name)
            && !keep_out.iter().any(|pattern| {
                names::matches(pattern, name) || names::matches(pattern, &names::readable(name))
            });
        functions.push(Function { code: start..start + symbol.size() as usize, application });
    }
    if functions.is_empty() {
        return Err(
            "the program's symbols were stripped, so that nothing tells the application's \
                    code from other code"
                .to_owned(),
        );
    }
    Ok((functions, program))
}

/// From the first executable byte to the last.
fn code_segments<'a>(
    elf: &ElfFile64<'a, object::Endianness, &'a ReadCache<File>>,
    base: usize,
) -> Range<usize> {
    let mut all: Option<Range<usize>> = None;
    for segment in elf.segments() {
        let SegmentFlags::Elf { p_flags } = segment.flags() else { continue };
        if p_flags & object::elf::PF_X == 0 {
            continue;
        }
        let start = base.wrapping_add(segment.address() as usize);
        let here = start..start + segment.size() as usize;
        all = Some(match all {
            Some(all) => all.start.min(here.start)..all.end.max(here.end),
            None => here,
        });
    }
    all.unwrap_or_default()
}

/// What the loader added to the program's addresses.
fn loaded_at() -> usize {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader's description of an object, and the variable below.
        unsafe { *found.cast::<usize>() = (*info).dlpi_addr as usize };
        1 // The program comes first: no more of them.
    }
    let mut base = 0_usize;
    // SAFETY: `first` writes to `base` and to nothing else.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut base).cast()) };
    base
}

/// The application's addresses: sorted, neighbours joined, without what another function has too
/// (linkers fold equal functions).
fn merge(mut functions: Vec<Function>) -> Vec<Range<usize>> {
    // Of functions at one place, those of others come first.
    functions.sort_by_key(|function| (function.code.start, function.application));
    let mut merged: Vec<Range<usize>> = Vec::new();
    let mut taken = 0; // The end of what belongs to others.
    let mut joins = false; // Nothing of others since the last range.
    for Function { code, application } in functions {
        if !application {
            taken = taken.max(code.end);
            joins = false;
            if let Some(last) = merged.last_mut() {
                last.end = last.end.min(code.start.max(last.start));
            }
            continue;
        }
        let start = code.start.max(taken);
        if start >= code.end {
            continue;
        }
        match merged.last_mut() {
            Some(last) if joins && start <= last.end + PADDING => last.end = last.end.max(code.end),
            _ => merged.push(start..code.end),
        }
        joins = true;
    }
    merged.retain(|range| !range.is_empty());
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(functions: &[(Range<usize>, bool)]) -> Vec<Range<usize>> {
        let function = |(code, application): &(Range<usize>, bool)| Function {
            code: code.clone(),
            application: *application,
        };
        merge(functions.iter().map(function).collect())
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn neighbours_are_joined_and_others_left_out() {
        assert_eq!(merged(&[]), []);
        assert_eq!(merged(&[(16..20, true), (0..9, true), (32..40, true)]), [0..40]);
        assert_eq!(merged(&[(0..9, true), (900..909, true)]), [0..9, 900..909]);
        assert_eq!(
            merged(&[(0..16, true), (16..32, false), (32..40, true)]),
            [0..16, 32..40],
            "what lies between is another's"
        );
        assert_eq!(merged(&[(0..16, true), (0..16, false)]), [], "one body, two names");
        assert_eq!(merged(&[(0..16, true), (8..24, false), (20..30, true)]), [0..8, 24..30]);
    }

    #[test]
    fn this_very_program_is_read() {
        let (functions, program) = read(&[]).unwrap();
        let own = read as *const () as usize;
        let of = |address: usize| functions.iter().find(|f| f.code.contains(&address)).unwrap();
        assert!(!of(own).application, "the runtime is none of the application");
        assert!(functions.iter().all(|f| program.contains(&f.code.start)));
        assert!(!program.contains(&(libc::write as *const () as usize)));
    }
}

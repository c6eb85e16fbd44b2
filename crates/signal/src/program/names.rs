//! Whose a function is, by its name.
//!
//! The application's is what may be interrupted anywhere: it computes on its own data. The runtime's
//! and the standard library's functions are not (they hold locks and thread-local state half-way),
//! nor are allocators, nor the machinery of exceptions. What is generic in `core` and `alloc` is
//! left out with them: in a program that mangles names the old way nothing tells for whom it was
//! compiled, and the runtime's own instances run with its locks held.

/// Crates whose functions are not the application's: the standard library and what it consists of,
/// the runtime and what it stands on, and those whose business is locks, thread-local state or
/// allocation.
const CRATES: &[&str] = &[
    "std",
    "core",
    "alloc",
    "proc_macro",
    "test",
    "unwind",
    "panic_unwind",
    "panic_abort",
    "compiler_builtins",
    "__rustc",
    "rustc_demangle",
    "gimli",
    "addr2line",
    "object",
    "miniz_oxide",
    "rustc_std_workspace_core",
    "rustc_std_workspace_alloc",
    "std_detect",
    "corosensei",
    "hdrhistogram",
    "quanta",
    "rustix",
    "tracing",
    "tracing_core",
    "tracing_subscriber",
    "sharded_slab",
    "log",
    "parking_lot",
    "parking_lot_core",
    "lock_api",
    "once_cell",
    "lazy_static",
    "thread_local",
    "arc_swap",
    "crossbeam_channel",
    "crossbeam_deque",
    "crossbeam_epoch",
    "crossbeam_queue",
    "crossbeam_utils",
    "dashmap",
    "flume",
    "rayon",
    "rayon_core",
    "tokio",
    "mio",
    "dlmalloc",
    "jemallocator",
    "tikv_jemallocator",
    "libmimalloc_sys",
    "mimalloc",
    "rpmalloc",
    "snmalloc_rs",
    "tcmalloc",
    "wee_alloc",
];

/// Generic functions of the standard library that may run for long, and hold nothing while they
/// compute and call back.
const LONG: &[&str] = &["core::slice::sort::", "alloc::slice::stable_sort", "core::slice::memchr"];

/// How names of C and C++ functions begin that are not the application's, beside those that pass and verifier leave
/// alone, too ([`LISTED`]).
const PREFIXES: &[&str] = &[
    // Of Rust, and not understood.
    "_R",
    "curtail_",
    // corosensei's, in assembly
    "stack_init_trampoline",
    "stack_call_trampoline",
    "pthread_",
    "rust_",
    "__unw_",
    "__gxx_",
    "__gcc_",
    "__libc_",
    "__register_frame",
    "__deregister_frame",
    "_init",
    "_fini",
    // __cxxabiv1, __gnu_cxx
    "_ZN10__cxxabiv1",
    "_ZN9__gnu_cxx",
    "_ZNK10__cxxabiv1",
];

/// The kinds of [`curtail_fiber::NAMES`] that are not the application's.
const LISTED: &[&str] = &["allocator", "exception", "initialiser", "kept-out"];

fn is_listed(symbol: &str) -> bool {
    curtail_fiber::NAMES.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|kind| LISTED.contains(&kind))
            && words.any(|glob| matches(glob, symbol))
    })
}

/// Symbols of allocators whose functions have no common prefix: where one of these is part of the
/// program, its functions cannot be told from the application's.
const ALLOCATORS: &[&str] =
    &["malloc", "je_malloc", "_rjem_malloc", "tc_malloc", "sn_malloc", "sn_rust_alloc", "rpmalloc"];

/// Whether `symbol` is a function of an allocator as above.
pub(super) fn is_allocator(symbol: &str) -> bool {
    ALLOCATORS.contains(&symbol)
}

/// A function's name as people write it: demangled if it is Rust's, without the hash.
pub(super) fn readable(symbol: &str) -> String {
    match rustc_demangle::try_demangle(symbol) {
        Ok(name) => format!("{name:#}"),
        Err(_) => symbol.to_owned(),
    }
}

/// Whether a function with this symbol is the application's.
pub(super) fn is_application(symbol: &str) -> bool {
    // What compilers append to the parts that they split off or clone.
    let symbol = symbol.split_once(".llvm.").map_or(symbol, |(name, _)| name);
    let Ok(name) = rustc_demangle::try_demangle(symbol) else {
        return !symbol.is_empty()
            && !PREFIXES.iter().any(|prefix| symbol.starts_with(prefix))
            && !is_listed(symbol);
    };
    let name = format!("{name:#}");
    if name.contains("GlobalAlloc") {
        return false;
    }
    if LONG.iter().any(|long| name.starts_with(long)) {
        return true;
    }
    match crate_of(&name) {
        Some(of) => !CRATES.contains(&of) && of != "curtail" && !of.starts_with("curtail_"),
        None => false,
    }
}

/// The crate of the first path in a demangled name: of a function's own, or of the type or, where
/// that is a parameter or a primitive, the trait that it is a method of.
fn crate_of(name: &str) -> Option<&str> {
    let root = |text: &str| -> Option<(usize, usize)> {
        let bytes = text.as_bytes();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let mut at = 0;
        while at < bytes.len() {
            if !word(bytes[at]) {
                at += 1;
                continue;
            }
            let end = at + bytes[at..].iter().take_while(|byte| word(**byte)).count();
            if text[end..].starts_with("::") {
                return Some((at, end));
            }
            if text[end..].starts_with(" as ") {
                return None; // The type has no path: the trait's counts.
            }
            at = end;
        }
        None
    };
    let found = root(name).map(|(from, to)| &name[from..to]);
    found.or_else(|| {
        let (_, of_trait) = name.split_once(" as ")?;
        root(of_trait).map(|(from, to)| &of_trait[from..to])
    })
}

/// Whether `name` matches `pattern`, in which `*` stands for anything.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_apart() {
        for symbol in [
            // app::work, <app::Spin as curtail::app::App>::handle, leveldb::Get(…), C
            "_ZN3app4work17h0123456789abcdefE",
            "_ZN47_$LT$app..Spin$u20$as$u20$curtail..app..App$GT$6handle17h0123456789abcdefE",
            "_RNvCs1234_3app4work",
            "_ZN7leveldb6DBImpl3GetERKNS_11ReadOptionsE",
            "_ZNSt6vectorIiSaIiEE9push_backEOi",
            "compress_block",
            "_ZN4core5slice4sort8unstable9quicksort9quicksort17h0123456789abcdefE",
        ] {
            assert!(is_application(symbol), "{symbol}: {}", readable(symbol));
        }
        for symbol in [
            "",
            "_ZN7curtail6engine6Engine3run17h0123456789abcdefE",
            "_ZN13curtail_fiber5fiber7suspend17h0123456789abcdefE",
            "_ZN3std2io5stdio6_print17h0123456789abcdefE",
            "_ZN4core3ptr46drop_in_place$LT$alloc..vec..Vec$LT$u8$GT$$GT$17h0123456789abcdefE",
            "_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17h0123456789abcdefE",
            "_ZN62_$LT$app..Mine$u20$as$u20$core..alloc..global..GlobalAlloc$GT$5alloc17h0123456789abcdefE",
            "_RNvNtCs1234_3std2io6__print",
            "_RNvCs1234_7___rustc12___rust_alloc",
            "__rust_alloc",
            "_Rnonsense",
            "pthread_mutex_lock",
            "curtail_safepoint_slow",
            "stack_init_trampoline",
            "stack_init_trampoline_return",
            "_Znwm",
            "__cxa_throw",
            "mi_malloc",
            "je_malloc",
            "_GLOBAL__sub_I_app.cpp",
            "__asan_init",
        ] {
            assert!(!is_application(symbol), "{symbol}: {}", readable(symbol));
        }
    }

    #[test]
    fn crates_stand_where_the_path_begins() {
        for (name, of) in [
            ("app::work", Some("app")),
            ("<app::Spin as curtail::app::App>::handle", Some("app")),
            ("<&mut app::Spin as core::fmt::Debug>::fmt", Some("app")),
            ("<T as core::convert::Into<app::U>>::into", Some("core")),
            ("<[u8] as app::Hash>::hash", Some("app")),
            ("<[app::T]>::first", Some("app")),
            ("<[u8]>::first", None),
            ("main", None),
        ] {
            assert_eq!(crate_of(name), of, "{name}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("a::b", "a::b", true),
            ("a::b", "a::bc", false),
            ("a::*", "a::b::c", true),
            ("*::c", "a::b::c", true),
            ("a*c", "abc", true),
            ("a*b*c", "axbxc", true),
            ("a*b*c", "axxc", false),
            ("*", "anything", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}

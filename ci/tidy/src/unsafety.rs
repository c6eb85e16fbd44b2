//! `unsafe` only where the architecture allows it: every other crate forbids it in its root.

use crate::{each_level, tokens};
use proc_macro2::TokenTree;

/// The packages that may have some, and below which paths of theirs.
const ALLOWED: &[(&str, &[&str])] = &[
    ("curtail-bench", &["src/"]),
    ("curtail-capi", &["src/"]),
    ("curtail-fiber", &["src/"]),
    ("curtail-libc", &["src/"]),
    ("curtail-net", &["src/"]),
    ("curtail-pool", &["src/"]),
    ("curtail-pthread", &["src/"]),
    ("curtail-ring", &["src/"]),
    ("curtail-rt", &["src/"]),
    ("curtail-server", &["src/"]),
    ("curtail-signal", &["src/"]),
    (
        "curtail-shm",
        &[
            "src/memory.rs",
            "src/board.rs",
            "src/fork.rs",
            "src/kthreads.rs",
            "src/page.rs",
            "src/poll_pages.rs",
            "src/rings.rs",
            "src/page/",
        ],
    ),
    ("kv", &["src/ffi.rs"]),
    ("kv-lock-probe", &["src/"]),
];

/// Complaints about the list itself: each package on it exists.
#[must_use]
pub fn check_list(packages: &[&str]) -> Vec<String> {
    let gone = ALLOWED.iter().filter(|(name, _)| !packages.contains(name));
    gone.map(|(name, _)| format!("{name} has leave for unsafe and is not there")).collect()
}

/// Complaint about the root of a library or a binary: it neither forbids `unsafe` nor may have it.
#[must_use]
pub fn check_root(package: &str, path: &str, source: &str) -> Option<String> {
    let allowed = ALLOWED.iter().any(|(name, _)| *name == package);
    let forbids = source.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    (!allowed && !forbids)
        .then(|| format!("{path}: {package} has no leave for unsafe: #![forbid(unsafe_code)]"))
}

/// Complaint about a source file (`path` relative to its package, below `src/`) of a package that
/// may have `unsafe`, but not there. (The others can't have any: see [`check_root`].)
///
/// # Errors
/// Where the source does not lex.
pub fn check_file(package: &str, path: &str, source: &str) -> Result<Option<String>, String> {
    let Some((_, places)) = ALLOWED.iter().find(|(name, _)| *name == package) else {
        return Ok(None);
    };
    if places.iter().any(|place| path.starts_with(place)) {
        return Ok(None);
    }
    let mut found = false;
    each_level(tokens(path, source)?, &mut |level| {
        found |= level.iter().any(|tree| matches!(tree, TokenTree::Ident(i) if i == "unsafe"));
    });
    Ok(found.then(|| format!("{package}: {path}: unsafe belongs in {}", places.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::{ALLOWED, check_file, check_list, check_root};

    #[test]
    fn a_crate_forbids_or_is_allowed() {
        assert!(check_root("curtail-policy", "lib.rs", "//! Pure.\nmod a;").is_some());
        assert!(check_root("curtail-policy", "lib.rs", "// #![forbid(unsafe_code)]").is_some());
        assert!(check_root("curtail-policy", "lib.rs", "#![forbid(unsafe_code)]").is_none());
        assert!(check_root("curtail-ring", "lib.rs", "mod a;").is_none());
    }

    #[test]
    fn leave_for_nobody_is_found() {
        let mut names: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
        assert!(check_list(&names).is_empty());
        names.pop();
        assert_eq!(check_list(&names).len(), 1);
    }

    #[test]
    fn leave_for_one_file_is_for_one_file() {
        let bad = "fn f() { if true { unsafe { g() } } }";
        assert!(check_file("kv", "src/store.rs", bad).unwrap().is_some());
        assert!(check_file("kv", "src/ffi.rs", bad).unwrap().is_none());
        let good = "// unsafe\nfn f() { \"unsafe\"; }";
        assert!(check_file("kv", "src/store.rs", good).unwrap().is_none());
    }
}

//! Names: demangling, the crate or namespace a function belongs to, and globs over them.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The list that pass and runtime go by, too: it says itself what its lines are.
const LIST: &str = include_str!("../../fiber/native/names.inc");

/// Does a name match one of a kind in the list?
#[must_use]
pub fn is_listed(kind: &str, name: &str) -> bool {
    static BY_KIND: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
        let mut all: HashMap<&str, Vec<&str>> = HashMap::new();
        for line in LIST.lines() {
            let mut words = line.split_whitespace();
            all.entry(words.next().unwrap_or("")).or_default().extend(words);
        }
        all
    });
    BY_KIND.get(kind).is_some_and(|globs| globs.iter().any(|glob| matches(glob, name)))
}

/// All names of the program's functions, by address: identical code may have several.
#[derive(Debug, Default)]
pub struct Names {
    aliases: HashMap<u64, Vec<String>>,
}

impl Names {
    /// One more name.
    pub fn add(&mut self, address: u64, name: &str) {
        let known = self.aliases.entry(address).or_default();
        if !known.iter().any(|other| other == name) {
            known.push(name.to_owned());
        }
    }

    /// The names of the function that begins there.
    #[must_use]
    pub fn at(&self, address: u64) -> &[String] {
        self.aliases.get(&address).map_or(&[], Vec::as_slice)
    }
}

/// As a person reads it; the name itself if it is not mangled.
#[must_use]
pub fn demangle(mangled: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(mangled) {
        return format!("{name:#}");
    }
    // A suffix like `.llvm.123` or `.cold` is not part of the mangled name.
    let plain = mangled.split_once('.').map_or(mangled, |(plain, _)| plain);
    if !plain.starts_with("_Z") || plain.len() > 4096 {
        return mangled.to_owned();
    }
    let options = cpp_demangle::DemangleOptions::default();
    cpp_demangle::Symbol::new_with_options(
        plain,
        &cpp_demangle::ParseOptions::default().recursion_limit(64),
    )
    .ok()
    .and_then(|symbol| symbol.demangle_with_options(&options).ok())
    .unwrap_or_else(|| mangled.to_owned())
}

/// The crate (or C++ namespace) at the root of a readable name's path: `curtail_fiber` for
/// `<curtail_fiber::Stack as Drop>::drop`. As the pass finds it (pass/src/guard/exclude.cpp).
#[must_use]
pub fn root_of(readable: &str) -> &str {
    let mut path = readable;
    loop {
        let before = path;
        path = path.trim_start_matches(['<', '&', '*', '(', '[', ' ']);
        for word in ["mut ", "const ", "dyn ", "impl "] {
            path = path.strip_prefix(word).unwrap_or(path);
        }
        if path.len() == before.len() {
            break;
        }
    }
    let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$');
    &path[..end.unwrap_or(path.len())]
}

/// Whether a function of Curtail's (its readable name) is where the runtime calls closures of the
/// user's, which are inlined there: the pass treats it as the user's.
#[must_use]
pub fn calls_the_user(readable: &str) -> bool {
    readable.starts_with("curtail_rt::user::")
}

/// Does a glob (`*`, `?`, `[a-z]`) match the whole of a name?
#[must_use]
pub fn matches(glob: &str, name: &str) -> bool {
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    let (mut g, mut n) = (0, 0);
    // Where to go on if what follows the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match glob.get(g) {
            Some(b'*') => {
                retry = Some((g, n));
                g += 1;
                continue;
            }
            Some(_) => {
                if let Some(width) = one(&glob[g..], name[n]) {
                    g += width;
                    n += 1;
                    continue;
                }
            }
            None => {}
        }
        let Some((star, taken)) = retry else { return false };
        retry = Some((star, taken + 1));
        g = star + 1;
        n = taken + 1;
    }
    glob[g..].iter().all(|&byte| byte == b'*')
}

/// Matches one byte of a name: how much of the glob that took.
fn one(glob: &[u8], byte: u8) -> Option<usize> {
    match glob[0] {
        b'?' => Some(1),
        b'[' => {
            let end = glob.iter().skip(2).position(|&b| b == b']')? + 2;
            let (set, negated) = match glob[1] {
                b'^' | b'!' => (&glob[2..end], true),
                _ => (&glob[1..end], false),
            };
            let mut found = false;
            let mut at = 0;
            while at < set.len() {
                if at + 2 < set.len() && set[at + 1] == b'-' {
                    found |= (set[at]..=set[at + 2]).contains(&byte);
                    at += 3;
                } else {
                    found |= set[at] == byte;
                    at += 1;
                }
            }
            (found != negated).then_some(end + 1)
        }
        b'\\' if glob.len() > 1 => (glob[1] == byte).then_some(2),
        plain => (plain == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_found_behind_the_decoration() {
        for (name, root) in [
            ("<curtail_fiber::Stack as core::ops::Drop>::drop", "curtail_fiber"),
            ("<&mut curtail::Server>::f", "curtail"),
            ("core::ptr::drop_in_place", "core"),
            ("main", "main"),
            ("", ""),
        ] {
            assert_eq!(root_of(name), root);
        }
    }

    #[test]
    fn listed_names_are_found() {
        for (kind, name) in [
            ("allocator", "malloc"),
            ("allocator", "__rust_alloc"),
            ("initialiser", "_GLOBAL__sub_I_a.cpp"),
            ("exception", "__gxx_personality_v0"),
            ("kept-out", "__asan_init"),
        ] {
            assert!(is_listed(kind, name), "{name}");
            assert!(!is_listed(kind, "main") && !is_listed(kind, kind), "{kind}");
        }
    }

    #[test]
    fn callers_of_the_user_are_found() {
        let call = demangle("_RINvNtCs1234_10curtail_rt4user4callNvCs5678_3app1fE");
        assert!(calls_the_user(&call), "{call}");
        for ours in [
            "curtail_rt::users::f",
            "curtail_rt::thread::user::f",
            "<curtail_rt::user::A as B>::f",
            "curtail::user::f",
        ] {
            assert!(!calls_the_user(ours), "{ours}");
        }
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name) in [
            ("je_*", "je_malloc"),
            ("*", ""),
            ("a?c", "abc"),
            ("[a-c]x*z", "bxyz"),
            ("a*b*c", "aXbYbZc"),
            ("[!a]b", "xb"),
            (r"a\*", "a*"),
        ] {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in
            [("je_", "je_malloc"), ("a?c", "ac"), ("[a-c]", "d"), ("a*b", "abc"), (r"a\*", "ab")]
        {
            assert!(!matches(glob, name), "{glob} {name}");
        }
    }
}

//! Circles among the modules at the top of a Rust crate: one uses another that uses it, directly or
//! by way of others. Only paths that begin with `crate` count; what the root re-exports is the root's.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// What stands behind `crate::` in a file, but for its tests: the first name of each path.
#[must_use]
pub fn uses(tokens: TokenStream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(word) if word == "crate" => match trees.get(at + 3) {
                Some(TokenTree::Ident(name)) => drop(found.insert(name.to_string())),
                Some(TokenTree::Group(group)) => {
                    let parts: Vec<TokenTree> = group.stream().into_iter().collect();
                    let comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ',');
                    let names = parts.split(comma).filter_map(<[_]>::first);
                    found.extend(names.map(ToString::to_string));
                }
                _ => {}
            },
            TokenTree::Group(group) if !of_tests(&trees[..at]) => {
                found.extend(uses(group.stream()));
            }
            _ => {}
        }
    }
    found
}

/// Whether what comes now is the body of `#[cfg(test)] mod name`.
fn of_tests(before: &[TokenTree]) -> bool {
    let [.., TokenTree::Group(attribute), TokenTree::Ident(word), TokenTree::Ident(_)] = before
    else {
        return false;
    };
    word == "mod" && attribute.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// The module at the top to which a file belongs, by its path below the crate's `src`; none for the
/// root and for tests.
#[must_use]
pub fn module(path: &str) -> Option<&str> {
    let name = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    let of_tests = path.split('/').any(|part| matches!(part, "tests" | "tests.rs"));
    (!of_tests && !matches!(name, "lib" | "main" | "bin")).then_some(name)
}

/// The modules that lie on a circle. `files`: for each file its module, and what it [`uses`].
#[must_use]
pub fn circles(files: &[(String, BTreeSet<String>)]) -> Vec<String> {
    let mut arrows = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (from, names) in files {
        let others = names.iter().filter(|name| *name != from).map(String::as_str);
        arrows.entry(from).or_default().extend(others);
    }
    let reaches_itself = |module: &&&str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![**module]);
        while let Some(from) = next.pop() {
            let new = arrows.get(from).into_iter().flatten().filter(|to| seen.insert(**to));
            next.extend(new.copied());
        }
        seen.contains(**module)
    };
    arrows.keys().filter(reaches_itself).map(|module| (*module).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{circles, module, uses};

    #[test]
    fn paths_are_read_from_groups_and_code() {
        let source = "use crate::{a::{B, c::D}, e}; use std::f; pub(crate) fn g() { crate::h::i(); }\n\
                      #[cfg(test)] mod tests { use crate::j; }";
        let found: Vec<String> = uses(source.parse().unwrap()).into_iter().collect();
        assert_eq!(found, ["a", "e", "h"]);
    }

    #[test]
    fn files_belong_to_modules() {
        let of = ["lib.rs", "a.rs", "a/b.rs", "a/tests.rs", "main.rs"].map(module);
        assert_eq!(of, [None, Some("a"), Some("a"), None, None]);
    }

    #[test]
    fn a_circle_of_three_is_found() {
        let file = |module: &str, source: &str| (module.to_owned(), uses(source.parse().unwrap()));
        let mut files = vec![
            file("a", "use crate::b::B;"),
            file("b", "use crate::c::C; use crate::b::D; use crate::Root;"),
            file("d", "use crate::a::A;"),
        ];
        assert_eq!(circles(&files), [""; 0]);
        files.push(file("c", "fn f() { crate::a::f() }"));
        assert_eq!(circles(&files), ["a", "b", "c"]);
    }
}

//! Files that no other file speaks of: sources that are compiled nowhere, pages that are linked
//! nowhere.

use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

/// What this rule is about.
const KINDS: &[&str] = &["rs", "c", "cc", "cpp", "h", "md", "svg"];
/// Where cargo and git's hosts look by themselves.
const FOUND: &[&str] = &["main.rs", "lib.rs", "build.rs", "README.md", "SUMMARY.md"];
const FOUND_IN: &[&str] = &["tests", "benches", "examples", "bin"];
/// Folders whose files scripts and the suite of programs for the pass list by themselves.
const LISTED: &[&str] =
    &["bench/echo/", "bench/threads/", "bench/wakeups/", "pass/suite/programs/"];

/// Complaints about files that nothing refers to.
#[must_use]
pub fn check(files: &[File]) -> Vec<String> {
    let mut paths = BTreeSet::new();
    // By name, who speaks of it: the first, and whether there is another.
    let mut names = BTreeMap::<&str, (&str, bool)>::new();
    for file in files {
        if file.extension() == "rs" {
            paths.extend(modules(&file.path, &file.text).filter(|path| *path != file.path));
        }
        for word in words(&file.text) {
            if word.ends_with(".rs") || word.contains('*') {
                paths.extend(below(&file.path, word));
            } else {
                let name = word.rsplit('/').next().unwrap_or_default();
                let entry = names.entry(name).or_insert((&file.path, false));
                entry.1 |= entry.0 != file.path;
            }
        }
    }
    let is_dead = |file: &&File| {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let looked_for = FOUND.contains(&name)
            || FOUND_IN.contains(&folder.rsplit('/').next().unwrap_or_default())
            || LISTED.iter().any(|listed| file.path.starts_with(listed));
        // A pattern such as `src/*.cpp` takes all of a kind in a folder.
        let pattern = format!("{folder}/*.{}", file.extension());
        let named = names.get(name).is_some_and(|(by, more)| *more || *by != file.path);
        KINDS.contains(&file.extension())
            && !(looked_for || named || paths.contains(&file.path) || paths.contains(&pattern))
    };
    files
        .iter()
        .filter(is_dead)
        .map(|file| format!("{}: nothing refers to it", file.path))
        .collect()
}

/// What looks like a file's name.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !(c.is_alphanumeric() || "._-/*".contains(c));
    let words = text.split(part).map(|word| word.trim_end_matches('.').trim_start_matches('/'));
    words.filter(|word| word.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind)))
}

/// The files that a Rust file's `mod name;` may mean.
fn modules(path: &str, source: &str) -> impl Iterator<Item = String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let stem = path.trim_end_matches(".rs");
    let names = source.lines().filter_map(|line| {
        let mut words = line.trim().strip_suffix(';')?.rsplit(' ');
        words.next().filter(|_| words.next() == Some("mod"))
    });
    names.flat_map(move |name| {
        [folder, stem]
            .into_iter()
            .flat_map(move |base| [format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")])
    })
}

/// The paths that a word in a file may mean: beside the file, and below each folder above it.
fn below<'a>(path: &'a str, word: &'a str) -> impl Iterator<Item = String> + 'a {
    let folders = Path::new(path).ancestors().skip(1);
    folders.filter_map(move |folder| normal(&folder.join(word))).filter(move |it| it != path)
}

/// The path without `..`.
fn normal(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            _ => {}
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::File;

    #[test]
    fn what_nothing_names_is_dead() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("README.md", "[page](docs/a.md), ![picture](docs/p.svg)"),
            file("docs/a.md", "see docs/a.md and a.md"),
            file("docs/b.md", "docs/b.md"),
            file("docs/p.svg", ""),
            file("src/lib.rs", "mod a;\npub(crate) mod c;\n"),
            file("src/a.rs", "mod inner;\n"),
            file("src/a/inner.rs", ""),
            file("src/b.rs", "mod b; // src/b.rs"),
            file("src/c/mod.rs", "include_str!(\"../../docs/c.md\")"),
            file("docs/c.md", ""),
            file("tests/t.rs", ""),
            file("pass/Makefile", "$(wildcard src/*.cpp)"),
            file("pass/src/x.cpp", "#include \"x.h\""),
            file("pass/src/x.h", ""),
            file("pass/src/y.h", ""),
        ];
        let dead = ["docs/b.md", "src/b.rs", "pass/src/y.h"];
        assert_eq!(check(&files), dead.map(|path| format!("{path}: nothing refers to it")));
    }
}

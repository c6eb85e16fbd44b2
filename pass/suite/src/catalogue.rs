//! The programs of the suite: what lies in `programs/` is in it.
//!
//! `c/NAME.c` and `cpp/NAME.cpp` are one program each, `c/NAME/` one of several files, and
//! `rust/src/bin/NAME.rs` one of the package `safepoint-programs`. A C or C++ program is compiled at
//! -O2, or with what its head comment says behind `Flags:`.

use std::fs;
use std::path::{Path, PathBuf};

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// By `curtail-cc`.
    C,
    /// By `curtail-c++`.
    Cpp,
    /// By `cargo curtail`.
    Rust,
}

impl Language {
    /// As people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Rust => "Rust",
        }
    }
}

/// One program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name, unique in the suite.
    pub name: String,
    /// What it is written in.
    pub language: Language,
    /// Its source files.
    pub sources: Vec<PathBuf>,
    /// Where its headers are, beside the sources.
    pub includes: Vec<PathBuf>,
    /// The compiler's flags (C and C++).
    pub flags: Vec<String>,
    /// The crate and its version, if others wrote what it runs.
    pub origin: Option<String>,
}

impl Program {
    /// One of no name and no sources.
    pub(crate) fn empty(language: Language) -> Self {
        let (name, origin) = (String::new(), None);
        Self { name, language, sources: vec![], includes: vec![], flags: vec![], origin }
    }
}

/// The suite's sources, as they were when this was built.
#[must_use]
pub fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// All programs below `home`, by name.
///
/// # Errors
/// A directory that can't be read, or a name that occurs twice.
pub fn programs(home: &Path) -> Result<Vec<Program>, String> {
    let mut all = Vec::new();
    for (directory, extension, language) in [
        ("c", "c", Language::C),
        ("cpp", "cpp", Language::Cpp),
        ("rust/src/bin", "rs", Language::Rust),
    ] {
        for path in entries(&home.join(directory))? {
            let mut sources = vec![path.clone()];
            if path.is_dir() {
                sources = entries(&path)?;
            }
            sources.retain(|source| source.extension().is_some_and(|found| found == extension));
            let name = path.file_stem().and_then(|stem| stem.to_str());
            if let Some(name) = name.filter(|_| !sources.is_empty()) {
                let flags = flags(&sources)?;
                let name = name.to_owned();
                all.push(Program { name, sources, flags, ..Program::empty(language) });
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    match all.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(format!("two programs are called {}", pair[0].name)),
        None => Ok(all),
    }
}

/// What lies in a directory, by name.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error| format!("{}: {error}", directory.display());
    let entries = fs::read_dir(directory).map_err(wrong)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(wrong)?;
    paths.sort();
    Ok(paths)
}

/// What stands behind `Flags:` in the first lines of one of the files; else -O2.
fn flags(sources: &[PathBuf]) -> Result<Vec<String>, String> {
    for source in sources {
        let text =
            fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
        let said = text.lines().take(5).find_map(|line| line.split_once("Flags:"));
        if let Some((_, flags)) = said {
            let words = flags.split_whitespace().filter(|word| word.starts_with('-'));
            return Ok(words.map(str::to_owned).collect());
        }
    }
    Ok(vec!["-O2".to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_is_complete() {
        let all = programs(&home()).unwrap();
        assert!(all.len() >= 18, "{} programs", all.len());
        for language in [Language::C, Language::Cpp, Language::Rust] {
            assert!(all.iter().filter(|p| p.language == language).count() >= 4, "{language:?}");
        }
        let find = |name: &str| all.iter().find(|program| program.name == name).unwrap();
        assert_eq!(find("reduce").flags, ["-O3"]);
        assert_eq!(find("lu").flags, ["-O2"]);
        assert_eq!(find("interpreter").sources.len(), 2);
    }

    #[test]
    fn names_are_unique() {
        let scratch = tempfile::tempdir().unwrap();
        for file in ["c/a.c", "c/note.txt", "cpp/a.cpp", "rust/src/bin/b.rs"] {
            let path = scratch.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(programs(scratch.path()), Err("two programs are called a".to_owned()));
        fs::remove_file(scratch.path().join("cpp/a.cpp")).unwrap();
        let names: Vec<_> =
            programs(scratch.path()).unwrap().into_iter().map(|program| program.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}

//! The repository's files.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// What the rules are not about: build output, what others have written, and git's own: a directory,
/// or in a linked worktree a file that names one.
const SKIPPED: &[&str] = &["target", ".git", "vendor", "node_modules"];

/// One text file.
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// What stands after the last dot of its name.
    #[must_use]
    pub fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|e| e.to_str()).unwrap_or_default()
    }

    /// Written elsewhere and kept as it came.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.path.contains("/uPlot.") || self.path == "Cargo.lock" || self.extension() == "snap"
    }
}

/// The repository's root.
///
/// # Panics
/// Where this package lies elsewhere than in `ci/tidy`.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("ci/tidy lies two directories below the root").to_path_buf()
}

/// All text files below `root`, in the order of their paths. Symbolic links are not followed.
///
/// # Errors
/// What reading the tree says.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            }
            // What is no UTF-8 is no text.
            let Some(text) = kind.is_file().then(|| fs::read(entry.path())).transpose()? else {
                continue;
            };
            if let Ok(text) = String::from_utf8(text) {
                let path = entry.path();
                let path = path.strip_prefix(root).expect("below the root").to_string_lossy();
                found.push(File { path: path.into_owned(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_not_ours_is_skipped() {
        let name = format!("curtail-tidy-{}", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(name));
        fs::create_dir_all(scratch.0.join("src/target")).unwrap();
        for path in [".git", "a.md", "src/b.rs", "src/target/c.rs"] {
            fs::write(scratch.0.join(path), "text").unwrap();
        }
        let found = files(&scratch.0).unwrap();
        let paths: Vec<&str> = found.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["a.md", "src/b.rs"]);
    }
}

//! The repository's files.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// What the rules are not about: build output, and what others have written.
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

    /// Written by somebody else and kept as it came.
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
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
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

//! Where things stand: all in one directory, as `./x build` leaves them, or below a prefix, as packages
//! have them (`/usr`, or wherever the archive was unpacked).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The pass, by which a place is known for the right one.
pub(crate) const PASS: &str = "libcurtail_pass.so";

/// Where the parts of one build of the tools are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The drivers.
    pub tools: PathBuf,
    /// The pass and the libraries that the drivers link by themselves.
    pub parts: PathBuf,
    /// The headers for C.
    pub include: PathBuf,
    /// The library for C.
    pub libraries: PathBuf,
    /// The sources of the crates, where they came with the tools.
    pub crates: Option<PathBuf>,
}

impl Layout {
    /// The layout around this executable, or in `CURTAIL_HOME`.
    ///
    /// # Errors
    /// The system does not tell where the executable is.
    pub fn find() -> Result<Self, String> {
        if let Some(home) = env::var_os("CURTAIL_HOME") {
            let home = PathBuf::from(home);
            return Ok(Self::of(&home, &home));
        }
        let exe = env::current_exe().and_then(fs::canonicalize);
        let exe = exe.map_err(|error| format!("where am I? {error}"))?;
        let tools = exe.parent().ok_or("where am I?")?;
        Ok(Self::of(tools, tools.parent().unwrap_or(tools)))
    }

    /// `directory` with everything, or else `prefix` with all in its place, if the pass is there.
    fn of(directory: &Path, prefix: &Path) -> Self {
        let packaged = prefix.join("lib/curtail");
        if directory.join(PASS).is_file() || !packaged.join(PASS).is_file() {
            return Self {
                tools: directory.to_owned(),
                parts: directory.to_owned(),
                include: directory.join("include"),
                libraries: directory.to_owned(),
                crates: None,
            };
        }
        let crates = prefix.join("share/curtail/crates");
        Self {
            tools: prefix.join("bin"),
            parts: packaged,
            include: prefix.join("include"),
            libraries: prefix.join("lib"),
            crates: crates.is_dir().then_some(crates),
        }
    }

    /// What has clang find the headers, behind all others.
    #[must_use]
    pub fn for_headers(&self) -> Vec<String> {
        let own = self.include.is_dir() && self.include != Path::new("/usr/include");
        let words = || vec!["-idirafter".to_owned(), self.include.display().to_string()];
        own.then(words).unwrap_or_default()
    }

    /// What has the linker find the library for C, behind all others.
    #[must_use]
    pub fn for_libraries(&self) -> Option<String> {
        let own = self.libraries.is_dir() && self.libraries != Path::new("/usr/lib");
        own.then(|| format!("-L{}", self.libraries.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_beside_the_tools_or_below_a_prefix() {
        let base = env::temp_dir().join(format!("curtail-layout-{}", std::process::id()));
        let (bin, parts) = (base.join("bin"), base.join("lib/curtail"));
        for directory in [&bin, &parts, &base.join("share/curtail/crates"), &base.join("include")] {
            fs::create_dir_all(directory).unwrap();
        }
        let nothing = Layout::of(&bin, &base);
        fs::write(parts.join(PASS), "").unwrap();
        let packaged = Layout::of(&bin, &base);
        let home = Layout::of(&base, &base);
        let (headers, library) = (packaged.for_headers(), packaged.for_libraries());
        fs::write(bin.join(PASS), "").unwrap();
        let built = Layout::of(&bin, &base);
        fs::remove_dir_all(&base).unwrap();
        assert_eq!(nothing.parts, bin, "where `./x build` would have it, for the message");
        assert_eq!((&packaged.parts, &packaged.tools), (&parts, &bin));
        assert_eq!(packaged.crates, Some(base.join("share/curtail/crates")));
        assert_eq!(home, packaged, "CURTAIL_HOME may be the prefix");
        assert_eq!(headers, ["-idirafter".to_owned(), base.join("include").display().to_string()]);
        assert_eq!(library, Some(format!("-L{}", base.join("lib").display())));
        assert_eq!((built.parts, built.crates), (bin, None), "a build's own come first");
    }
}

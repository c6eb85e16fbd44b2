//! The parts, found: the pass, the safepoint library, clang and lld of the right major.

use crate::layout::{Layout, PASS};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pass carries this in its text, followed by the major of the LLVM it was built for.
const MARK: &[u8] = b"curtail-pass-for-llvm-";

/// The parts, found.
#[derive(Clone, Debug)]
pub struct Toolkit {
    /// Where they stand.
    pub layout: Layout,
    /// `libcurtail_pass.so`.
    pub pass: PathBuf,
    /// `libcurtail_safepoint.a`.
    pub safepoint: PathBuf,
    /// LLVM's major: that of the pass.
    pub major: u32,
}

impl Toolkit {
    /// Looks beside this executable and where packages have the parts, or in `CURTAIL_HOME` likewise.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    pub fn find() -> Result<Self, String> {
        let layout = Layout::find()?;
        let part = |name: &str| {
            let path = layout.parts.join(name);
            if path.is_file() {
                return Ok(path);
            }
            let home = layout.parts.display();
            Err(format!("no {name} in {home}: run pass/build.sh, or set CURTAIL_HOME"))
        };
        let pass = part(PASS)?;
        let safepoint = part("libcurtail_safepoint.a")?;
        let major = major_of(&pass)?;
        Ok(Self { layout, pass, safepoint, major })
    }

    /// The compiler: `CURTAIL_CLANG`, or clang of the pass's major.
    ///
    /// # Errors
    /// There is none.
    pub fn clang(&self) -> Result<PathBuf, String> {
        if let Some(clang) = env::var_os("CURTAIL_CLANG") {
            return on_path(Path::new(&clang))
                .ok_or_else(|| format!("CURTAIL_CLANG={} does not exist", clang.display()));
        }
        let major = self.major;
        [format!("/usr/lib/llvm-{major}/bin/clang"), format!("clang-{major}")]
            .iter()
            .find_map(|name| on_path(Path::new(name)))
            .ok_or_else(|| {
                format!(
                    "no clang-{major}: install clang-{major} and lld-{major} (where the distribution \
                     has none, https://apt.llvm.org has them), or set CURTAIL_CLANG"
                )
            })
    }

    /// Looks whether a compiler is of the pass's major: no other can load it.
    ///
    /// # Errors
    /// It is of another.
    pub fn check(&self, clang: &Path) -> Result<(), String> {
        let name = clang.display();
        let output = Command::new(clang).arg("-dumpversion").output();
        let output = output.map_err(|error| format!("{name}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.trim();
        let major = self.major;
        if said.split('.').next() == Some(&major.to_string()) {
            return Ok(());
        }
        Err(format!(
            "{name} is of version {said}, the pass was built for {major}: install clang-{major} and \
             lld-{major}, or have CURTAIL_CLANG name such a one"
        ))
    }

    /// The linker that belongs to a compiler: the `ld.lld` beside it.
    ///
    /// # Errors
    /// There is none.
    pub fn lld(&self, clang: &Path) -> Result<PathBuf, String> {
        let real = fs::canonicalize(clang).unwrap_or_else(|_| clang.to_owned());
        let beside = real.with_file_name("ld.lld");
        if beside.is_file() {
            return Ok(beside);
        }
        let major = self.major;
        on_path(Path::new(&format!("ld.lld-{major}")))
            .ok_or_else(|| format!("no ld.lld-{major}: install lld-{major}"))
    }
}

fn on_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

fn major_of(pass: &Path) -> Result<u32, String> {
    let bytes = fs::read(pass).map_err(|error| format!("{}: {error}", pass.display()))?;
    bytes
        .windows(MARK.len())
        .position(|window| window == MARK)
        .and_then(|at| {
            let digits = &bytes[at + MARK.len()..];
            let length = digits.iter().position(|byte| !byte.is_ascii_digit())?;
            std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
        })
        .ok_or_else(|| format!("{} is not our pass: run pass/build.sh", pass.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_install_is_said_in_one_line() {
        let toolkit = Toolkit {
            layout: Layout::find().unwrap(),
            pass: PathBuf::new(),
            safepoint: PathBuf::new(),
            major: 4999,
        };
        let missing = toolkit.clang();
        if env::var_os("CURTAIL_CLANG").is_none() {
            let reason = missing.unwrap_err();
            assert!(reason.contains("install clang-4999 and lld-4999"), "{reason}");
            assert!(!reason.contains('\n'), "{reason}");
        }
        // Anything else that is called a compiler.
        let other = toolkit.check(Path::new("/bin/echo")).unwrap_err();
        assert!(other.contains("/bin/echo is of version -dumpversion"), "{other}");
        assert!(other.contains("install clang-4999") && !other.contains('\n'), "{other}");
    }
}

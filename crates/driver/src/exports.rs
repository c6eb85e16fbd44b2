//! What a shared object shares with the program that loads it: the thread's block, and the stub. A
//! version script, which rustc writes for every `cdylib`, would hide them: the object would then have a
//! block of its own, which nobody arms, and there is room for few of them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// The symbols that a program has for the objects that it loads.
pub(crate) const NAMES: &[&str] = &[
    "curtail_safepoint",
    "curtail_safepoint_slow",
    "curtail_safepoint_slow_sse",
    "curtail_pace_speeds",
];

/// A version script beside the one of a link: a file without a name, that goes with this process.
pub(crate) struct Script(File);

impl Script {
    /// For a link with these arguments; none where they have no version script.
    ///
    /// # Errors
    /// No temporary file can be made.
    pub(crate) fn for_link(arguments: &[String]) -> Result<Option<Self>, String> {
        let Some(theirs) = script_of(arguments) else { return Ok(None) };
        // The linker says what is wrong with theirs.
        let theirs = fs::read_to_string(theirs).unwrap_or_default();
        let path = std::env::temp_dir().join(format!("curtail-exports-{}", std::process::id()));
        let make = || {
            // Left behind by a process of the same number that was killed right here.
            let _ = fs::remove_file(&path);
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
            fs::remove_file(&path)?;
            file.write_all(text_for(&theirs).as_bytes())?;
            Ok(file)
        };
        make()
            .map(|file| Some(Self(file)))
            .map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }

    /// How the linker, a child of this process, finds it.
    pub(crate) fn argument(&self) -> String {
        format!("-Wl,--version-script=/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// The last version script in a command line.
fn script_of(arguments: &[String]) -> Option<&str> {
    let words = arguments.iter().flat_map(|word| match word.strip_prefix("-Wl,") {
        Some(linkers) => linkers.split(',').collect::<Vec<_>>(),
        None => vec![word.as_str()],
    });
    let words: Vec<&str> = words.filter(|word| *word != "-Xlinker").collect();
    (0..words.len()).rev().find_map(|at| {
        let rest = words[at].trim_start_matches('-').strip_prefix("version-script")?;
        match rest.strip_prefix('=') {
            Some(file) => Some(file),
            None => words.get(at + 1).copied().filter(|_| rest.is_empty()),
        }
    })
}

/// Versions with names and one without do not go together.
fn text_for(theirs: &str) -> String {
    let version = if theirs.trim_start().starts_with('{') { "" } else { "CURTAIL_1 " };
    format!("{version}{{ global: {}; }};\n", NAMES.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_links_version_script_is_found() {
        let found = |text: &str| {
            let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            script_of(&words).map(str::to_owned)
        };
        assert_eq!(
            found("-shared -Wl,--version-script=/t/list -o a.so").as_deref(),
            Some("/t/list")
        );
        assert_eq!(found("-Wl,--version-script,a -Wl,-z,now").as_deref(), Some("a"));
        assert_eq!(found("-Xlinker --version-script -Xlinker b c.o").as_deref(), Some("b"));
        assert_eq!(found("-shared a.o -o version-script.so"), None);
    }

    #[test]
    fn it_goes_with_theirs() {
        assert!(text_for("{\n global: f;\n}").starts_with("{ global: curtail_safepoint; "));
        assert!(text_for("LIB_1 { global: f; };").starts_with("CURTAIL_1 { global: "));
    }
}

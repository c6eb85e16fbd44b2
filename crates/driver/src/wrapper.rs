//! `cargo curtail` as cargo's `RUSTC_WRAPPER`: crates that are to be instrumented are compiled to
//! bitcode, for the pass in the link; all others as always.
//!
//! Cargo knows nothing of the pass's options. The wrapper therefore adds them, as an environment
//! variable, to what rustc says a linked artifact depends on: changed options mean a new link.

use crate::options::{Kind, Options};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Names the state of everything that the link depends on and cargo does not see.
pub const STAMP: &str = "CURTAIL_STAMP";
/// The linker that is ours.
pub const LINKER: &str = "CURTAIL_LINKER";
/// The wrapper that was there before, if any.
pub const INNER: &str = "CURTAIL_INNER_WRAPPER";

/// Is the package's `[package.metadata.curtail] instrument = false`?
fn opted_out(manifest: &str) -> bool {
    let mut within = false;
    for line in manifest.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        if line.starts_with('[') {
            within = line.replace(' ', "") == "[package.metadata.curtail]";
        } else if within
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "instrument"
            && value.trim() == "false"
        {
            return true;
        }
    }
    false
}

/// Build scripts and procedural macros are compiled for the host: without --target.
fn for_host(arguments: &[OsString]) -> bool {
    !arguments.iter().any(|argument| {
        argument == "--target" || argument.to_string_lossy().starts_with("--target=")
    })
}

fn instruments(arguments: &[OsString]) -> bool {
    if for_host(arguments) || env::var_os("CARGO_PKG_NAME").is_none() {
        return false;
    }
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(|dir| Path::new(&dir).join("Cargo.toml"));
    let text = manifest.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    !opted_out(&text)
}

/// The value of `--name value`, `--name=value`, `-C name=value` or `-Cname=value`.
fn value_of<'a>(arguments: &'a [OsString], name: &str) -> Option<&'a str> {
    let mut words = arguments.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let plain = word.strip_prefix("-C").or_else(|| word.strip_prefix("--codegen="));
        let plain = plain.unwrap_or(word);
        if word == name {
            return words.next();
        }
        if let Some(value) = plain.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value);
        }
    }
    None
}

/// The value that wins: of several, rustc takes the last one.
fn last_value_of<'a>(arguments: &'a [OsString], name: &str) -> Option<&'a str> {
    (0..arguments.len()).rev().find_map(|at| value_of(&arguments[at..], name))
}

/// What would link a program without safepoints, and say nothing of it.
fn by_pass(arguments: &[OsString], ours: &str) -> Result<(), String> {
    let advice = "take it out of RUSTFLAGS or .cargo/config.toml, as curtail-cc links here \
                  (--safepoint=none builds without)";
    if let Some(linker) = last_value_of(arguments, "linker").filter(|linker| *linker != ours) {
        return Err(format!("`-C linker={linker}` would leave out the safepoints: {advice}"));
    }
    match last_value_of(arguments, "linker-flavor") {
        None | Some("gcc" | "gnu-cc" | "gnu-lld-cc") => Ok(()),
        Some(flavor) => {
            Err(format!("`-C linker-flavor={flavor}` is none of curtail-cc's: {advice}"))
        }
    }
}

/// What is to be known of a library of which rustc makes an archive.
fn archive_note(arguments: &[OsString]) -> Option<String> {
    let name = value_of(arguments, "--crate-name")?;
    let is_one = |kinds: &str| kinds.split(',').any(|kind| kind == "staticlib");
    let at = |at: usize| value_of(&arguments[at..], "--crate-type");
    let made = !arguments.iter().any(|word| word == "--test")
        && (0..arguments.len()).filter_map(at).any(is_one);
    made.then(|| {
        format!(
            "lib{name}.a is bitcode until the link, which gives it its safepoints: link it by \
             curtail-cc or curtail-c++"
        )
    })
}

/// Whether rustc would write line tables by itself.
fn has_line_tables(arguments: &[OsString]) -> bool {
    let mut level = "0";
    let words = arguments.iter().filter_map(|word| word.to_str());
    for word in words {
        // `-C debuginfo=1` comes in one word or two.
        let setting = word.strip_prefix("-C").unwrap_or(word);
        match setting.strip_prefix("debuginfo=") {
            Some(value) => level = value,
            None if word == "-g" => level = "2",
            None => {}
        }
    }
    !matches!(level, "0" | "none" | "line-directives-only")
}

/// What an instrumented crate is compiled with.
fn extra(arguments: &[OsString]) -> Vec<&'static str> {
    // The pass speaks through the linker.
    let mut extra = vec!["-Clinker-plugin-lto", "-Wlinker-messages"];
    if !has_line_tables(arguments) {
        // By them the pass knows what was inlined of a function in the keep-out list. They do not get into
        // what is linked.
        extra.push("-Cdebuginfo=line-tables-only");
        if value_of(arguments, "strip").is_none() {
            extra.push("-Cstrip=debuginfo");
        }
    }
    extra
}

/// The dependency file of a crate that is linked in this step.
fn dependency_file(arguments: &[OsString]) -> Option<PathBuf> {
    let kind = value_of(arguments, "--crate-type").unwrap_or("bin");
    let test = arguments.iter().any(|argument| argument == "--test");
    if !test && !matches!(kind, "bin" | "cdylib" | "dylib") {
        return None;
    }
    let directory = value_of(arguments, "--out-dir")?;
    let name = value_of(arguments, "--crate-name")?;
    let extra = value_of(arguments, "extra-filename").unwrap_or("");
    Some(Path::new(directory).join(format!("{name}{extra}.d")))
}

fn note_dependency(file: &Path) -> std::io::Result<()> {
    let Some(stamp) = env::var(STAMP).ok().filter(|_| file.is_file()) else { return Ok(()) };
    let mut file = OpenOptions::new().append(true).open(file)?;
    writeln!(file, "\n# env-dep:{STAMP}={}", stamp.replace('\\', "\\\\").replace('\n', "\\n"))
}

/// Runs rustc: `arguments` begin with its path.
#[must_use]
pub fn main(rustc: &OsStr, arguments: &[OsString]) -> ExitCode {
    let mut command = match env::var_os(INNER).filter(|inner| !inner.is_empty()) {
        Some(inner) => {
            let mut command = Command::new(inner);
            command.arg(rustc);
            command
        }
        None => Command::new(rustc),
    };
    command.args(arguments);
    let kind = Options::from_environment().map(|options| options.kind);
    let without = kind == Ok(Kind::None);
    if instruments(arguments) {
        if let Ok(ours) = env::var(LINKER)
            && !without
            && let Err(reason) = by_pass(arguments, &ours)
        {
            return crate::fail("cargo curtail", &reason);
        }
        command.args(extra(arguments));
    } else if for_host(arguments) {
        // Cargo has one linker for both. rustc loads procedural macros, and there is room for few
        // safepoint blocks among the thread-local variables of what is loaded later.
        let plain = Options { kind: Kind::None, ..Options::default() };
        command.env("CURTAIL_OPTIONS", plain.to_environment());
    }
    let status = match command.status() {
        Ok(status) => status,
        Err(error) => {
            let reason = format!("{}: {error}", command.get_program().display());
            return crate::fail("cargo curtail", &reason);
        }
    };
    if status.success()
        && instruments(arguments)
        && let Some(note) = archive_note(arguments)
    {
        eprintln!("cargo curtail: {note}");
    }
    if status.success()
        && let Some(file) = dependency_file(arguments)
        && let Err(error) = note_dependency(&file)
    {
        return crate::fail("cargo curtail", &format!("{}: {error}", file.display()));
    }
    status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_table_opts_out() {
        let table = "[package.metadata.curtail]\n# why\ninstrument = false # yes\n";
        assert!(opted_out(table));
        assert!(opted_out(&format!("[package]\nname = \"x\"\n\n{table}[dependencies]\n")));
        assert!(!opted_out("[package.metadata.curtail]\ninstrument = true\n"));
        assert!(!opted_out("[package.metadata.other]\ninstrument = false\n"));
        assert!(!opted_out(""));
    }

    #[test]
    fn line_tables_are_added_where_there_are_none_and_stripped() {
        let of = |text: &str| {
            let words: Vec<_> = text.split(' ').map(OsString::from).collect();
            extra(&words)[2..].to_vec()
        };
        assert_eq!(of("-O"), ["-Cdebuginfo=line-tables-only", "-Cstrip=debuginfo"]);
        assert_eq!(of("-C strip=symbols"), ["-Cdebuginfo=line-tables-only"]);
        assert_eq!(of("-g -C debuginfo=0 -Cstrip=none"), ["-Cdebuginfo=line-tables-only"]);
        assert!(of("-C debuginfo=line-tables-only").is_empty());
        assert!(of("-Cdebuginfo=2").is_empty());
        assert!(of("-g").is_empty());
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn another_linker_is_refused_however_it_is_said() {
        let tried = |text: &str| by_pass(&words(text), "/o/curtail-cc");
        assert_eq!(tried("--crate-name a -C linker=/o/curtail-cc"), Ok(()));
        assert_eq!(tried("-C linker=cc -Clinker=/o/curtail-cc -Clinker-flavor=gcc"), Ok(()));
        for other in
            ["-Clinker=cc", "-C linker=clang", "--codegen linker=cc", "--codegen=linker=cc"]
        {
            let reason = tried(&format!("-C linker=/o/curtail-cc {other}")).unwrap_err();
            assert!(reason.contains("`-C linker=c") && !reason.contains('\n'), "{reason}");
        }
        assert!(tried("-C linker=/o/curtail-cc -C linker-flavor=ld.lld").is_err());
    }

    #[test]
    fn an_archive_needs_our_linker() {
        let note = |text: &str| archive_note(&words(text));
        let said = note("--crate-name a --crate-type lib --crate-type staticlib").unwrap();
        assert!(said.contains("liba.a") && said.contains("curtail-cc"), "{said}");
        assert!(note("--crate-name a --crate-type cdylib").is_none());
        assert!(note("--crate-name a --crate-type staticlib --test").is_none());
    }

    #[test]
    fn finds_the_dependency_file_of_what_is_linked() {
        let bin =
            "--crate-name app src/main.rs --crate-type bin -C extra-filename=-12 --out-dir /d";
        assert_eq!(dependency_file(&words(bin)), Some(PathBuf::from("/d/app-12.d")));
        let lib = "--crate-name app src/lib.rs --crate-type lib --out-dir /d";
        assert_eq!(dependency_file(&words(lib)), None);
        let test = "--crate-name app src/lib.rs --test --out-dir=/d -Cextra-filename=-3";
        assert_eq!(dependency_file(&words(test)), Some(PathBuf::from("/d/app-3.d")));
    }
}

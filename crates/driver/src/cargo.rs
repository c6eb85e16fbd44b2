//! `cargo curtail VERB …`: cargo, with our compilers, in a target directory of its own.

use crate::keep_out;
use crate::options::{Kind, Options};
use crate::report;
use crate::toolkit::Toolkit;
use crate::verbs::{self, Verb};
use crate::words::{TARGET, leave_out_target, profiles, string_field, target_directory};
use crate::wrapper;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// What `cargo curtail --help` prints.
pub const HELP: &str = "\
cargo curtail: cargo, with safepoints in what it builds

usage: cargo curtail new [--threads|--axum] NAME
       cargo curtail VERB [OPTIONS] [cargo's options …]

  new NAME            makes the directory NAME with a server that builds and runs;
                      --threads: one of threads; --axum: a web service with a pool
  VERB                any of cargo's, also those that you have installed: build, run, test,
                      bench, nextest, clippy, …; what it builds goes to target/curtail/
                      (check and clippy link nothing, so nothing gets safepoints)

  --safepoint=clock   safepoints time themselves (default); flag: a dispatcher with a core of its
                      own tells them; none: no safepoints
  --report FILE       what was instrumented, what was left out and why; FILE.txt sums it up
  --keep-out FILE     functions that get no safepoint, a name or pattern a line
  --bound N           the longest path without a safepoint, in instructions of LLVM
  -h, --help          this
  -V, --version       the version, of rustc and LLVM too";
const USAGE: &str = "usage: cargo curtail new|build|run|test|… (--help tells more)";

/// `main` of the cargo subcommand; `arguments` come after `cargo curtail`.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    let verb = verbs::position(&arguments);
    match arguments.first().map(String::as_str) {
        Some("--help" | "-h" | "help") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some("--version" | "-V") => {
            println!("{}", version());
            return ExitCode::SUCCESS;
        }
        Some("new") => {
            return match crate::new::run(&arguments[1..]) {
                Ok(said) => {
                    println!("{said}");
                    ExitCode::SUCCESS
                }
                Err(reason) => crate::fail("cargo curtail new", &reason),
            };
        }
        _ => {}
    }
    let Some(word) = verb.and_then(|at| arguments.get(at)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if words_ask_for_help(&arguments) {
        println!("{HELP}\n\nOptions of cargo: cargo help {word}");
        return ExitCode::SUCCESS;
    }
    match Verb::of(word) {
        Err(reason) => {
            eprintln!("cargo curtail: {reason}");
            ExitCode::from(2)
        }
        Ok(verb) => {
            run(verb, arguments).unwrap_or_else(|reason| crate::fail("cargo curtail", &reason))
        }
    }
}

fn run(verb: Verb, arguments: Vec<String>) -> Result<ExitCode, String> {
    if verb == Verb::Plain {
        return finish(verbs::cargo().args(arguments).status());
    }
    let mut options = Options::from_environment()?;
    // What follows `--` belongs to the program.
    let split = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let mut ours = arguments;
    let theirs = ours.split_off(split);
    let mut words = options.take(ours)?;
    let toolkit = Toolkit::find()?;
    check_majors(&toolkit)?;
    // Said here, in one line: otherwise each link says so, in cargo's report of its failure.
    let clang = toolkit.clang()?;
    toolkit.check(&clang)?;
    toolkit.lld(&clang)?;
    leave_out_target(&mut words)?;
    if let Some(file) = &options.report {
        // Links append; this build begins anew.
        report::begin(file)?;
    }
    let listing = words
        .iter()
        .any(|word| word == "--message-format" || word.starts_with("--message-format="));
    let at = verbs::position(&words).unwrap_or(0);
    let list = matches!(words[at].as_str(), "build" | "b") && !listing;
    let directory = target_directory(&mut words, options.kind)?;
    let mut command = command(verb, words, theirs, &directory, list);
    set_environment(&mut command, &toolkit, &options, &directory)?;
    let mut child = command.spawn().map_err(|error| format!("cargo: {error}"))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(path) = executable_of(&line) {
                println!("{path}");
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cargo: {error}"))?;
    let linked = options.report.as_deref().map_or(Ok(true), report::end)?;
    if status.success() && options.kind != Kind::None && !linked {
        eprintln!(
            "cargo curtail: everything was linked before, so there is nothing to report; the \
             report is still that of the build before"
        );
    }
    finish(Ok(status))
}

/// Our status is cargo's.
fn finish(status: std::io::Result<ExitStatus>) -> Result<ExitCode, String> {
    let status = status.map_err(|error| format!("cargo: {error}"))?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}

/// Cargo, told of the target and its directory. `list`: it is to list what it builds.
fn command(
    verb: Verb,
    mut words: Vec<String>,
    theirs: Vec<String>,
    directory: &Path,
    list: bool,
) -> Command {
    let mut command = verbs::cargo();
    let at = verbs::position(&words).unwrap_or(0);
    // `nextest run` is two words.
    let verbs = if words[at] == "nextest" { words.len().min(at + 2) } else { at + 1 };
    let rest = words.split_off(verbs);
    let profiles = profiles(&words[at], &rest);
    command.args(words);
    match verb {
        Verb::Builds => {
            command.args(["--target", TARGET]).arg("--target-dir").arg(directory);
            let lto =
                |profile: &String| ["--config".into(), format!("profile.{profile}.lto=\"off\"")];
            command.args(profiles.iter().flat_map(lto));
            documentation_tests(&mut command);
        }
        Verb::Cleans => {
            command.arg("--target-dir").arg(directory);
        }
        Verb::Plain | Verb::Foreign => {
            command.env("CARGO_BUILD_TARGET", TARGET).env("CARGO_TARGET_DIR", directory);
            for profile in profiles {
                let name = profile.to_uppercase().replace('-', "_");
                command.env(format!("CARGO_PROFILE_{name}_LTO"), "off");
            }
        }
    }
    if list {
        command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    }
    command.args(rest).args(theirs);
    command
}

/// What rustdoc compiles of the documentation's examples is for the pass, too. Nothing of ours runs
/// there, so this is by its flags.
fn documentation_tests(command: &mut Command) {
    const FLAG: &str = "-Clinker-plugin-lto";
    let encoded = env::var("CARGO_ENCODED_RUSTDOCFLAGS").ok().filter(|flags| !flags.is_empty());
    let flags = env::var("RUSTDOCFLAGS").ok().filter(|flags| !flags.trim().is_empty());
    match (encoded, flags) {
        (Some(flags), _) => {
            command.env("CARGO_ENCODED_RUSTDOCFLAGS", format!("{flags}\u{1f}{FLAG}"));
        }
        (None, Some(flags)) => {
            command.env("RUSTDOCFLAGS", format!("{flags} {FLAG}"));
        }
        (None, None) => {
            command.arg("--config").arg(format!("build.rustdocflags=[\"{FLAG}\"]"));
        }
    }
}

/// Before what belongs to the program.
fn words_ask_for_help(arguments: &[String]) -> bool {
    let mut ours = arguments.iter().take_while(|word| *word != "--");
    ours.any(|word| word == "--help" || word == "-h")
}

/// Ours, and of what it works with: what a report of a problem should have.
fn version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(&rustc).arg("-vV").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_else(|error| format!("{}: {error}", rustc.display()));
    let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    let pass = match Toolkit::find() {
        Ok(toolkit) => format!("the pass for LLVM {}", toolkit.major),
        Err(reason) => format!("no pass ({reason})"),
    };
    format!(
        "cargo-curtail {} ({}; {} with LLVM {})",
        env!("CARGO_PKG_VERSION"),
        pass,
        said.lines().next().unwrap_or("no rustc"),
        field("LLVM version: ").unwrap_or("unknown")
    )
}

/// The linker reads bitcode that rustc wrote: it must not be the older one.
fn check_majors(toolkit: &Toolkit) -> Result<(), String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).arg("-vV").output();
    let output = output.map_err(|error| format!("{}: {error}", rustc.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let major: Option<u32> = text
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))
        .and_then(|version| version.split('.').next()?.parse().ok());
    let ours = toolkit.major;
    match major {
        Some(major) if major <= ours => Ok(()),
        Some(major) if toolkit.layout.crates.is_some() => Err(format!(
            "rustc uses LLVM {major}, this package was made for {ours}: use a Rust whose rustc -vV \
             names LLVM {ours}, or a package of Curtail made for {major}"
        )),
        Some(major) => Err(format!(
            "rustc uses LLVM {major}, the pass was built for {ours}: install llvm-{major}-dev, \
             clang-{major} and lld-{major}, then run pass/build.sh"
        )),
        None => Err("rustc -vV names no LLVM version".into()),
    }
}

fn set_environment(
    command: &mut Command,
    toolkit: &Toolkit,
    options: &Options,
    directory: &Path,
) -> Result<(), String> {
    let [cc, cxx] = compilers(toolkit, options, directory)?;
    let own = env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    if let Some(inner) = env::var_os("RUSTC_WRAPPER") {
        command.env(wrapper::INNER, inner);
    }
    command
        .env("RUSTC_WRAPPER", own)
        .env("CURTAIL_WRAPPER", "1")
        .env(wrapper::LINKER, &cc)
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", &cc)
        .env("CC_x86_64_unknown_linux_gnu", &cc)
        .env("CXX_x86_64_unknown_linux_gnu", &cxx)
        // Whatever cargo's build scripts compile ends in our link: no need for machine code.
        .env("CURTAIL_OBJECTS", "thin")
        .env("CURTAIL_OPTIONS", options.to_environment())
        .env(wrapper::STAMP, stamp(toolkit, options)?);
    Ok(())
}

/// The C and C++ compilers. Build scripts that compile C run again when these paths change, and for
/// nothing else of ours; C code is inlined when it is compiled. So each keep-out list has its own.
fn compilers(
    toolkit: &Toolkit,
    options: &Options,
    directory: &Path,
) -> Result<[PathBuf; 2], String> {
    let tools = ["curtail-cc", "curtail-c++"].map(|name| toolkit.layout.tools.join(name));
    if let Some(missing) = tools.iter().find(|tool| !tool.exists()) {
        return Err(format!("no {}: run pass/build.sh", missing.display()));
    }
    let Some(list) = &options.keep_out else { return Ok(tools) };
    let own = directory.join(format!("keep-out-{:016x}", keep_out::fingerprint(list)?));
    let own = std::path::absolute(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let failed = |error: std::io::Error| format!("{}: {error}", own.display());
    fs::create_dir_all(&own).map_err(failed)?;
    for tool in &tools {
        let link = own.join(tool.file_name().unwrap_or_default());
        if fs::read_link(&link).ok().as_ref() != Some(tool) {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(tool, &link).map_err(failed)?;
        }
    }
    Ok(["curtail-cc", "curtail-c++"].map(|name| own.join(name)))
}

fn stamp(toolkit: &Toolkit, options: &Options) -> Result<String, String> {
    let age = |file: &Path| {
        let modified = fs::metadata(file).and_then(|data| data.modified()).ok();
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_nanos())
    };
    let keep_out = options.keep_out.as_deref().map_or(Ok(0), keep_out::fingerprint)?;
    Ok(format!(
        "{} {} {} {keep_out:x}",
        options.to_environment().replace('\u{1f}', " "),
        age(&toolkit.pass),
        age(&toolkit.safepoint)
    ))
}

/// The program that a line of cargo's JSON tells of.
fn executable_of(line: &str) -> Option<String> {
    line.contains("\"reason\":\"compiler-artifact\"").then(|| string_field(line, "executable"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cargos_messages() {
        let line = r#"{"reason":"compiler-artifact","fresh":true,"executable":"/a \"b\"/c"}"#;
        assert_eq!(executable_of(line).as_deref(), Some("/a \"b\"/c"));
        assert_eq!(executable_of(r#"{"reason":"compiler-artifact","executable":null}"#), None);
        assert_eq!(executable_of(r#"{"reason":"build-finished","executable":"x"}"#), None);
    }
}

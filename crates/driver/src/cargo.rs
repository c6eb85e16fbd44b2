//! `cargo curtail build|run|test|bench …`: cargo, with our compilers, in a target directory of its
//! own.

use crate::keep_out;
use crate::options::{Kind, Options};
use crate::report;
use crate::toolkit::Toolkit;
use crate::wrapper;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const HELP: &str = "\
cargo curtail: cargo, with safepoints in what it builds

usage: cargo curtail new NAME
       cargo curtail build|run|test|nextest|bench|check [OPTIONS] [cargo's options …]

  new NAME            makes the directory NAME with a server that builds and runs
  build, run, test, nextest, bench
                      as of cargo; the output goes to target/curtail/
  check               as of cargo: nothing is linked, so nothing gets safepoints

  --safepoint=clock   safepoints time themselves (default); flag: a dispatcher with a core of its
                      own tells them; none: no safepoints
  --report FILE       what was instrumented, what was left out and why; FILE.txt sums it up
  --keep-out FILE     functions that get no safepoint, a name or pattern a line
  --bound N           the longest path without a safepoint, in instructions of LLVM
  -h, --help          this
  -V, --version       the version, of rustc and LLVM too";
const USAGE: &str =
    "usage: cargo curtail new|build|run|test|nextest|bench|check … (--help tells more)";

/// `main` of the cargo subcommand; `arguments` come after `cargo curtail`.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    let verb = arguments.first().map(String::as_str);
    match verb {
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
        Some(word) if words_ask_for_help(&arguments) => {
            println!("{HELP}\n\nOptions of cargo: cargo help {word}");
            return ExitCode::SUCCESS;
        }
        Some(
            "build" | "b" | "run" | "r" | "test" | "t" | "nextest" | "bench" | "check" | "c"
            | "rustc",
        ) => {}
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    match run(arguments) {
        Ok(code) => code,
        Err(reason) => crate::fail("cargo curtail", &reason),
    }
}

fn run(arguments: Vec<String>) -> Result<ExitCode, String> {
    let mut options = Options::from_environment()?;
    // What follows `--` belongs to the program.
    let split = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let mut ours = arguments;
    let theirs = ours.split_off(split);
    let mut words = options.take(ours)?;
    let toolkit = Toolkit::find()?;
    check_majors(&toolkit)?;
    if words.iter().any(|word| word == "--target" || word.starts_with("--target=")) {
        return Err(format!("--target is not for you to choose: it is {TARGET}"));
    }
    if let Some(file) = &options.report {
        // Links append; this build begins anew.
        report::begin(file)?;
    }
    let listing = words
        .iter()
        .any(|word| word == "--message-format" || word.starts_with("--message-format="));
    let list = matches!(words[0].as_str(), "build" | "b") && !listing;
    let directory = target_directory(&mut words, options.kind)?;

    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // `nextest run` is two words.
    let verbs = if words[0] == "nextest" { words.len().min(2) } else { 1 };
    command.args(&words[..verbs]).args(["--target", TARGET]).arg("--target-dir").arg(&directory);
    if list {
        command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    }
    command.args(profile_settings(&words)).args(&words[verbs..]).args(theirs);
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
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
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
        Some(major) => Err(format!(
            "rustc uses LLVM {major}, the pass was built for {ours}: install llvm-{major}-dev, \
             clang-{major} and lld-{major}, then run pass/build.sh"
        )),
        None => Err("rustc -vV names no LLVM version".into()),
    }
}

/// Our own directory, below the one that cargo would use: the wrapper is not in cargo's
/// fingerprints.
fn target_directory(words: &mut Vec<String>, kind: Kind) -> Result<PathBuf, String> {
    if let Some(at) = words.iter().position(|word| word == "--target-dir") {
        if at + 1 >= words.len() {
            return Err("--target-dir wants a value".into());
        }
        let value = words.remove(at + 1);
        words.remove(at);
        return Ok(PathBuf::from(value));
    }
    if let Some(at) = words.iter().position(|word| word.starts_with("--target-dir=")) {
        return Ok(PathBuf::from(&words.remove(at)["--target-dir=".len()..]));
    }
    let manifest = words.iter().position(|word| word == "--manifest-path").map(|at| at + 1);
    let manifest = manifest.and_then(|at| words.get(at)).cloned().or_else(|| {
        let inline = words.iter().find_map(|word| word.strip_prefix("--manifest-path="));
        inline.map(str::to_owned)
    });
    let name = if kind == Kind::None { "curtail-none" } else { "curtail" };
    Ok(cargo_target(manifest.as_deref())?.join(name))
}

fn cargo_target(manifest: Option<&str>) -> Result<PathBuf, String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--no-deps", "--format-version=1"]);
    command.args(manifest.iter().flat_map(|path| ["--manifest-path", path]));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    string_field(&text, "target_directory")
        .map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target directory".into())
}

/// Link-time optimisation is the linker's business here: cargo's own would pull in the standard
/// library's bitcode, or fight with it.
fn profile_settings(words: &[String]) -> Vec<String> {
    // nextest has profiles of its own by that name.
    let option = if words.first().is_some_and(|verb| verb == "nextest") {
        "--cargo-profile"
    } else {
        "--profile"
    };
    let named = words.iter().position(|word| word == option).and_then(|at| words.get(at + 1));
    let inline = words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
    let mut profiles = vec!["dev", "release", "test", "bench"];
    profiles.extend(named.map(String::as_str).or(inline));
    profiles.sort_unstable();
    profiles.dedup();
    profiles
        .iter()
        .flat_map(|profile| ["--config".to_owned(), format!("profile.{profile}.lto=\"off\"")])
        .collect()
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
    let tools = ["curtail-cc", "curtail-c++"].map(|name| toolkit.home.join(name));
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

/// A string field of JSON text that cargo wrote (compact, and the name occurs as a key only).
fn string_field(text: &str, name: &str) -> Option<String> {
    let key = format!("\"{name}\":\"");
    let mut rest = text[text.find(&key)? + key.len()..].chars();
    let mut value = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(value),
            '\\' => match rest.next()? {
                'u' => {
                    let digits: String = rest.by_ref().take(4).collect();
                    value.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
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

    #[test]
    fn named_profiles_are_told_too() {
        let words = ["build", "--profile", "fast"].map(str::to_owned);
        let off = "profile.fast.lto=\"off\"".to_owned();
        assert!(profile_settings(&words).contains(&off));
        let words = ["nextest", "run", "--profile", "all", "--cargo-profile=fast"];
        let settings = profile_settings(&words.map(str::to_owned));
        assert!(settings.contains(&off) && !settings.iter().any(|it| it.contains("all")));
    }

    #[test]
    fn takes_the_target_directory_it_is_given() {
        let mut words = ["build", "--target-dir", "/t", "-q"].map(str::to_owned).to_vec();
        assert_eq!(target_directory(&mut words, Kind::Clock), Ok(PathBuf::from("/t")));
        assert_eq!(words, ["build", "-q"]);
    }
}

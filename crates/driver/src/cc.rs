//! `curtail-cc` and `curtail-c++`: clang's command line, with safepoints.

use crate::exports::{self, Script};
use crate::options::{Kind, Options};
use crate::pthreads;
use crate::report::Part;
use crate::toolkit::Toolkit;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Options whose value is the next argument, and so no input file.
const TAKES_VALUE: &[&str] = &[
    "-o",
    "-I",
    "-D",
    "-U",
    "-L",
    "-F",
    "-x",
    "-T",
    "-u",
    "-z",
    "-e",
    "-B",
    "-A",
    "-G",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-include",
    "-imacros",
    "-isystem",
    "-idirafter",
    "-iquote",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-Xlinker",
    "-Xclang",
    "-Xassembler",
    "-Xpreprocessor",
    "-mllvm",
    "-target",
    "--target",
    "-arch",
    "--param",
    "--sysroot",
    "-framework",
    "-rpath",
    "-l",
    "-dumpdir",
    "--config",
];

/// What a command line asks the compiler for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Compiles something (and the compiler is to see the pass).
    pub compiles: bool,
    /// Ends in a link.
    pub links: bool,
    /// Links a shared object.
    pub shared: bool,
    /// Links a relocatable object.
    pub relocatable: bool,
    /// Links without the C library and start files.
    pub bare: bool,
    /// Links without a dynamic linker.
    pub fixed: bool,
    /// At -O0.
    pub unoptimised: bool,
}

impl Job {
    /// Reads a command line as clang would.
    #[must_use]
    pub fn of(arguments: &[String]) -> Self {
        let mut job = Self { compiles: true, links: true, ..Self::default() };
        let mut inputs = false;
        let mut words = arguments.iter().map(String::as_str);
        // Without -O, clang does not optimise; a link without -O does.
        while let Some(word) = words.next() {
            match word {
                "-c" | "-S" => job.links = false,
                "-E" | "-M" | "-MM" | "-fsyntax-only" | "--version" | "-dumpversion"
                | "-dumpmachine" | "--help" | "-emit-llvm" | "--precompile" | "-emit-ast"
                | "--analyze" => {
                    job.links = false;
                    job.compiles = false;
                }
                "-shared" | "--shared" => job.shared = true,
                "-r" => job.relocatable = true,
                "-nostdlib" => job.bare = true,
                "-static" | "--static" | "-static-pie" => job.fixed = true,
                "-O0" => job.unoptimised = true,
                "-" => inputs = true,
                _ if word.starts_with("-print-") || word.starts_with("--print-") => {
                    job.links = false;
                    job.compiles = false;
                }
                _ if word.starts_with("-O") => job.unoptimised = false,
                // How rustc says it.
                _ if word.contains("plugin-opt=O") => job.unoptimised = word.contains("=O0"),
                _ if TAKES_VALUE.contains(&word) => {
                    words.next();
                }
                _ if !word.starts_with('-') => inputs = true,
                _ => {}
            }
        }
        job.links &= inputs;
        job.compiles &= inputs;
        job
    }
}

/// Which LTO. Callers that see into a callee account for it; of one in another module they must assume
/// the worst, and so all C and C++ of a link is one module. Crates come as ThinLTO's, and what is
/// compiled for them does too.
fn lto(with_crates: bool) -> String {
    format!("-flto={}", if with_crates { "thin" } else { "full" })
}

/// The arguments to add for compiling. `fat`: machine code beside the bitcode.
fn compile_arguments(toolkit: &Toolkit, with_crates: bool, fat: bool) -> Vec<String> {
    // A request's stack has neighbours: a frame larger than the guard between them must meet it.
    let mut arguments = vec![lto(with_crates), "-fstack-clash-protection".to_owned()];
    if fat {
        arguments.push("-ffat-lto-objects".to_owned());
    }
    arguments.push(format!("-fpass-plugin={}", toolkit.pass.display()));
    arguments
}

/// The arguments to add for a link.
fn link_arguments(
    toolkit: &Toolkit,
    lld: &str,
    options: &Options,
    job: &Job,
    with_crates: bool,
) -> (Vec<String>, Vec<String>) {
    let front = vec![lto(with_crates), "-fuse-ld=lld".into(), format!("--ld-path={lld}")];
    let mut back: Vec<String> = vec!["-Wl,--fat-lto-objects".into()];
    if job.unoptimised {
        // At -O0 the link's pipeline is empty, and the pass would not run.
        back.extend(["-Wl,--lto-O1".into(), "-Wl,--lto-CGO0".into()]);
    }
    if options.kind == Kind::None {
        return (front, back);
    }
    back.push(format!("-Wl,--load-pass-plugin={}", toolkit.pass.display()));
    if job.relocatable {
        return (front, back);
    }
    // Code generation is the first to name some of these.
    let mut roots = vec!["curtail_safepoint_slow", "curtail_safepoint_abi_1", "curtail_memcpy"];
    if !job.shared {
        roots.push(match options.kind {
            Kind::Flag => "curtail_kind_flag",
            _ => "curtail_kind_clock",
        });
        if !job.bare {
            roots.extend(["curtail_timing_start", "curtail_batch_start"]);
        }
        // Shared objects that are loaded later find the program's block and stub, not their own. A
        // program without a dynamic linker loads none.
        let exported = if job.fixed { &[] } else { exports::NAMES };
        let export = |name: &&str| format!("-Wl,--export-dynamic-symbol={name}");
        back.extend(exported.iter().map(export));
    }
    // The runtime for C needs it, where it is linked; C++ has it anyway. One that is shared would make
    // a program without a dynamic linker ask for one.
    let how = if job.fixed { "-Bstatic" } else { "--as-needed" };
    back.extend([format!("-Wl,--push-state,{how}"), "-lm".into(), "-Wl,--pop-state".into()]);
    back.extend(roots.iter().map(|root| format!("-Wl,-u,{root}")));
    back.push(toolkit.safepoint.display().to_string());
    (front, back)
}

/// Wraps what a step may not need, so that clang does not warn of it.
fn unwarned(arguments: Vec<String>) -> impl Iterator<Item = String> {
    let some = !arguments.is_empty();
    let bracket = |text: &str| some.then(|| text.to_owned());
    let (open, close) =
        (bracket("--start-no-unused-arguments"), bracket("--end-no-unused-arguments"));
    open.into_iter().chain(arguments).chain(close)
}

/// What a link makes.
fn output_of(arguments: &[String]) -> String {
    let mut output = "a.out";
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "-o" {
            output = words.next().unwrap_or(output);
        } else if TAKES_VALUE.contains(&word) {
            words.next();
        } else if let Some(name) = word.strip_prefix("-o") {
            output = name;
        }
    }
    output.to_owned()
}

/// The whole command: clang, its arguments, and the pass's environment; and what it needs until it ends.
///
/// # Errors
/// A bad option, or a part that is missing.
pub fn command(cxx: bool, arguments: Vec<String>) -> Result<(Command, Held), String> {
    let mut options = Options::from_environment()?;
    let mut rest = options.take(arguments)?;
    let toolkit = Toolkit::find()?;
    let pthreads = pthreads::take(&mut rest);
    if pthreads {
        // The library that runs the threads has a block of its own: safepoints would not find it.
        options.kind = Kind::None;
    }
    let clang = toolkit.clang()?;
    let job = Job::of(&rest);
    let with_crates = std::env::var_os("CURTAIL_OBJECTS") == Some(OsString::from("thin"));
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let mut script = None;
    if job.links {
        let lld = toolkit.lld(&clang)?;
        let other = rest.iter().find(|word| word.starts_with("--ld-path="));
        if let Some(other) = other.filter(|_| options.kind != Kind::None) {
            let lld = lld.display();
            return Err(format!("{other} would leave out the safepoints: they come by {lld}"));
        }
        let lld = lld.to_string_lossy();
        (front, back) = link_arguments(&toolkit, &lld, &options, &job, with_crates);
    }
    if pthreads && job.links && !job.relocatable && !job.shared {
        back.extend(pthreads::arguments(&toolkit)?);
    }
    if job.compiles && options.kind != Kind::None {
        // Objects that only this command sees need no machine code.
        let mut compile = compile_arguments(&toolkit, with_crates, !with_crates && !job.links);
        // What -MD writes for make and ninja: the list is read, too.
        let list = options.keep_out.as_ref();
        let entry = list.map(|list| format!("-fdepfile-entry={}", list.display()));
        compile.extend(entry.into_iter().flat_map(|entry| ["-Xclang".to_owned(), entry]));
        front = compile.into_iter().chain(front).collect();
    }
    if job.links && job.shared && options.kind != Kind::None {
        script = Script::for_link(&rest)?;
        back.extend(script.iter().map(Script::argument));
    }
    let mut part = None;
    if let Some(report) = options.report.take_if(|_| job.links && options.kind != Kind::None) {
        let own = Part::new(report, output_of(&rest))?;
        options.report = Some(own.path());
        part = Some(own);
    }
    let tls = match (job.links, job.shared, job.relocatable) {
        (true, false, false) => "local",
        (true, true, false) => "initial",
        _ => "auto",
    };
    if !with_crates {
        front.extend(toolkit.layout.for_headers());
        back.extend(toolkit.layout.for_libraries().filter(|_| job.links));
    }
    let mut command = Command::new(clang);
    if cxx {
        command.arg("--driver-mode=g++");
    }
    command.args(unwarned(front)).args(rest).args(unwarned(back));
    command.env("CURTAIL_PASS", options.for_pass(tls)?);
    Ok((command, Held { part, script }))
}

/// What a link needs until it ends; without any of it, it need not be waited for.
pub struct Held {
    part: Option<Part>,
    script: Option<Script>,
}

impl Held {
    fn run(self, program: &str, mut command: Command) -> ExitCode {
        let failed = |reason: String| crate::fail(program, &reason);
        if let Some(part) = self.part {
            return part.run(command).unwrap_or_else(failed);
        }
        let name = command.get_program().display().to_string();
        if self.script.is_none() {
            return failed(format!("{name}: {}", command.exec()));
        }
        match command.status() {
            Ok(status) => status.code().map_or(ExitCode::FAILURE, |code| (code as u8).into()),
            Err(error) => failed(format!("{name}: {error}")),
        }
    }
}

/// What a driver of that name prints for `--help`.
pub fn help(program: &str) -> String {
    let clang = if program.ends_with("++") { "clang++" } else { "clang" };
    format!(
        "\
{program}: {clang}, with safepoints in what it compiles and links

usage: {program} [OPTIONS] [{clang}'s options …] FILE …

  --safepoint=clock   safepoints time themselves (default); flag: a dispatcher with a core of its
                      own tells them; none: no safepoints
  --report FILE       what was instrumented, what was left out and why; of a link, FILE.txt sums
                      it up
  --keep-out FILE     functions that get no safepoint, a name or pattern a line
  --bound N           the longest path without a safepoint, in instructions of LLVM
  --help              this

All else is {clang}'s ({clang} --help). Link by {program}, too: that is when safepoints are placed
with all of the program in view. A server of C also links -lcurtail_c, which is found by itself, as
curtail.h is."
    )
}

/// `main` of both drivers; which of them is asked for says the name it was called by.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = Vec::new();
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let cxx = name.to_string_lossy().ends_with("++");
    let program = if cxx { "curtail-c++" } else { "curtail-cc" };
    let words: Vec<_> = words.collect();
    if words.iter().any(|word| word == "--help") {
        println!("{}", help(program));
        return ExitCode::SUCCESS;
    }
    for word in words {
        match word.into_string() {
            Ok(word) => arguments.push(word),
            Err(word) => {
                return crate::fail(program, &format!("{} is not UTF-8", word.display()));
            }
        }
    }
    match command(cxx, arguments) {
        Ok((command, held)) => held.run(program, command),
        Err(reason) => crate::fail(program, &reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Job {
        Job::of(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn compiling_is_not_linking() {
        assert!(job("-O2 -c a.c -o a.o") == Job { compiles: true, ..Job::default() });
        assert!(job("-S a.c") == Job { compiles: true, ..Job::default() });
        assert!(job("-E a.c") == Job::default());
    }

    #[test]
    fn help_is_ours_and_tells_all_of_our_options() {
        for (program, clang) in [("curtail-cc", "clang's"), ("curtail-c++", "clang++'s")] {
            let text = help(program);
            for part in [program, clang, "--safepoint", "--report", "--keep-out", "--bound"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn queries_are_neither() {
        for text in ["--version", "-v", "-print-search-dirs", "-dumpmachine", "-o x -I y"] {
            assert_eq!(job(text), Job::default(), "{text}");
        }
    }

    #[test]
    fn the_output_is_known() {
        let output =
            |text: &str| output_of(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(output("a.o -o b/c -O2"), "b/c");
        assert_eq!(output("-I -o a.o -oc"), "c");
        assert_eq!(output("a.o"), "a.out");
    }

    #[test]
    fn links_are_told_apart() {
        assert!(job("a.o -o a").links);
        assert!(job("-shared a.o -o a.so").shared);
        assert!(job("-static-pie a.o").fixed && job("-static a.o").fixed && !job("a.o").fixed);
        assert!(job("-nostdlib -r a.o -o b.o").relocatable);
        assert!(job("a.o -Wl,-plugin-opt=O0,-plugin-opt=mcpu=x86-64").unoptimised);
        assert!(!job("a.o -O0 -O2").unoptimised);
    }
}

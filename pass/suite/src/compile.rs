//! Builds the programs, once for each kind of safepoint, with the drivers that users have.
//!
//! C and C++ are compiled anew every time, as many at once as there are cores; Rust is left to
//! cargo. The kind `none` goes through the same drivers, and so through the same compilers, options
//! and kind of link.

use crate::catalogue::{Language, Program};
use crate::options::Kind;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A program, built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The executable.
    pub path: PathBuf,
    /// How many safepoints it has, by the pass's report.
    pub safepoints: u64,
}

/// Where the drivers are, and where builds go.
#[derive(Clone, Debug)]
pub struct Shop {
    /// The directory with `curtail-cc`, `curtail-c++` and `cargo-curtail`.
    pub tools: PathBuf,
    /// The directory for what is built.
    pub out: PathBuf,
}

impl Shop {
    /// Does the driver know that kind?
    ///
    /// # Errors
    /// What it says, if it refuses, or if it is not there.
    pub fn accepts(&self, kind: Kind) -> Result<(), String> {
        let option = format!("--safepoint={}", kind.name());
        run(self.driver("curtail-cc").args([&option, "--version"])).map(|_| ())
    }

    /// Builds `program` with that kind of safepoints, in that layout (0: the usual one).
    ///
    /// # Errors
    /// What the compiler says.
    pub fn build(&self, program: &Program, kind: Kind, layout: u32) -> Result<Built, String> {
        let mut directory = self.out.join(kind.name());
        if layout > 0 {
            directory = self.out.join(format!("{}-{layout}", kind.name()));
        }
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let report = directory.join(format!("{}.report", program.name));
        let built = match program.language {
            Language::Rust => self.cargo(program, kind, layout, &directory, &report),
            Language::C | Language::Cpp => self.compile(program, kind, layout, &directory, &report),
        };
        let (path, text) = built.map_err(|e| format!("{} ({}): {e}", program.name, kind.name()))?;
        Ok(Built { path, safepoints: safepoints(&text)? })
    }

    fn driver(&self, name: &str) -> Command {
        let mut command = Command::new(self.tools.join(name));
        command.env("CURTAIL_HOME", &self.tools);
        command
    }

    fn compile(
        &self,
        program: &Program,
        kind: Kind,
        layout: u32,
        directory: &Path,
        report: &Path,
    ) -> Result<(PathBuf, String), String> {
        let path = directory.join(&program.name);
        // The driver appends.
        let _ = fs::remove_file(report);
        let (driver, standard) = match program.language {
            Language::C => ("curtail-cc", "-std=gnu11"),
            _ => ("curtail-c++", "-std=c++20"),
        };
        let mut command = self.driver(driver);
        command.args([format!("--safepoint={}", kind.name()), standard.to_owned()]);
        command.arg("--report").arg(report).args(&program.flags);
        command.args(program.includes.iter().flat_map(|path| [Path::new("-I"), path]));
        command.args(&program.sources).args(arranged(layout));
        run(command.arg("-o").arg(&path).arg("-lm"))?;
        Ok((path, fs::read_to_string(report).unwrap_or_default()))
    }

    /// One binary at a time, so that each has a report of its own.
    fn cargo(
        &self,
        program: &Program,
        kind: Kind,
        layout: u32,
        directory: &Path,
        report: &Path,
    ) -> Result<(PathBuf, String), String> {
        let fresh = report.with_extension("new");
        let manifest = program.sources[0].parent().map(|bin| bin.join("../../Cargo.toml"));
        let mut command = self.driver("cargo-curtail");
        let flags = arranged(layout)
            .iter()
            .map(|option| format!("-Clink-arg={option}"))
            .collect::<Vec<_>>();
        if !flags.is_empty() {
            command.env("RUSTFLAGS", flags.join(" "));
        }
        command.args(["curtail", "build", "--quiet", "--release"]);
        command.arg(format!("--safepoint={}", kind.name()));
        command.arg("--report").arg(&fresh).arg("--target-dir").arg(directory.join("cargo"));
        command.arg("--manifest-path").arg(manifest.unwrap_or_default());
        let told = run(command.args(["--bin", &program.name]))?;
        let path = told.lines().map(PathBuf::from).find(|path| path.ends_with(&program.name));
        let path = path.ok_or_else(|| format!("cargo curtail told of no program: {told}"))?;
        // A build that was up to date reports nothing: the report of its day holds.
        let text = fs::read_to_string(&fresh).unwrap_or_default();
        if text.is_empty() {
            return Ok((path, fs::read_to_string(report).unwrap_or_default()));
        }
        fs::rename(&fresh, report).map_err(|e| format!("{}: {e}", report.display()))?;
        Ok((path, text))
    }
}

/// What makes the link lay code out otherwise: functions in another order, loops that begin elsewhere.
fn arranged(layout: u32) -> Vec<String> {
    if layout == 0 {
        return Vec::new();
    }
    vec![
        format!("-Wl,--shuffle-sections=.text*={layout}"),
        format!("-Wl,-mllvm,-align-loops={}", 16 << (layout % 3)),
    ]
}

/// Builds everything: for each program its kinds in order, and of each its layouts.
///
/// # Errors
/// The first compiler that failed.
pub fn build_all(
    shop: &Shop,
    programs: &[Program],
    kinds: &[Kind],
    layouts: u32,
) -> Result<Vec<Vec<Vec<Built>>>, String> {
    let of = |p| kinds.iter().flat_map(move |kind| (0..layouts).map(move |at| (p, *kind, at)));
    let jobs: Vec<(&Program, Kind, u32)> = programs.iter().flat_map(of).collect();
    let next = Mutex::new(0usize);
    let results = Mutex::new(vec![None; jobs.len()]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let at = {
                        let mut next = next.lock().unwrap_or_else(|e| e.into_inner());
                        *next += 1;
                        *next - 1
                    };
                    let Some((program, kind, layout)) = jobs.get(at) else { return };
                    let built = shop.build(program, *kind, *layout);
                    results.lock().unwrap_or_else(|e| e.into_inner())[at] = Some(built);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    let built = results.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    let each: Vec<Vec<Built>> = built.chunks(layouts as usize).map(<[Built]>::to_vec).collect();
    Ok(each.chunks(kinds.len()).map(<[Vec<Built>]>::to_vec).collect())
}

/// Runs a compiler, or cargo, and returns its standard output.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|error| format!("{name}: {error}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(if said.trim().is_empty() { out.status.to_string() } else { said.into() });
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The safepoints that a report's summaries tell of.
fn safepoints(report: &str) -> Result<u64, String> {
    let mut total = 0;
    for line in report.lines() {
        let line: Value = serde_json::from_str(line).map_err(|e| format!("report: {e}: {line}"))?;
        if line["summary"] == true {
            total += line["safepoints"].as_u64().unwrap_or(0);
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_summaries_count() {
        let report = "{\"function\":\"f\",\"safepoints\":3}\n\
                      {\"summary\":true,\"safepoints\":3}\n{\"summary\":true,\"safepoints\":4}\n";
        assert_eq!(safepoints(report), Ok(7));
        assert_eq!(safepoints(""), Ok(0));
        assert!(safepoints("nonsense").is_err());
    }

    #[test]
    fn a_driver_that_is_not_there_is_an_error() {
        let shop = Shop { tools: "/nonexistent".into(), out: "/nonexistent".into() };
        assert!(shop.accepts(Kind::Clock).unwrap_err().contains("curtail-cc"));
    }
}

//! Random programs through the safepoint pass. A seed is a program and the ways in which it is built;
//! each instrumented build must print what the plain ones print, idle, timed, and with a hook that
//! spoils all registers at every safepoint. `README.md` says more.
//!
//! One thread per job takes seeds off a counter; each has a directory of its own for its files.
#![forbid(unsafe_code)]

mod body;
mod check;
mod counted;
mod dice;
mod finding;
mod generate;
mod ir;
mod options;
mod recursive;
mod reduce;
mod source;
mod tools;
mod variant;

use check::{Checker, Verdict};
use clap::Parser as _;
use options::Options;
use source::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;
use std::{fs, thread};
use tools::Tools;

/// What all threads together have done.
#[derive(Debug, Default)]
struct Tally {
    next: u64,
    programs: u64,
    runs: u64,
    /// Why, and the seeds.
    unusable: BTreeMap<&'static str, Vec<u64>>,
    found: u64,
    failed: Option<String>,
}

struct Fuzz {
    options: Options,
    tools: Tools,
    csmith: bool,
    begin: Instant,
    tally: Mutex<Tally>,
}

impl Fuzz {
    fn take(&self) -> Option<u64> {
        let mut tally = self.tally.lock().expect("no thread panics with it");
        let options = &self.options;
        let done = match options.count() {
            Some(count) => tally.next >= count,
            None => self.begin.elapsed() >= options.time,
        };
        if done || tally.failed.is_some() {
            return None;
        }
        tally.next += 1;
        Some(options.from().wrapping_add(tally.next - 1))
    }

    fn work(&self, directory: &Path) {
        while let Some(seed) = self.take() {
            let from = self.options.source.unwrap_or_else(|| Source::of(seed, self.csmith));
            let checker =
                Checker { tools: &self.tools, work: directory.to_owned(), keep_out: None };
            let verdict = checker.seed(seed, from, &self.options.ways(seed));
            let mut tally = self.tally.lock().expect("no thread panics with it");
            tally.programs += 1;
            match verdict {
                Ok(Verdict::Same(runs)) => tally.runs += runs,
                Ok(Verdict::Unusable(why)) => tally.unusable.entry(why).or_default().push(seed),
                Ok(Verdict::Wrong(finding)) => {
                    tally.found += 1;
                    println!("{}", finding.line(seed, from));
                    match finding.keep(&self.options.keep, seed, from) {
                        Ok(kept) => println!("  kept in {}", kept.display()),
                        Err(error) => tally.failed = Some(format!("keeping a finding: {error}")),
                    }
                }
                Err(error) => tally.failed = Some(format!("seed {seed}: {error}")),
            }
        }
    }

    fn summary(&self) -> ExitCode {
        let tally = self.tally.lock().expect("no thread panics with it");
        let unusable: usize = tally.unusable.values().map(Vec::len).sum();
        println!(
            "fuzz: seeds from {}: {} programs, {} instrumented runs like the plain ones, {} unusable, {} found, {} s",
            self.options.from(),
            tally.programs,
            tally.runs,
            unusable,
            tally.found,
            self.begin.elapsed().as_secs()
        );
        for (why, seeds) in &tally.unusable {
            println!("  {why}: {} (seed {} …)", seeds.len(), seeds[0]);
        }
        if let Some(error) = &tally.failed {
            eprintln!("fuzz: {error}");
        }
        let nothing = tally.runs == 0 && tally.found == 0;
        if nothing {
            eprintln!("fuzz: no program was checked");
        }
        ExitCode::from(u8::from(tally.found != 0 || tally.failed.is_some() || nothing))
    }
}

fn fuzz(options: Options, work: &Path) -> Result<ExitCode, String> {
    let directories: Vec<PathBuf> =
        (0..options.jobs.get()).map(|job| work.join(job.to_string())).collect();
    for directory in &directories {
        fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    let tools = Tools::find(&options.tools, work)?;
    let csmith = source::csmith(1, work).is_ok();
    if !csmith {
        println!("fuzz: no csmith: own programs only");
    }
    println!("fuzz: seeds from {}", options.from());
    let tally = Mutex::default();
    let fuzz = Fuzz { options, tools, csmith, begin: Instant::now(), tally };
    thread::scope(|scope| {
        for directory in &directories {
            scope.spawn(|| fuzz.work(directory));
        }
    });
    Ok(fuzz.summary())
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.print {
        print!("{}", generate::Program::random(seed).source(None));
        return ExitCode::SUCCESS;
    }
    let work = options.keep.join(format!("work-{}", std::process::id()));
    let code = fuzz(options, &work);
    let _ = fs::remove_dir_all(&work);
    code.unwrap_or_else(|error| {
        eprintln!("fuzz: {error}");
        ExitCode::from(2)
    })
}

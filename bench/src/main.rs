//! The benchmarks' command; `bench/run.sh` builds what it needs and calls it.

use curtail_bench::figure::Report;
use curtail_bench::{Size, dispatch, preempt, ring, sim, switch};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const NAMES: [&str; 5] = ["ring", "switch", "dispatch", "preempt", "sim"];
const USAGE: &str =
    "usage: curtail-bench [ring|switch|dispatch|preempt|sim]… [--smoke] [--out DIR] \
                     [--go PROGRAM] [--curtail PROGRAM] [--python PROGRAM] [--loads 0.3,0.5] \
                     [--seconds S] [--rounds N]
       curtail-bench simulate LOAD JOBS   (what `sim` measures the memory of)";

struct Args {
    names: Vec<String>,
    out: Option<PathBuf>,
    options: dispatch::Options,
    python: Option<PathBuf>,
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.first().is_some_and(|name| name == "simulate") {
        return simulate(&given[1..]);
    }
    let args = match parse(given) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for name in &args.names {
        let options = &args.options;
        let report = match name.as_str() {
            "ring" => ring::run(options.size),
            "switch" => switch::run(options.size, options.go.as_deref()),
            "preempt" => preempt::run(options),
            "sim" => sim::run(&sim::Options {
                size: options.size,
                python: args.python.clone(),
                itself: std::env::current_exe().expect("this program has a path"),
            }),
            _ => dispatch::run(options),
        };
        println!("{}", report.text());
        if let Some(Err(error)) = args.out.as_deref().map(|out| write(out, &report)) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        if !report.simulated.iter().all(sim::Simulated::agrees) {
            eprintln!("the simulators disagree by more than {}%", sim::TOLERANCE * 100.0);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// One simulation, for its memory.
fn simulate(args: &[String]) -> ExitCode {
    let memory = match args {
        [load, jobs] => positive(load).and_then(|load| {
            let jobs = jobs.parse().map_err(|_| format!("`{jobs}` is no number of jobs"))?;
            sim::in_memory(load, jobs)
        }),
        _ => Err("simulate needs a load and a number of jobs".to_owned()),
    };
    match memory {
        Ok(memory) => {
            println!("{}", serde_json::to_string(&memory).expect("two numbers"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// `NAME.json`, and for runs also a page to look at.
fn write(out: &Path, report: &Report) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
    let file = |extension: &str| {
        out.join(&report.benchmark).with_extension(extension).display().to_string()
    };
    let json = serde_json::to_string_pretty(report).map_err(|e| e.to_string())?;
    curtail_report::write_text(&file("json"), &(json + "\n")).map_err(|e| e.to_string())?;
    if !report.runs.is_empty() {
        let options = curtail_report::HtmlOptions { ideal: true, ..Default::default() };
        let page = curtail_report::html(&report.runs, &options);
        curtail_report::write_text(&file("html"), &page).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn parse(args: Vec<String>) -> Result<Args, String> {
    let size = if args.iter().any(|arg| arg == "--smoke") { Size::Smoke } else { Size::Full };
    let mut options = dispatch::Options::new(size);
    let mut names = Vec::new();
    let (mut out, mut python) = (None, None);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--smoke" => {}
            "--out" => out = Some(PathBuf::from(value()?)),
            "--go" => options.go = Some(PathBuf::from(value()?)),
            "--python" => python = Some(PathBuf::from(value()?)),
            "--curtail" => options.curtail = Some(PathBuf::from(value()?)),
            "--seconds" => options.seconds = positive(&value()?)?,
            "--rounds" => {
                let text = value()?;
                let rounds = text.parse().ok().filter(|n| *n > 0);
                options.rounds =
                    rounds.ok_or_else(|| format!("`{text}` is no number of rounds"))?;
            }
            "--loads" => {
                options.loads = value()?.split(',').map(positive).collect::<Result<_, _>>()?;
            }
            name if NAMES.contains(&name) => names.push(arg),
            other => return Err(format!("there is no benchmark or option `{other}`")),
        }
    }
    if names.is_empty() {
        names = NAMES.map(String::from).to_vec();
    }
    Ok(Args { names, out, options, python })
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| format!("`{text}` is no number above zero"))
}

//! `curtail-verify PROGRAM`: see the library.
#![forbid(unsafe_code)]

use curtail_driver::keep_out;
use curtail_verify::USAGE;
use curtail_verify::report::{Options, verify};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

struct Arguments {
    program: String,
    options: Options,
    json: Option<String>,
    most: usize,
}

fn arguments(words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut program = None;
    let mut found =
        Arguments { program: String::new(), options: Options::default(), json: None, most: 20 };
    let mut words = words;
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                (name.to_owned(), Some(value.to_owned()))
            }
            _ => (word.clone(), None),
        };
        let mut value =
            || inline.clone().or_else(|| words.next()).ok_or(format!("{name} wants a value"));
        match name.as_str() {
            "--help" | "-h" => return Ok(None),
            "--all" => found.most = usize::MAX,
            "--bound" => {
                let text = value()?;
                let bound = text.parse().ok().filter(|bound| (20..=10_000_000).contains(bound));
                found.options.bound =
                    Some(bound.ok_or(format!("--bound={text}: from 20 to 10000000"))?);
            }
            "--keep-out" => {
                found.options.keep_out = keep_out::read(Path::new(&value()?))?;
            }
            "--json" => found.json = Some(value()?),
            _ if name.starts_with('-') => {
                return Err(format!("unknown option {name} (--help tells)"));
            }
            _ if program.is_some() => return Err(format!("one program at a time, not {word} too")),
            _ => program = Some(word),
        }
    }
    found.program = program.ok_or("which program? (--help tells)")?;
    Ok(Some(found))
}

fn run() -> Result<bool, String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let Some(arguments) = arguments(words)? else {
        println!("{USAGE}");
        return Ok(true);
    };
    let name = &arguments.program;
    let bytes = std::fs::read(name).map_err(|error| format!("{name}: {error}"))?;
    let report =
        verify(&bytes, &arguments.options).map_err(|reason| format!("{name}: {reason}"))?;
    match arguments.json.as_deref() {
        Some("-") => print(&(report.to_json() + "\n"))?,
        json => {
            if let Some(file) = json {
                std::fs::write(file, report.to_json() + "\n")
                    .map_err(|e| format!("{file}: {e}"))?;
            }
            print(&report.to_text(name, arguments.most))?;
        }
    }
    Ok(report.passes())
}

/// A reader that has seen enough is no failure.
fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("stdout: {error}"))
        }
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(reason) => {
            eprintln!("curtail-verify: {reason}");
            ExitCode::from(2)
        }
    }
}

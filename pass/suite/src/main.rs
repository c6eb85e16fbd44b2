//! The suite's command; `./x bench safepoint` builds what it needs and calls it.

#![forbid(unsafe_code)]

use safepoint_suite::options::Options;
use safepoint_suite::{figures::Report, suite, table};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match suite::run(&options, &mut |line| eprintln!("safepoint: {line}"))
        .and_then(|report| write(&options, &report))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("safepoint: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The tables on standard output, `safepoint.json` in the output directory.
fn write(options: &Options, report: &Report) -> Result<(), String> {
    print!("{}", table::text(report));
    let file = options.out.join("safepoint.json").display().to_string();
    let json = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
    curtail_report::write_text(&file, &(json + "\n")).map_err(|error| error.to_string())?;
    eprintln!("safepoint: {file}");
    Ok(())
}

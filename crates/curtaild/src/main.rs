//! The command `curtaild`. Exit codes: 0 after SIGINT or SIGTERM, 1 failure, 2 bad usage.
#![forbid(unsafe_code)]

use clap::Parser;
use clap::error::ErrorKind;
use curtail_shm::session::{self, Session};
use curtaild::{Daemon, Error, Options, Stop};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let text = error.to_string();
            // The first paragraph is the error; usage and hints follow it.
            let text = text.split("\n\n").next().unwrap_or_default();
            return fail(text.strip_prefix("error: ").unwrap_or(text), 2);
        }
    };
    let outcome = if options.status { status(&options) } else { serve(&options) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Usage(message)) => fail(&message, 2),
        Err(error) => fail(&error.to_string(), 1),
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(std::io::stderr(), "curtaild: {line}");
    ExitCode::from(code)
}

fn serve(options: &Options) -> Result<(), Error> {
    let stop = Stop::new()?;
    for signal in [SIGINT, SIGTERM] {
        let end = stop.end().map_err(|error| Error::System { what: "a socket", error })?;
        signal_hook::low_level::pipe::register(signal, end)
            .map_err(|error| Error::System { what: "signals", error })?;
    }
    Daemon::new(options, stop)?.run()
}

fn status(options: &Options) -> Result<(), Error> {
    let path = options.socket.clone().unwrap_or_else(session::default_path);
    let text = Session::status(&path).map_err(|error| Error::System {
        what: "no answer from a daemon",
        error: std::io::Error::other(format!("{}: {error}", path.display())),
    })?;
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}

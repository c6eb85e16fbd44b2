//! `curtail trace`: records what a running program does, into a file that Perfetto opens.
//!
//! One thread. The events are another process's: each line is checked before it is written. The file
//! is written beside its place and moved there when it is whole.

use crate::args::Json;
use crate::failure::Failure;
use crate::top::{Program, the_one};
use clap::Args;
use curtail_workload::duration_ns;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

/// `curtail trace`.
#[derive(Args)]
pub(crate) struct Trace {
    /// The program's process; by default the one there is
    pid: Option<u32>,
    /// Where to: Chrome's trace events, as JSON (ui.perfetto.dev opens it)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How long, ten minutes at most
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration_ns)]
    duration: u64,
    #[command(flatten)]
    json: Json,
}

/// The last line, or an error's.
#[derive(Deserialize)]
struct Last {
    dropped: Option<u64>,
    error: Option<String>,
}

impl Trace {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let ms = self.duration.div_ceil(1_000_000);
        if !(1..=600_000).contains(&ms) {
            return Err(Failure::usage("--duration: from 1ms to 10m"));
        }
        let mut program = Program::connect(the_one(self.pid)?)?;
        let mut part = self.output.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let failed =
            |error: std::io::Error| Failure::failed(format!("{}: {error}", self.output.display()));
        let mut out = BufWriter::new(File::create(&part).map_err(failed)?);
        let recorded = record(&mut program, ms, &mut out);
        let (events, dropped) = recorded.inspect_err(|_| drop(std::fs::remove_file(&part)))?;
        let whole = out.flush().and_then(|()| std::fs::rename(&part, &self.output));
        whole.inspect_err(|_| drop(std::fs::remove_file(&part))).map_err(failed)?;
        if let Some(file) = &self.json.json {
            let summary =
                serde_json::json!({ "verb": "trace", "events": events, "dropped": dropped });
            curtail_report::write_text(file, &format!("{summary}\n"))?;
        }
        if self.json.json.as_deref() != Some("-") {
            say!("{events} events in {}, {dropped} lost", self.output.display());
        }
        Ok(())
    }
}

/// How many events there were, and how many were lost.
fn record(program: &mut Program, ms: u64, out: &mut impl Write) -> Result<(u64, u64), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("the file: {error}"));
    out.write_all(b"{\"traceEvents\":[\n").map_err(failed)?;
    let mut line = program.ask_for(&format!("trace {ms}"), Duration::from_millis(ms))?;
    let mut events = 0;
    loop {
        let text = line.ok_or_else(|| Failure::failed("the program ended meanwhile"))?;
        let text = text.trim_ascii_end();
        let bad = |error: serde_json::Error| Failure::failed(format!("not an event: {error}"));
        let last: Last = serde_json::from_slice(text).map_err(bad)?;
        if let Some(error) = last.error {
            let error = error.replace(|c: char| c.is_control(), "\u{fffd}");
            return Err(Failure::failed(error));
        }
        if let Some(dropped) = last.dropped {
            let end = format!(
                "],\n\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped\":{dropped}}}}}\n"
            );
            out.write_all(end.as_bytes()).map_err(failed)?;
            return Ok((events, dropped));
        }
        if events > 0 {
            out.write_all(b",\n").map_err(failed)?;
        }
        out.write_all(text).map_err(failed)?;
        events += 1;
        line = program.next_line()?;
    }
}

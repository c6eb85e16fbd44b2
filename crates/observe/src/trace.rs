//! A recording as Chrome's trace events, which Perfetto reads: one JSON object a line.
//!
//! Events are taken every few milliseconds and sent at once, so that little is held here. A peer that
//! takes them too slowly loses events, which are counted, and holds nothing else up.

use crate::shown;
use curtail::timeline::{Event, EventKind, Timeline};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// From one take to the next.
const PAUSE: Duration = Duration::from_millis(5);
/// No recording is longer.
const LONGEST_MS: u64 = 600_000;

/// Records for so many milliseconds, and sends what happens.
pub(crate) fn send(length: &str, to: &mut UnixStream) -> io::Result<()> {
    let length = match length.parse() {
        Ok(ms @ 1..=LONGEST_MS) => Duration::from_millis(ms),
        _ => return writeln!(to, r#"{{"error":"a recording takes from 1 to {LONGEST_MS} ms"}}"#),
    };
    let Some(mut timeline) = Timeline::start() else {
        return writeln!(to, r#"{{"error":"it is being recorded already"}}"#);
    };
    let mut out = io::BufWriter::with_capacity(256 << 10, to);
    let end = Instant::now() + length;
    let mut named = BTreeSet::new();
    let classes = class_names();
    loop {
        let is_over = Instant::now() >= end;
        let events = timeline.take();
        let threads = timeline.threads();
        for (tid, name) in &threads {
            if named.insert(*tid) {
                name_thread(&mut out, *tid, name)?;
            }
        }
        events
            .iter()
            .try_for_each(|event| write(&mut out, event, threads[event.thread].0, &classes))?;
        if is_over {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    writeln!(out, r#"{{"dropped":{}}}"#, timeline.dropped())?;
    out.flush()
}

fn name_thread(out: &mut impl Write, tid: u32, name: &str) -> io::Result<()> {
    let name = serde_json::to_string(name).map_err(io::Error::other)?;
    let pid = std::process::id();
    writeln!(
        out,
        r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":{name}}}}}"#
    )
}

/// As JSON, where one server alone has classes.
fn class_names() -> Vec<String> {
    let looks = shown::looks();
    let mut with = looks.iter().map(|(_, stats)| &stats.classes).filter(|all| !all.is_empty());
    match (with.next(), with.next()) {
        (Some(classes), None) => classes
            .iter()
            .map(|class| serde_json::Value::from(format!("run {}", class.name)).to_string())
            .collect(),
        _ => Vec::new(),
    }
}

fn write(out: &mut impl Write, event: &Event, tid: u32, classes: &[String]) -> io::Result<()> {
    let (pid, job, class) = (std::process::id(), event.job, event.class);
    let (name, end) = match event.kind {
        EventKind::Arrived => ("arrived", None),
        EventKind::Sent => ("sent", None),
        EventKind::Woken => ("woken", None),
        EventKind::Parked => ("parked", None),
        EventKind::Granted => ("granted", None),
        EventKind::Stalled => ("stall", Some("")),
        EventKind::RanToEnd => ("run", Some("done")),
        EventKind::RanUntilPreempted => ("run", Some("pre-empted")),
        EventKind::RanUntilYield => ("run", Some("yielded")),
        EventKind::RanUntilBlocked => ("run", Some("blocked")),
        _ => ("run", Some("")),
    };
    // Microseconds, as the format has it.
    let us = |ns: u64| (ns / 1_000, ns % 1_000);
    let (start, duration) = (us(event.start_ns), us(event.duration_ns));
    write!(out, r#"{{"pid":{pid},"tid":{tid},"ts":{}.{:03},"#, start.0, start.1)?;
    match end {
        None => write!(out, r#""ph":"i","s":"t","name":"{name}","args":{{"#)?,
        Some(end) => write!(
            out,
            r#""ph":"X","dur":{}.{:03},"name":{},"args":{{"end":"{end}","#,
            duration.0,
            duration.1,
            match classes.get(usize::from(class)) {
                Some(of_class) if name == "run" => of_class.clone(),
                _ => format!("\"{name}\""),
            }
        )?,
    }
    writeln!(out, r#""job":{job},"class":{class}}}}}"#)
}

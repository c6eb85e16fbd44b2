//! Results in and out of files. A file that exists is replaced whole or not at all.

use crate::{Error, Run, SCHEMA};
use serde::Serialize;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The runs in `text`: one object, an array of them, or several values one after the other.
/// `name` is what errors call it.
///
/// # Errors
/// Text that is no JSON, that is no run, or whose schema is newer than [`SCHEMA`]; says where.
pub fn parse(name: &str, text: &str) -> Result<Vec<Run>, Error> {
    let mut runs: Vec<Run> = Vec::new();
    let mut rest = text;
    while !rest.trim_start().is_empty() {
        // The first character says the kind, not by trying both: the error then is about
        // what is really there, with its position.
        let (more, used) = if rest.trim_start().starts_with('[') {
            next::<Vec<Run>>(rest)
        } else {
            next::<Run>(rest).map(|(run, used)| (vec![run], used))
        }
        .map_err(|e| placed(name, &text[..text.len() - rest.len()], &e))?;
        runs.extend(more);
        rest = &rest[used..];
    }
    if runs.is_empty() && text.trim().is_empty() {
        return Err(Error::new(format!("{name}: empty, expected a result as JSON")));
    }
    match runs.iter().find(|run| run.schema > SCHEMA) {
        Some(run) => Err(Error::new(format!(
            "{name}: written with schema {}, this program knows up to {SCHEMA}",
            run.schema
        ))),
        None => Ok(runs),
    }
}

fn next<T: serde::de::DeserializeOwned>(text: &str) -> Result<(T, usize), serde_json::Error> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next().expect("the caller saw that there is text")?;
    Ok((value, values.byte_offset()))
}

/// `name:line:column: what`, counted from the start of the whole text.
fn placed(name: &str, before: &str, error: &serde_json::Error) -> Error {
    let what = error.to_string();
    let what = what.rfind(" at line ").map_or(what.as_str(), |at| &what[..at]);
    let line = before.matches('\n').count() + error.line();
    let column = match (error.line(), before.rfind('\n')) {
        (1, Some(at)) => before.len() - at - 1 + error.column(),
        (1, None) => before.len() + error.column(),
        _ => error.column(),
    };
    Error::new(format!("{name}:{line}:{column}: {what}"))
}

/// The runs in a file, or on standard input for `-`.
///
/// # Errors
/// As [`parse`], and where the file cannot be read.
pub fn read(from: &str) -> Result<Vec<Run>, Error> {
    if from == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|e| Error::io("cannot read standard input", e))?;
        return parse("standard input", &text);
    }
    let text =
        std::fs::read_to_string(from).map_err(|e| Error::io(format!("cannot read {from}"), e))?;
    parse(from, &text)
}

/// Writes one run, as one object, to a file, or to standard output for `-`.
///
/// # Errors
/// Where that cannot be written; an existing file is left as it was.
pub fn write_run(to: &str, run: &Run) -> Result<(), Error> {
    write_text(to, &pretty(run))
}

/// Writes a sweep, as an array, to a file, or to standard output for `-`.
///
/// # Errors
/// Where that cannot be written; an existing file is left as it was.
pub fn write_runs(to: &str, runs: &[Run]) -> Result<(), Error> {
    write_text(to, &pretty(runs))
}

fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text =
        serde_json::to_string_pretty(value).expect("string keys, and nothing that fails");
    text.push('\n');
    text
}

/// Writes text to a file, or to standard output for `-`.
///
/// # Errors
/// Where that cannot be written; an existing file is left as it was.
pub fn write_text(to: &str, text: &str) -> Result<(), Error> {
    if to == "-" {
        let mut out = std::io::stdout().lock();
        return out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|e| Error::io("cannot write standard output", e));
    }
    replace(Path::new(to), text).map_err(|e| Error::io(format!("cannot write {to}"), e))
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // A link is followed, so that it stays one; pipes and devices cannot be replaced by renaming.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&path).is_ok_and(|existing| !existing.is_file()) {
        return std::fs::OpenOptions::new().write(true).open(&path)?.write_all(text.as_bytes());
    }
    let mut name = path.file_name().ok_or(std::io::ErrorKind::InvalidFilename)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new: PathBuf = path.with_file_name(name);
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

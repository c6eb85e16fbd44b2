//! The lines of a trace's file. Each is a request, or nothing (empty, a comment, the heading), or the
//! reason why the file is refused: no line is skipped because it could not be read.

use crate::{ParseError, duration_ns};
use csv::{ByteRecord, Reader, ReaderBuilder, Trim};
use std::fs::File;
use std::path::{Path, PathBuf};

/// One line's content.
pub(super) struct Line<'a> {
    pub(super) at_ns: u64,
    pub(super) class: &'a str,
    pub(super) service_ns: u64,
}

pub(super) struct Lines {
    path: PathBuf,
    reader: Reader<File>,
    record: ByteRecord,
    /// A heading can still come: there was no request yet, and no heading.
    fresh: bool,
}

/// What a line that was read through is.
enum What {
    Nothing,
    Heading,
    Request,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, ParseError> {
        let file = File::open(path);
        let file =
            file.map_err(|e| ParseError::new(format!("cannot read {}: {e}", path.display())))?;
        // The crate would take the first line for a heading whatever it is, and lines of other
        // lengths for errors without their text.
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).trim(Trim::All).comment(Some(b'#'));
        let reader = builder.from_reader(file);
        Ok(Self { path: path.to_owned(), reader, record: ByteRecord::new(), fresh: true })
    }

    pub(super) fn bad(&self, why: &str) -> ParseError {
        ParseError::new(format!("{}: {why}", self.path.display()))
    }

    /// Of the line that was read last.
    pub(super) fn bad_line(&self, why: &str) -> ParseError {
        let number = self.record.position().map_or(0, csv::Position::line);
        self.bad(&format!("line {number}: {why}"))
    }

    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, ParseError> {
        loop {
            let more = self.reader.read_byte_record(&mut self.record);
            if !more.map_err(|e| self.bad(&format!("cannot be read: {e}")))? {
                return Ok(None);
            }
            match what(&self.record, self.fresh).map_err(|why| self.bad_line(&why))? {
                What::Nothing => {}
                What::Heading => self.fresh = false,
                What::Request => break,
            }
        }
        self.fresh = false;
        request(&self.record).map(Some).map_err(|why| self.bad_line(&why))
    }
}

fn what(record: &ByteRecord, fresh: bool) -> Result<What, String> {
    if record.iter().any(|field| std::str::from_utf8(field).is_err()) {
        return Err("this is not text in UTF-8".to_owned());
    }
    let first = field(record, 0);
    // With blanks in front it is none to the crate.
    if first.starts_with('#') || (record.len() == 1 && first.is_empty()) {
        return Ok(What::Nothing);
    }
    let heading = fresh && record.len() == 3 && (0..3).all(|at| is_name(field(record, at)));
    if !heading {
        return Ok(What::Request);
    }
    match foreign_unit([field(record, 0), field(record, 2)]) {
        Some(column) => Err(format!(
            "the column `{column}`: numbers without a unit are nanoseconds here, write 5us or 5ms"
        )),
        None => Ok(What::Heading),
    }
}

/// A field, without blanks and the quotes between them. It is UTF-8, which was checked.
fn field(record: &ByteRecord, at: usize) -> &str {
    let text = record.get(at).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let text = text.unwrap_or_default().trim();
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    quoted.filter(|inner| !inner.contains('"')).map_or(text, str::trim)
}

/// Whether this can be a column's name: it begins with a letter, and is no number that words can say.
fn is_name(text: &str) -> bool {
    text.starts_with(char::is_alphabetic) && text.parse::<f64>().is_err()
}

/// The column of times, if there is one, whose name says that it has another unit than ours.
fn foreign_unit(columns: [&str; 2]) -> Option<&str> {
    let foreign = |word: &str| {
        matches!(
            word,
            "us" | "µs"
                | "μs"
                | "usec"
                | "ms"
                | "msec"
                | "s"
                | "sec"
                | "secs"
                | "seconds"
                | "micros"
                | "microseconds"
                | "millis"
                | "milliseconds"
        )
    };
    columns.into_iter().find(|column| {
        let lower = column.to_lowercase();
        // The first word is the thing's own: a column may be called `s`.
        lower.split(|c: char| !c.is_alphanumeric()).skip(1).any(foreign)
    })
}

fn request(record: &ByteRecord) -> Result<Line<'_>, String> {
    if record.len() != 3 {
        let said: Vec<_> = (0..record.len()).map(|at| field(record, at)).collect();
        let said: String = said.join(",").chars().take(60).collect();
        return Err(format!(
            "`{}` is no request: write 1200,short,500 (arrival and service in ns)",
            said.escape_debug()
        ));
    }
    let class = field(record, 1);
    if class.is_empty() {
        return Err("the class has no name".to_owned());
    }
    if class.contains(char::is_control) {
        return Err("the class's name goes over the line's end: a quote is missing".to_owned());
    }
    let at_ns = time("arrival", field(record, 0))?;
    Ok(Line { at_ns, class, service_ns: time("service", field(record, 2))? })
}

fn time(what: &str, text: &str) -> Result<u64, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(ns) = text.parse()
    {
        return Ok(ns);
    }
    let shown: String = text.chars().take(60).collect();
    let shown = shown.escape_debug();
    let negative = text.strip_prefix(['-', '\u{2212}']);
    if negative.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
        return Err(format!("negative {what} `{shown}`"));
    }
    duration_ns(text)
        .map_err(|_| format!("{what} `{shown}` is no time: write nanoseconds, or 500ns, 2us, 10ms"))
}

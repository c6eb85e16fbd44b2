//! Recorded requests: a text file of arrival, class, service time.
//!
//! The file is read twice, line by line, and never held in memory: once when it is opened, to check
//! it and to know its classes, then for its requests.

use crate::{Class, Mix, ParseError, Request, Service, duration_ns};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A file of requests. A line is `ARRIVAL,CLASS,SERVICE`: arrival and service in nanoseconds, or
/// with a unit (`1.5us`); the class is a name. Arrivals ascend. Empty lines, those that begin with
/// `#`, and a first line of column names are left out.
#[derive(Clone, Debug)]
pub struct Trace {
    path: PathBuf,
    classes: Vec<String>,
    mix: Mix,
    count: u64,
    first_ns: u64,
    last_ns: u64,
}

/// One line's content.
struct Line<'a> {
    at_ns: u64,
    class: &'a str,
    service_ns: u64,
}

impl Trace {
    /// Reads a file through.
    ///
    /// # Errors
    /// It cannot be read, has no requests, or has a line that is none; says which.
    pub fn open(path: &Path) -> Result<Self, ParseError> {
        let mut sums: Vec<(String, u64, u128)> = Vec::new();
        let (mut count, mut first_ns, mut last_ns) = (0, None, 0);
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next()? {
            if line.at_ns < last_ns {
                let number = lines.number;
                return Err(lines.bad(&format!("line {number} goes back in time")));
            }
            last_ns = line.at_ns;
            first_ns.get_or_insert(line.at_ns);
            count += 1;
            let index = sums.iter().position(|(name, ..)| name == line.class);
            let index = index.unwrap_or_else(|| {
                sums.push((line.class.to_owned(), 0, 0));
                sums.len() - 1
            });
            sums[index].1 += 1;
            sums[index].2 += u128::from(line.service_ns);
            if sums.len() > usize::from(u16::MAX) {
                return Err(lines.bad("more than 65535 classes"));
            }
        }
        let Some(first_ns) = first_ns else { return Err(lines.bad("no requests in it")) };
        let class = |(name, count, sum): &(String, u64, u128)| Class {
            name: name.clone(),
            share: *count as f64,
            service: Service::Constant((*sum as f64 / *count as f64).round() as u64),
        };
        let mix = Mix::new(sums.iter().map(class).collect())?;
        let classes = sums.into_iter().map(|(name, ..)| name).collect();
        Ok(Self { path: path.to_owned(), classes, mix, count, first_ns, last_ns })
    }

    /// Its classes, in the order in which they first come, each with its mean service time.
    #[must_use]
    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    /// How many requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// From the first arrival to the last.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }

    /// Requests per second; infinite where all come at once.
    #[must_use]
    pub fn rate_rps(&self) -> f64 {
        self.count as f64 * 1e9 / self.span_ns() as f64
    }

    /// Its requests, the first at 0, with all gaps `stretch` times as long.
    ///
    /// # Errors
    /// The file cannot be opened any more.
    pub fn requests(&self, stretch: f64) -> Result<TraceRequests<'_>, ParseError> {
        Ok(TraceRequests { trace: self, lines: Lines::open(&self.path)?, stretch, failed: None })
    }
}

/// The requests of a [`Trace`]: an iterator that ends early, with [`TraceRequests::error`], where
/// the file has changed under it.
pub struct TraceRequests<'a> {
    trace: &'a Trace,
    lines: Lines,
    stretch: f64,
    failed: Option<ParseError>,
}

impl TraceRequests<'_> {
    /// Why it ended early, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&ParseError> {
        self.failed.as_ref()
    }

    fn read(&mut self) -> Result<Option<Request>, ParseError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let class = self.trace.classes.iter().position(|name| name == line.class);
        let since = line.at_ns.checked_sub(self.trace.first_ns);
        let (Some(class), Some(since)) = (class, since) else {
            return Err(self.lines.bad("it changed while it was read"));
        };
        let at_ns = (since as f64 * self.stretch) as u64;
        Ok(Some(Request { at_ns, class: class as u16, service_ns: line.service_ns }))
    }
}

impl Iterator for TraceRequests<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.failed.is_some() {
            return None;
        }
        self.read().unwrap_or_else(|error| {
            self.failed = Some(error);
            None
        })
    }
}

struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    text: String,
    number: u64,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, ParseError> {
        let file = File::open(path);
        let file =
            file.map_err(|e| ParseError::new(format!("cannot read {}: {e}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::new(file),
            text: String::new(),
            number: 0,
        })
    }

    fn bad(&self, why: &str) -> ParseError {
        ParseError::new(format!("{}: {why}", self.path.display()))
    }

    fn next(&mut self) -> Result<Option<Line<'_>>, ParseError> {
        loop {
            self.text.clear();
            let read = self.reader.read_line(&mut self.text);
            if read.map_err(|e| self.bad(&format!("cannot be read: {e}")))? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let text = self.text.trim();
            let is_heading = || self.number == 1 && !text.starts_with(|c: char| c.is_ascii_digit());
            if !text.is_empty() && !text.starts_with('#') && !is_heading() {
                break;
            }
        }
        let text = self.text.trim();
        match parse(text) {
            Some(line) => Ok(Some(line)),
            None => Err(self.bad(&format!(
                "line {}: `{text}` is no request: write 1200,short,500 (arrival and service in ns)",
                self.number
            ))),
        }
    }
}

fn parse(text: &str) -> Option<Line<'_>> {
    let ns = |text: &str| text.parse().ok().or_else(|| duration_ns(text).ok());
    let mut fields = text.split(',').map(str::trim);
    let line =
        Line { at_ns: ns(fields.next()?)?, class: fields.next()?, service_ns: ns(fields.next()?)? };
    (!line.class.is_empty() && fields.next().is_none()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    /// A file that goes when it is done with.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, text: &str) -> Self {
            let path = std::env::temp_dir().join(format!("curtail-trace-{name}-{}", process::id()));
            std::fs::write(&path, text).unwrap();
            Self(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn requests_as_they_stand() {
        let text =
            "arrival,class,service\n# a comment\n1000,get,500\n\n2us,scan,0.5ms\n5000,get,700\n";
        let file = Temporary::new("good", text);
        let trace = Trace::open(&file.0).unwrap();
        assert_eq!((trace.count(), trace.span_ns()), (3, 4_000));
        let names: Vec<_> = trace.mix().classes().iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["get", "scan"]);
        assert_eq!(trace.mix().classes()[0].service, Service::Constant(600));
        let all: Vec<_> =
            trace.requests(2.0).unwrap().map(|r| (r.at_ns, r.class, r.service_ns)).collect();
        assert_eq!(all, [(0, 0, 500), (2_000, 1, 500_000), (8_000, 0, 700)]);
    }

    #[test]
    fn the_bad_line_is_named() {
        for (text, says) in [
            ("", "no requests"),
            ("1000,get,500\n900,get,500\n", "line 2 goes back"),
            ("1000,get,500\n1100,get\n", "line 2: `1100,get`"),
            ("1000,get,500\n1100,,5\n", "line 2"),
            ("1000,get,500\n1100,get,5,6\n", "line 2"),
            ("1000,get,x\n", "line 1"),
        ] {
            let file = Temporary::new("bad", text);
            let error = Trace::open(&file.0).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        let none = Trace::open(Path::new("/nonexistent/trace.csv")).unwrap_err().to_string();
        assert!(none.contains("/nonexistent/trace.csv"), "{none}");
    }

    #[test]
    fn a_file_that_changes_meanwhile_ends_early_and_says_so() {
        let file = Temporary::new("changed", "1,a,5\n2,a,5\n");
        let trace = Trace::open(&file.0).unwrap();
        std::fs::write(&file.0, "1,a,5\n2,b,5\n").unwrap();
        let mut requests = trace.requests(1.0).unwrap();
        assert_eq!(requests.by_ref().count(), 1);
        assert!(requests.error().unwrap().to_string().contains("changed"));
    }
}

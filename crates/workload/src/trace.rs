//! Recorded requests: a text file of arrival, class, service time.
//!
//! The file is read twice, line by line, and never held in memory: once when it is opened, to check
//! it and to know its classes, then for its requests.

mod lines;

use crate::{Class, Mix, ParseError, Request, Service};
use lines::Lines;
use std::path::{Path, PathBuf};

/// A file of requests, as CSV: `ARRIVAL,CLASS,SERVICE` a line. Arrival and service are nanoseconds,
/// or have a unit (`1.5us`); the class is a name. Arrivals ascend. Quotes, a byte-order mark and all
/// ends of lines are fine. Left out are empty lines, those that begin with `#`, and a heading: three
/// names that come first.
#[derive(Clone, Debug)]
pub struct Trace {
    path: PathBuf,
    classes: Vec<String>,
    mix: Mix,
    count: u64,
    first_ns: u64,
    last_ns: u64,
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
                return Err(lines.bad_line("goes back in time: arrivals ascend"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    /// A file that goes when it is done with.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, text: impl AsRef<[u8]>) -> Self {
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
            ("1000,get,500\n900,get,500\n", "line 2: goes back"),
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

    fn read(text: &[u8]) -> Result<Vec<(u64, String, u64)>, String> {
        let file = Temporary::new("kinds", text);
        let trace = Trace::open(&file.0).map_err(|error| error.to_string())?;
        let requests = trace.requests(1.0).unwrap();
        Ok(requests
            .map(|r| (r.at_ns, trace.classes[usize::from(r.class)].clone(), r.service_ns))
            .collect())
    }

    #[test]
    fn however_it_was_saved_no_request_is_lost() {
        let right = vec![(0, "a".to_owned(), 1_000), (10_000, "a".to_owned(), 2_000)];
        for text in [
            "\u{feff}0,a,1us\n10000,a,2us\n",
            "\"0\",\"a\",\"1us\"\n\"10000\",\"a\",\"2us\"\n",
            "\u{feff}\"0\",\"a\",\"1us\"\r\n\"10000\",\"a\",\"2us\"",
            "0,a,1us\r\n10000,a,2us\r\n",
            "0,a,1us\r10000,a,2us\r",
            " 0 , \"a\" , 1us\n\n   \n10us,a, 2 us\n",
            "\u{feff}# how it was made, \"roughly\n  # and when\n0,a,1us\n10000,a,2us",
            "\u{feff}arrival_ns,class,service_ns\n0,a,1us\n10000,a,2us\n",
            "\"Arrival\",\"Type\",\"Service time\"\r\n0,a,1us\n10000,a,2us\n",
            "# first\n\narrival,class,s\n0,a,1us\n10000,a,2us\n",
        ] {
            assert_eq!(read(text.as_bytes()).as_ref(), Ok(&right), "{text:?}");
        }
        let named = read(b"0,\"get, small \"\"one\"\"\",5\n1,b,5\n").unwrap();
        assert_eq!(named[0].1, "get, small \"one\"");
    }

    #[test]
    fn what_is_no_request_and_no_heading_is_refused_wherever_it_stands() {
        let good = "0,a,1us\n10000,a,2us\n";
        for (first, says) in [
            ("-5,a,3us", "negative arrival `-5`"),
            ("\u{feff}-5,a,3us", "negative arrival `-5`"),
            ("\"-1.5us\",a,3us", "negative arrival `-1.5us`"),
            ("0,a,-3us", "negative service `-3us`"),
            (",a,3us", "arrival ``"),
            ("x,a,3us", "arrival `x`"),
            ("arrival,a,3us", "arrival `arrival`"),
            ("5,class,service", "service `service`"),
            ("NaN,a,inf", "arrival `NaN`"),
            (".,a,b", "arrival `.`"),
            ("\u{ff11},a,b", "arrival `\u{ff11}`"),
            ("1e3,a,5", "arrival `1e3`"),
            ("0,,5", "no name"),
            ("arrival,class", "`arrival,class` is no request"),
            ("arrival,class,service,size", "is no request"),
            ("0;a;1us", "`0;a;1us` is no request"),
            ("arrival_us,class,service_us", "`arrival_us`: numbers without a unit are nano"),
            ("Arrival,Type,Service time (ms)", "`Service time (ms)`: numbers"),
            ("99999999999999999999,a,5", "arrival `99999999999999999999`"),
        ] {
            let error = read(format!("{first}\n{good}").as_bytes()).unwrap_err();
            assert!(error.contains("line 1: ") && error.contains(says), "{first:?}: {error}");
            let error = read(format!("# so\r\n{good}{first}\n").as_bytes()).unwrap_err();
            assert!(error.contains("line 4: "), "{first:?}: {error}");
        }
        for (text, says) in [
            ("0,a,5\n1,\"a,5\n2,b\",5\n3,a,5\n", "line 2: the class's name goes over"),
            ("0,a,5\n1,\"a,5\n2,b,5\n", "line 2: `1,a,5\\n2,b,5"),
            ("a,b,c\nd,e,f\n0,a,5\n", "line 2: arrival `d`"),
            ("0,a,5\n\u{feff}1,a,5\n", "line 2: arrival"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        assert!(read(b"0,\xe4,5\n1,b,5\n").unwrap_err().contains("line 1: this is not text"));
        assert!(read(b"\xff\xfe0\0,\0a\0,\x005\0\n\0").unwrap_err().contains("line 1: this is"));
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

//! Why results could not be read or written, in one line.

use std::fmt;

/// Why results could not be read, written or drawn. Displays as one line that names the file and,
/// for bad JSON, the place: `results.json:3:14: missing field …`.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: Option<std::io::Error>,
}

impl Error {
    /// An error said in one line.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self { what: what.into(), source: Some(source) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

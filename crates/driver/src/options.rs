//! The options that all drivers share: `--safepoint`, `--report`, `--keep-out`, `--bound`.

use std::path::{Path, PathBuf};

/// What kind of fast path a safepoint has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The thread times itself.
    #[default]
    Clock,
    /// Another thread writes the poll word.
    Flag,
    /// The clock is read at every safepoint: what timing costs without a budget, to compare with.
    Rdtsc,
    /// No safepoints.
    None,
}

impl Kind {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Flag => "flag",
            Self::Rdtsc => "rdtsc",
            Self::None => "none",
        }
    }
}

/// What to instrument, how, and where to say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Kind of safepoints.
    pub kind: Kind,
    /// Where the pass appends what it did.
    pub report: Option<PathBuf>,
    /// A list of functions that get no safepoint.
    pub keep_out: Option<PathBuf>,
    /// Longest path without a safepoint, in IR instructions.
    pub bound: Option<u32>,
}

impl Options {
    /// Defaults, as changed by `CURTAIL_OPTIONS` (separated by U+001F), by which
    /// `cargo curtail` tells its compilers.
    ///
    /// # Errors
    /// What is wrong with the variable.
    pub fn from_environment() -> Result<Self, String> {
        let text = std::env::var("CURTAIL_OPTIONS").unwrap_or_default();
        let words = text.split('\u{1f}').filter(|word| !word.is_empty()).map(str::to_owned);
        let mut options = Self::default();
        let rest = options.take(words)?;
        rest.first().map_or(Ok(options), |word| Err(format!("CURTAIL_OPTIONS: unknown {word}")))
    }

    /// The inverse of [`Options::from_environment`].
    #[must_use]
    pub fn to_environment(&self) -> String {
        let mut words = vec![format!("--safepoint={}", self.kind.name())];
        let path = |name: &str, path: &Path| format!("--{name}={}", path.display());
        words.extend(self.report.iter().map(|file| path("report", file)));
        words.extend(self.keep_out.iter().map(|file| path("keep-out", file)));
        words.extend(self.bound.iter().map(|bound| format!("--bound={bound}")));
        words.join("\u{1f}")
    }

    /// Takes our options out of a command line and returns what is left.
    ///
    /// # Errors
    /// A bad or missing value.
    pub fn take(
        &mut self,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Vec<String>, String> {
        let mut rest = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            if !matches!(name, "--safepoint" | "--report" | "--keep-out" | "--bound") {
                rest.push(argument);
                continue;
            }
            let value = inline.or_else(|| arguments.next());
            let value = value.ok_or_else(|| format!("{name} wants a value"))?;
            self.set(name, &value)?;
        }
        Ok(rest)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--safepoint" => {
                self.kind = [Kind::Clock, Kind::Flag, Kind::Rdtsc, Kind::None]
                    .into_iter()
                    .find(|kind| kind.name() == value)
                    .ok_or_else(|| format!("--safepoint={value}: clock, flag, rdtsc or none"))?;
            }
            "--report" => self.report = Some(absolute(value)?),
            "--keep-out" => {
                let file = absolute(value)?;
                if !file.is_file() {
                    return Err(format!("--keep-out: there is no file {value}"));
                }
                crate::keep_out::read(&file)?;
                self.keep_out = Some(file);
            }
            _ => {
                let bound = value.parse().ok().filter(|bound| (20..=1_000_000).contains(bound));
                self.bound =
                    Some(bound.ok_or_else(|| format!("--bound={value}: from 20 to 1000000"))?);
            }
        }
        Ok(())
    }

    /// The pass's options, as its environment variable `CURTAIL_PASS` wants them. `tls`: `auto`,
    /// `local` or `initial`.
    ///
    /// # Errors
    /// A path that cannot be written there.
    pub fn for_pass(&self, tls: &str) -> Result<String, String> {
        let mut text = format!("kind={},tls={tls}", self.kind.name());
        if let Some(bound) = self.bound {
            text += &format!(",bound={bound}");
        }
        for (key, file) in [("report", &self.report), ("keep-out", &self.keep_out)] {
            if let Some(file) = file {
                let file = file.to_str().filter(|file| !file.contains(','));
                let file = file.ok_or_else(|| format!("--{key}: no commas in the path, please"))?;
                text += &format!(",{key}={file}");
            }
        }
        Ok(text)
    }
}

/// Compilers run in directories of their own.
fn absolute(path: &str) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn takes_its_own_options_and_leaves_the_rest() {
        let mut options = Options::default();
        let rest = options.take(words("-O2 --safepoint=flag a.c --bound 300 --report r.json -c"));
        assert_eq!(rest.unwrap(), words("-O2 a.c -c"));
        assert_eq!(options.kind, Kind::Flag);
        assert_eq!(options.bound, Some(300));
        assert!(options.report.as_ref().unwrap().is_absolute());
    }

    #[test]
    fn bad_values_are_named() {
        let mut options = Options::default();
        assert!(options.take(words("--safepoint=often")).unwrap_err().contains("often"));
        assert!(options.take(words("--bound 3")).unwrap_err().contains("--bound=3"));
        assert!(options.take(words("--report")).unwrap_err().contains("--report wants"));
        assert!(options.take(words("--keep-out /nowhere/x")).unwrap_err().contains("/nowhere/x"));
    }

    #[test]
    fn the_pass_gets_what_was_asked_for() {
        let mut options = Options::default();
        options.take(words("--safepoint flag --bound 99 --report /r")).unwrap();
        assert_eq!(options.for_pass("local").unwrap(), "kind=flag,tls=local,bound=99,report=/r");
        options.take(words("--report /a,b")).unwrap();
        assert!(options.for_pass("local").is_err());
    }

    #[test]
    fn survives_the_environment_form() {
        let mut options = Options::default();
        options.take(vec!["--report".into(), "/with space".into(), "--bound=50".into()]).unwrap();
        let mut copy = Options::default();
        let words: Vec<String> =
            options.to_environment().split('\u{1f}').map(str::to_owned).collect();
        assert!(copy.take(words).unwrap().is_empty());
        assert_eq!(copy, options);
    }
}

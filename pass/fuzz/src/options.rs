//! The command line.

use crate::source::Source;
use crate::variant::{FLAGS, KINDS, LEVELS, Variant};
use clap::Parser;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Compiles random programs with safepoints, and compares what they print
#[derive(Parser, Clone, Debug)]
#[command(name = "./x fuzz", args_override_self = true)]
pub(crate) struct Options {
    /// For how long
    #[arg(value_name = "MINUTES", default_value = "10", value_parser = minutes)]
    pub time: Duration,
    /// The first seed [default: by the time of day; it is printed]
    #[arg(long, value_name = "SEED", default_value_t = by_time(), hide_default_value = true)]
    from: u64,
    /// This many seeds instead of a time
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// One seed
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "count"])]
    seed: Option<u64>,
    /// The generator: own, csmith or ir [default: by the seed]
    #[arg(long, value_name = "S", value_parser = source)]
    pub source: Option<Source>,
    /// Every kind and level, several bounds
    #[arg(long)]
    pub all: bool,
    /// The kind of safepoint: clock or flag [default: three variants by the seed; with --seed and one
    /// of the next three, all that fit]
    #[arg(long, value_name = "K", value_parser = kind)]
    pub kind: Option<&'static str>,
    /// The level of optimisation: O0 O1 O2 O3 Os
    #[arg(long, value_name = "L", value_parser = level, allow_hyphen_values = true)]
    pub level: Option<&'static str>,
    /// The pass's bound
    #[arg(long, value_name = "N")]
    pub bound: Option<u32>,
    /// A set of the compiler's flags, as a finding prints it
    #[arg(long, value_name = "'F…'", value_parser = flags, allow_hyphen_values = true)]
    pub flags: Option<Flags>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    pub jobs: NonZeroUsize,
    /// Where findings go
    #[arg(long, value_name = "DIR", default_value_os_t = beside().with_file_name("fuzz"))]
    pub keep: PathBuf,
    /// Where `curtail-cc` and the pass are
    #[arg(long, value_name = "DIR", default_value_os_t = beside())]
    pub tools: PathBuf,
    /// Print the program that our own generator makes of a seed, and end
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "0")]
    pub print: Option<u64>,
}

/// Flags that stand together.
type Flags = &'static [&'static str];

fn by_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// This program's directory.
fn beside() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.parent().map(Path::to_owned).unwrap_or_default()
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())
}

fn known<T: Copy>(
    value: &str,
    of: impl IntoIterator<Item = (String, T)>,
) -> Result<T, &'static str> {
    of.into_iter().find(|(name, _)| name == value).map(|(_, it)| it).ok_or("there is none")
}

fn source(text: &str) -> Result<Source, &'static str> {
    known(text, Source::ALL.map(|(name, source)| (name.to_owned(), source)))
}

fn kind(text: &str) -> Result<&'static str, &'static str> {
    known(text, KINDS.iter().map(|&kind| (kind.to_owned(), kind)))
}

fn level(text: &str) -> Result<&'static str, &'static str> {
    let text = format!("-{}", text.trim_start_matches('-'));
    known(&text, LEVELS.iter().map(|&level| (level.to_owned(), level)))
}

fn flags(text: &str) -> Result<Flags, &'static str> {
    known(text, FLAGS.iter().map(|&flags| (flags.join(" "), flags)))
}

impl Options {
    /// The first seed.
    pub(crate) fn from(&self) -> u64 {
        self.seed.unwrap_or(self.from)
    }

    /// How many seeds, if not for a time.
    pub(crate) fn count(&self) -> Option<u64> {
        self.seed.map_or(self.count, |_| Some(1))
    }

    /// The variants of a seed: by the seed, with what is set here in place of the seed's.
    #[must_use]
    pub(crate) fn ways(&self, seed: u64) -> Vec<Variant> {
        let mut ways = if self.all {
            Variant::all()
        } else {
            Variant::of(&mut crate::dice::Dice::new(seed, 4))
        };
        for way in &mut ways {
            way.kind = self.kind.unwrap_or(way.kind);
            way.level = self.level.unwrap_or(way.level);
            way.bound = self.bound.or(way.bound);
            way.flags = self.flags.unwrap_or(way.flags);
        }
        // A finding that names a whole variant without bound or flags means: without.
        if let (Some(kind), Some(level)) = (self.kind, self.level) {
            let flags = self.flags.unwrap_or(&[]);
            return vec![Variant { kind, level, bound: self.bound, flags }];
        }
        ways.dedup();
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from([&["fuzz"], line].concat())
    }

    #[test]
    fn a_findings_line_names_its_variant() {
        for seed in 0..100 {
            for way in parse(&[]).unwrap().ways(seed) {
                let text = way.arguments();
                let (before, flags) = text.split_once(" --flags ").unwrap_or((&text, ""));
                let mut words: Vec<&str> = before.split_whitespace().collect();
                if !flags.is_empty() {
                    words.extend(["--flags", flags.trim_matches('\'')]);
                }
                assert_eq!(parse(&words).unwrap().ways(seed), [way]);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [&["--kind", "often"][..], &["--level"], &["soon"], &["--sed", "1"], &["-1"]] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }
}

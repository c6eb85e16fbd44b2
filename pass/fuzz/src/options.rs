//! The command line.

use crate::source::Source;
use crate::variant::{FLAGS, KINDS, LEVELS, Variant};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How to call it.
pub(crate) const USAGE: &str = "usage: ./x fuzz [MINUTES] [OPTIONS]
  MINUTES           for how long (default: 10)
  --from SEED       the first seed (default: by the time of day; it is printed)
  --count N         this many seeds instead of a time
  --seed N          one seed
  --source S        own, csmith or ir (default: by the seed)
  --kind K          clock or flag    ) without these, three variants by the seed;
  --level L         O0 O1 O2 O3 Os   ) with --seed and one of these, all that fit
  --bound N         the pass's bound )
  --flags 'F…'      a set of compiler flags, as a finding prints it
  --all             every kind and level, several bounds
  --jobs N          threads (default: 1)
  --keep DIR        where findings go (default: fuzz in the target directory)
  --tools DIR       curtail-cc and the pass (default: beside this program)";

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// For how long.
    pub time: Duration,
    /// The first seed.
    pub from: u64,
    /// How many.
    pub count: Option<u64>,
    /// The generator, if not by the seed.
    pub source: Option<Source>,
    /// All variants.
    pub all: bool,
    /// The kind of safepoint, in place of the seed's.
    pub kind: Option<&'static str>,
    /// The level of optimisation, in place of the seed's.
    pub level: Option<&'static str>,
    /// The bound, in place of the seed's.
    pub bound: Option<u32>,
    /// The compiler's flags, in place of the seed's.
    pub flags: Option<&'static [&'static str]>,
    /// Threads.
    pub jobs: usize,
    /// Where findings go.
    pub keep: PathBuf,
    /// Where our tools are.
    pub tools: PathBuf,
}

fn known<T: Copy>(
    name: &str,
    value: &str,
    of: impl IntoIterator<Item = (String, T)>,
) -> Result<T, String> {
    let mut of = of.into_iter();
    of.find(|(name, _)| name == value).map(|(_, it)| it).ok_or(format!("{name}: no {value}"))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: {value} is not a number that fits"))
}

impl Options {
    fn new() -> Result<Self, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let exe = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
        let tools = exe.parent().ok_or("where am I?")?.to_owned();
        let keep = tools.with_file_name("fuzz");
        Ok(Self {
            time: Duration::from_secs(600),
            from: now.as_secs(),
            count: None,
            source: None,
            all: false,
            kind: None,
            level: None,
            bound: None,
            flags: None,
            jobs: 1,
            keep,
            tools,
        })
    }

    /// Reads the command line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::new()?;
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            if name == "--all" {
                options.all = true;
            } else if !name.starts_with('-') {
                let minutes: f64 = number("MINUTES", &name)?;
                options.time = Duration::try_from_secs_f64(minutes * 60.0)
                    .map_err(|error| format!("MINUTES: {error}"))?;
            } else {
                let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
                options.set(&name, &value)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let named = |name: &&'static str| ((*name).to_owned(), *name);
        match name {
            "--from" => self.from = number(name, value)?,
            "--count" => self.count = Some(number(name, value)?),
            "--seed" => (self.from, self.count) = (number(name, value)?, Some(1)),
            "--bound" => self.bound = Some(number(name, value)?),
            "--jobs" => self.jobs = number::<usize>(name, value)?.max(1),
            "--keep" => self.keep = value.into(),
            "--tools" => self.tools = value.into(),
            "--kind" => self.kind = Some(known(name, value, KINDS.iter().map(named))?),
            "--level" => {
                let level = format!("-{}", value.trim_start_matches('-'));
                self.level = Some(known(name, &level, LEVELS.iter().map(named))?);
            }
            "--flags" => {
                let joined = FLAGS.iter().map(|flags| (flags.join(" "), *flags));
                self.flags = Some(known(name, value, joined)?);
            }
            "--source" => {
                let sources = Source::ALL.iter().map(|(name, it)| ((*name).to_owned(), *it));
                self.source = Some(known(name, value, sources)?);
            }
            _ => return Err(format!("unknown option {name}")),
        }
        Ok(())
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

    fn parse(line: &[&str]) -> Result<Options, String> {
        Options::parse(line.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn a_findings_line_names_its_variant() {
        for seed in 0..100 {
            for way in Options::parse(None::<String>).unwrap().ways(seed) {
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

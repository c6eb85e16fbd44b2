//! The command line.

use clap::error::ErrorKind;
use clap::{CommandFactory, Error, Parser, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// A kind of build, as `--safepoint` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Built by the same drivers, without safepoints.
    None,
    /// Polls a word.
    Flag,
    /// Times itself.
    Clock,
    /// Reads the clock at every safepoint: what timing costs if one is not clever about it.
    Rdtsc,
}

impl Kind {
    /// As `--safepoint` wants it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Flag => "flag",
            Self::Clock => "clock",
            Self::Rdtsc => "rdtsc",
        }
    }
}

/// Whose programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// Written for this.
    Own,
    /// Libraries that others wrote.
    Outside,
}

impl Set {
    /// As `--set` wants it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Outside => "outside",
        }
    }
}

/// A build, and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its column's title.
    pub name: String,
    /// The build.
    pub kind: Kind,
    /// `CURTAIL_TIMING`: fires at this quantum and records; `None`: it is not armed.
    pub quantum: Option<String>,
}

/// Measures what safepoints cost and how well they keep time
#[derive(Parser, Clone, Debug, PartialEq)]
#[command(name = "safepoint-suite", args_override_self = true)]
pub struct Options {
    /// The programs to choose from
    #[arg(long, value_enum, default_value_t = Set::Own)]
    pub set: Set,
    /// These programs only
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', overrides_with = "only")]
    pub only: Vec<String>,
    /// What to compare with the build without safepoints
    #[arg(long = "variants", value_name = "NAME,…", value_delimiter = ',', overrides_with = "names", default_value = "flag,clock,armed,rdtsc",
          value_parser = ["none", "flag", "clock", "armed", "rdtsc"])]
    names: Vec<String>,
    /// At which quanta `armed` fires; `rdtsc` at the first
    #[arg(long, value_name = "2us,…", value_delimiter = ',', overrides_with = "quanta", default_value = "2us", value_parser = quantum)]
    quanta: Vec<String>,
    /// How often each variant of each program runs
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// In how many layouts everything is built; rounds take them in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=LAYOUTS))]
    pub layouts: u32,
    /// How much the programs do: 1 is about a second
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = positive)]
    pub scale: f64,
    /// Count instructions, at this scale: it makes a program some ten to fifty times as slow
    #[arg(long, value_name = "SCALE", num_args = 0..=1, default_missing_value = "0.05", value_parser = positive)]
    pub instructions: Option<f64>,
    /// The core to run on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    /// Of the order in which things run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where the drivers are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub tools: Option<PathBuf>,
    /// Where the JSON goes, and the builds
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub out: PathBuf,
}

/// More say no more.
pub const LAYOUTS: i64 = 9;

impl Options {
    /// What is compared; the first is the build without safepoints.
    #[must_use]
    pub fn variants(&self) -> Vec<Variant> {
        let variant = |name: &str, kind, quantum: Option<&String>| Variant {
            name: name.to_owned(),
            kind,
            quantum: quantum.cloned(),
        };
        let mut all = vec![variant("none", Kind::None, None)];
        for name in &self.names {
            match name.as_str() {
                "flag" => all.push(variant(name, Kind::Flag, None)),
                "clock" => all.push(variant(name, Kind::Clock, None)),
                "armed" => all.extend(
                    self.quanta
                        .iter()
                        .map(|q| variant(&format!("armed {q}"), Kind::Clock, Some(q))),
                ),
                "rdtsc" => all.push(variant(name, Kind::Rdtsc, self.quanta.first())),
                _ => {}
            }
        }
        all
    }

    /// Reads a command line.
    ///
    /// # Errors
    /// What is wrong with it, or what else it asks for: its help.
    pub fn read(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, Error> {
        let mut options = Self::try_parse_from(words)?;
        // No name: all programs.
        options.only.retain(|name| !name.is_empty());
        let Self { rounds, layouts, .. } = options;
        // Each as often as the others.
        if rounds.is_multiple_of(layouts) {
            return Ok(options);
        }
        let why = format!("--rounds {rounds}: no multiple of the {layouts} layouts");
        Err(Self::command().error(ErrorKind::ValueValidation, why))
    }
}

/// A duration as `CURTAIL_TIMING` takes it.
fn quantum(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let known = matches!(&text[digits.len()..], "ns" | "us" | "ms" | "cycles");
    let is_one = known && positive(digits).is_ok();
    is_one.then(|| text.to_owned()).ok_or_else(|| "no duration such as 2us".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| format!("`{text}` is no number above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, Error> {
        Options::read(std::iter::once("safepoint-suite").chain(text.split_whitespace()))
    }

    fn names(options: &Options) -> Vec<String> {
        options.variants().into_iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn defaults_are_the_whole_suite() {
        let options = parse("").unwrap();
        assert_eq!((options.rounds, options.scale, options.instructions), (9, 1.0, None));
        assert_eq!(options.layouts, 1);
        assert_eq!(names(&options), ["none", "flag", "clock", "armed 2us", "rdtsc"]);
        assert_eq!(options.variants()[2].quantum, None);
        assert_eq!(options.variants()[4].quantum.as_deref(), Some("2us"));
    }

    #[test]
    fn quanta_are_variants_and_none_is_always_there() {
        let options = parse("--variants armed,none --quanta 1us,500ns --only lu,list").unwrap();
        assert_eq!(names(&options), ["none", "armed 1us", "armed 500ns"]);
        assert_eq!(options.only, ["lu", "list"]);
    }

    #[test]
    fn of_a_list_given_twice_the_last_one_counts() {
        let lists =
            "--variants flag --quanta 2us --only lu --variants armed --quanta 1us --only list";
        let options = parse(lists).unwrap();
        assert_eq!(names(&options), ["none", "armed 1us"]);
        assert_eq!(options.only, ["list"]);
        assert!(parse("--only lu --only=").unwrap().only.is_empty(), "no name: all");
    }

    #[test]
    fn the_set_is_ours_unless_said() {
        assert_eq!(parse("").unwrap().set, Set::Own);
        assert_eq!(parse("--set outside").unwrap().set, Set::Outside);
    }

    #[test]
    fn instructions_may_have_a_scale() {
        assert_eq!(parse("--instructions --rounds 1").unwrap().instructions, Some(0.05));
        assert_eq!(parse("--instructions 0.5").unwrap().instructions, Some(0.5));
    }

    #[test]
    fn bad_words_are_named() {
        for (line, word) in [
            ("--rounds 0", "--rounds"),
            ("--rounds x", "'x'"),
            ("--scale=-1", "'-1'"),
            ("--quanta 2", "'2'"),
            ("--quanta 0us", "'0us'"),
            ("--variants clocks", "'clocks'"),
            ("--only", "--only"),
            ("--set theirs", "'theirs'"),
            ("--layouts 0", "--layouts"),
            ("--layouts 10", "--layouts"),
            ("--layouts 3 --rounds 4", "--rounds 4"),
            ("lu", "'lu'"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}

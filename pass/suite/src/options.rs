//! The command line.

use std::path::PathBuf;

/// How to call it.
pub const USAGE: &str = "usage: safepoint-suite [--set own|outside] [--only NAME,…] [--variants flag,clock,armed,rdtsc] \
[--quanta 2us,…] [--rounds N] [--layouts N] [--scale F] [--instructions [SCALE]] [--core N] [--seed N] \
[--tools DIR] [--out DIR]";

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    fn parse(name: &str) -> Result<Self, String> {
        let all = [Self::Own, Self::Outside];
        all.into_iter()
            .find(|set| set.name() == name)
            .ok_or_else(|| format!("--set: there is no `{name}`"))
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

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The programs to choose from.
    pub set: Set,
    /// These programs only; all if empty.
    pub only: Vec<String>,
    /// What to compare; the first is the build without safepoints.
    pub variants: Vec<Variant>,
    /// How often each variant of each program runs.
    pub rounds: u32,
    /// In how many layouts everything is built; rounds take them in turn.
    pub layouts: u32,
    /// How much the programs do: 1 is about a second.
    pub scale: f64,
    /// Count instructions, at this scale.
    pub instructions: Option<f64>,
    /// The core to run on; `None`: the last one allowed.
    pub core: Option<usize>,
    /// Of the order in which things run.
    pub seed: u64,
    /// Where the drivers are; `None`: beside this program.
    pub tools: Option<PathBuf>,
    /// Where the JSON goes, and the builds.
    pub out: PathBuf,
}

/// More say no more.
pub const LAYOUTS: u32 = 9;

/// Counting makes a program some ten to fifty times as slow.
const INSTRUCTION_SCALE: f64 = 0.05;

impl Options {
    /// Reads a command line, without the program's name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            set: Set::Own,
            only: Vec::new(),
            variants: Vec::new(),
            rounds: 9,
            layouts: 1,
            scale: 1.0,
            instructions: None,
            core: None,
            seed: 1,
            tools: None,
            out: PathBuf::from("target/bench"),
        };
        let (mut names, mut quanta) = ("flag,clock,armed,rdtsc".to_owned(), "2us".to_owned());
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            if argument == "--instructions" {
                let scale = arguments.next_if(|next| !next.starts_with("--"));
                options.instructions =
                    Some(scale.map_or(Ok(INSTRUCTION_SCALE), |text| positive(&text))?);
                continue;
            }
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
            match argument.as_str() {
                "--set" => options.set = Set::parse(&value()?)?,
                "--only" => options.only = list(&value()?),
                "--variants" => names = value()?,
                "--quanta" => quanta = value()?,
                "--rounds" => options.rounds = number(&value()?)?,
                "--layouts" => options.layouts = number(&value()?)?,
                "--scale" => options.scale = positive(&value()?)?,
                "--core" => options.core = Some(number(&value()?)?),
                "--seed" => options.seed = number(&value()?)?,
                "--tools" => options.tools = Some(PathBuf::from(value()?)),
                "--out" => options.out = PathBuf::from(value()?),
                _ => return Err(format!("there is no option `{argument}`")),
            }
        }
        if options.rounds == 0 {
            return Err("--rounds 0 measures nothing".to_owned());
        }
        if !(1..=LAYOUTS).contains(&options.layouts) {
            return Err(format!("--layouts: from 1 to {LAYOUTS}"));
        }
        // Each as often as the others.
        if !options.rounds.is_multiple_of(options.layouts) {
            let (rounds, layouts) = (options.rounds, options.layouts);
            return Err(format!("--rounds {rounds}: no multiple of the {layouts} layouts"));
        }
        options.variants = variants(&list(&names), &list(&quanta))?;
        Ok(options)
    }
}

/// The variants by their names; `armed` is one for each quantum, `rdtsc` has the first of them.
fn variants(names: &[String], quanta: &[String]) -> Result<Vec<Variant>, String> {
    for quantum in quanta {
        let digits = quantum.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        if !matches!(&quantum[digits.len()..], "ns" | "us" | "ms" | "cycles")
            || positive(digits).is_err()
        {
            return Err(format!("--quanta: `{quantum}` is no duration such as 2us"));
        }
    }
    let variant = |name: &str, kind, quantum: Option<&String>| Variant {
        name: name.to_owned(),
        kind,
        quantum: quantum.cloned(),
    };
    let mut all = vec![variant("none", Kind::None, None)];
    for name in names {
        match name.as_str() {
            "none" => {}
            "flag" => all.push(variant("flag", Kind::Flag, None)),
            "clock" => all.push(variant("clock", Kind::Clock, None)),
            "armed" => all.extend(
                quanta.iter().map(|q| variant(&format!("armed {q}"), Kind::Clock, Some(q))),
            ),
            "rdtsc" => all.push(variant("rdtsc", Kind::Rdtsc, quanta.first())),
            _ => return Err(format!("--variants: there is no `{name}`")),
        }
    }
    Ok(all)
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| format!("`{text}` is no number above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    fn names(options: &Options) -> Vec<&str> {
        options.variants.iter().map(|variant| variant.name.as_str()).collect()
    }

    #[test]
    fn defaults_are_the_whole_suite() {
        let options = parse("").unwrap();
        assert_eq!((options.rounds, options.scale, options.instructions), (9, 1.0, None));
        assert_eq!(options.layouts, 1);
        assert_eq!(names(&options), ["none", "flag", "clock", "armed 2us", "rdtsc"]);
        assert_eq!(options.variants[2].quantum, None);
        assert_eq!(options.variants[4].quantum.as_deref(), Some("2us"));
    }

    #[test]
    fn quanta_are_variants_and_none_is_always_there() {
        let options = parse("--variants armed,none --quanta 1us,500ns --only lu,list").unwrap();
        assert_eq!(names(&options), ["none", "armed 1us", "armed 500ns"]);
        assert_eq!(options.only, ["lu", "list"]);
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
            ("--rounds x", "`x`"),
            ("--scale -1", "`-1`"),
            ("--quanta 2", "`2`"),
            ("--quanta 0us", "`0us`"),
            ("--variants clocks", "`clocks`"),
            ("--only", "--only wants"),
            ("--set theirs", "`theirs`"),
            ("--layouts 0", "--layouts"),
            ("--layouts 10", "--layouts"),
            ("--layouts 3 --rounds 4", "--rounds 4"),
            ("lu", "`lu`"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}

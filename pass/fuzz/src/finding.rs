//! What was found, and how it is kept.

use crate::source::Source;
use crate::tools::{Outcome, line};
use crate::variant::Variant;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The compiler fails, or complains.
    Build,
    /// The compiler takes for ever.
    SlowBuild,
    /// Another output, or another end.
    Miscompile,
    /// It does not end.
    Hang,
    /// It takes far longer, though nothing fires.
    Slow,
    /// opt or llc fails on instrumented IR.
    Ir,
    /// A program of our own generator is at fault, not the pass.
    Generator,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::SlowBuild => "slow-build",
            Self::Miscompile => "miscompile",
            Self::Hang => "hang",
            Self::Slow => "slow",
            Self::Ir => "ir",
            Self::Generator => "generator",
        }
    }
}

/// A finding, with all that is needed to see it again.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// What is wrong.
    pub what: What,
    /// In which variant.
    pub way: Option<Variant>,
    /// The commands that show it, in order.
    pub commands: Vec<String>,
    /// Files: names and texts.
    pub sources: Vec<(String, String)>,
    /// What else is known.
    pub notes: Vec<String>,
    /// The units whose lines differ.
    pub units: BTreeSet<usize>,
}

impl Finding {
    /// Of an outcome of the last command.
    #[must_use]
    pub(crate) fn new(
        what: What,
        way: Option<&Variant>,
        commands: &[&Command],
        out: &Outcome,
    ) -> Self {
        let errors: String = out.errors.chars().take(4000).collect();
        Self {
            what,
            way: way.cloned(),
            commands: commands.iter().map(|command| line(command)).collect(),
            sources: Vec::new(),
            notes: vec![format!("{:?} after {:?}", out.end, out.time), errors],
            units: BTreeSet::new(),
        }
    }

    /// Notes how an outcome differs from what was expected.
    pub(crate) fn compare(&mut self, expected: &Outcome, got: &Outcome) {
        self.notes.push(format!("expected {:?} after {:?}", expected.end, expected.time));
        let mut theirs = got.output.lines();
        for line in expected.output.lines() {
            let other = theirs.next();
            if other != Some(line) {
                self.notes.push(format!("expected {line}, got {}", other.unwrap_or("nothing")));
                self.units
                    .extend(line.split(' ').next().and_then(|word| word.parse::<usize>().ok()));
            }
        }
    }

    /// The command that finds it again.
    #[must_use]
    pub(crate) fn again(&self, seed: u64, source: Source) -> String {
        let mut text = format!("./x fuzz --seed {seed} --source {}", source.name());
        if let Some(way) = &self.way {
            text.push_str(&way.arguments());
        }
        text
    }

    /// Keeps it below `root` and returns the directory.
    ///
    /// # Errors
    /// Those of writing files.
    pub(crate) fn keep(&self, root: &Path, seed: u64, source: Source) -> io::Result<PathBuf> {
        let directory = root.join(format!("{}-{}-{seed}", self.what.name(), source.name()));
        fs::create_dir_all(&directory)?;
        for (name, text) in &self.sources {
            fs::write(directory.join(name), text)?;
        }
        let again = self.again(seed, source);
        let way = self.way.as_ref().map_or_else(String::new, Variant::name);
        let (commands, notes) = (self.commands.join("\n"), self.notes.join("\n"));
        let text = format!("{}\n{again}\n{way}\n{commands}\n{notes}\n", self.what.name());
        fs::write(directory.join("finding.txt"), text)?;
        Ok(directory)
    }

    /// One line.
    #[must_use]
    pub(crate) fn line(&self, seed: u64, source: Source) -> String {
        let way = self.way.as_ref().map_or_else(String::new, Variant::name);
        format!("FOUND {} ({way}): {}", self.what.name(), self.again(seed, source))
    }
}

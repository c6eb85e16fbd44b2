//! How the command ends when it does not succeed: one line, and an exit code.

use std::fmt::Display;
use std::process::ExitCode;

/// Why the command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for something that makes no sense: exit code 2.
    Usage(String),
    /// It tried and failed: exit code 1.
    Failed(String),
}

impl Failure {
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    pub(crate) fn failed(message: impl Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// Says it and gives the exit code.
    pub(crate) fn exit(&self) -> ExitCode {
        let (message, code) = match self {
            Self::Usage(message) => (message, 2),
            Self::Failed(message) => (message, 1),
        };
        say!("curtail: {}", one_line(message));
        ExitCode::from(code)
    }
}

impl From<curtail_experiment::Error> for Failure {
    fn from(error: curtail_experiment::Error) -> Self {
        match error {
            curtail_experiment::Error::Usage(message) => Self::Usage(message),
            other => Self::failed(other),
        }
    }
}

impl From<curtail_load::Error> for Failure {
    fn from(error: curtail_load::Error) -> Self {
        Self::failed(error)
    }
}

impl From<curtail_policy::ShapeError> for Failure {
    fn from(error: curtail_policy::ShapeError) -> Self {
        Self::usage(error)
    }
}

impl From<curtail_report::Error> for Failure {
    fn from(error: curtail_report::Error) -> Self {
        Self::failed(error)
    }
}

/// What clap has to say: help and version as they are, errors as one line.
pub(crate) fn parse_error(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed standard output is no reason to complain.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("what to do? see `curtail --help`").exit();
    }
    if let Some(value) = negative(error) {
        return Failure::usage(format!("`{value}`: nothing here may be negative")).exit();
    }
    let text = error.to_string();
    // The first paragraph is the error; usage and hints follow it.
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let paragraph = paragraph.strip_prefix("error: ").unwrap_or(paragraph);
    match meant(error) {
        Some(meant) => Failure::usage(format!("{paragraph}: did you mean `{meant}`?")).exit(),
        None => Failure::usage(paragraph).exit(),
    }
}

/// What is written nearly so.
fn meant(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let kinds =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(several) => several.first().cloned(),
        _ => None,
    })
}

/// A value like `-5ms`, which clap takes for options called `-5`.
fn negative(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => word,
        _ => return None,
    };
    let begins = |c: char| c.is_ascii_digit() || c == '.';
    let number = unknown.strip_prefix('-').is_some_and(|rest| rest.starts_with(begins));
    // Clap names the one letter; people want to see what they wrote.
    let whole = || std::env::args().find(|word| word.starts_with(unknown.as_str()));
    number.then(|| whole().unwrap_or_else(|| unknown.clone()))
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

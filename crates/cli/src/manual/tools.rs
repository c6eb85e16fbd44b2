//! The compilers' drivers and the verifier, which read their command lines themselves: described here for
//! their manuals and completions. A test compares them with what `--help` of each says.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};

/// All of them.
pub(super) fn commands() -> [Command; 4] {
    [cargo_curtail(), compiler("curtail-cc", "clang"), compiler("curtail-c++", "clang++"), verify()]
}

/// The options that the drivers share.
fn options() -> [Arg; 4] {
    let option =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    [
        option("safepoint", "KIND")
            .value_parser(PossibleValuesParser::new(["clock", "flag", "none"]))
            .help(
                "clock: safepoints time themselves (the default); flag: a dispatcher with a core of \
                 its own tells them; none: no safepoints",
            ),
        option("report", "FILE")
            .value_hint(ValueHint::FilePath)
            .help("What was instrumented, what was left out and why; FILE.txt sums it up"),
        option("keep-out", "FILE")
            .value_hint(ValueHint::FilePath)
            .help("Functions that get no safepoint, a name or pattern a line"),
        option("bound", "N")
            .help("The longest path without a safepoint, in instructions of LLVM"),
    ]
}

fn command(name: &'static str, about: &'static str) -> Command {
    Command::new(name).version(env!("CARGO_PKG_VERSION")).about(about).max_term_width(100)
}

fn cargo_curtail() -> Command {
    let new = Command::new("new")
        .about("Make the directory NAME with a server that builds and runs")
        .arg(Arg::new("threads").long("threads").action(ArgAction::SetTrue).help("One of threads"))
        .arg(
            Arg::new("axum")
                .long("axum")
                .action(ArgAction::SetTrue)
                .help("A web service with a pool"),
        )
        .arg(Arg::new("NAME").required(true).help("The name of the package"));
    let verbs = ["build", "run", "test", "bench", "check", "clippy", "clean"];
    command("cargo-curtail", "Cargo, with safepoints in what it builds")
        .override_usage(
            "cargo curtail new [--threads|--axum] NAME\n       \
             cargo curtail VERB [OPTIONS] [cargo's options …]",
        )
        .after_help(
            "Any other verb of cargo's works, too, also those that were installed. What it builds goes \
             to target/curtail/. CURTAIL_CLANG names another clang, CURTAIL_HOME where the pass is.",
        )
        .args(options())
        .subcommand(new)
        .subcommands(verbs.map(|verb| {
            Command::new(verb).about(format!("Cargo's {verb}; cargo help {verb} has its options"))
        }))
}

fn compiler(name: &'static str, clang: &'static str) -> Command {
    command(name, "A drop-in for clang, with safepoints in what it compiles and links")
        .override_usage(format!("{name} [OPTIONS] [{clang}'s options …] FILE …"))
        .after_help(format!(
            "All else is {clang}'s. Link by {name}, too: that is when safepoints are placed with all \
             of the program in view. A server of C also links -lcurtail_c, which is found by itself, \
             as curtail.h is."
        ))
        .disable_version_flag(true)
        .args(options())
        .arg(Arg::new("FILE").num_args(0..).value_hint(ValueHint::FilePath).help("What clang takes"))
}

fn verify() -> Command {
    let option =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    command("curtail-verify", "Report long paths of a program without a safepoint")
        .disable_version_flag(true)
        .arg(
            Arg::new("PROGRAM")
                .required(true)
                .value_hint(ValueHint::FilePath)
                .help("A linked, instrumented program"),
        )
        .arg(option("bound", "N").help(
            "The longest path allowed, in about machine instructions; three times what the program \
             was built with unless given",
        ))
        .arg(
            option("keep-out", "FILE")
                .value_hint(ValueHint::FilePath)
                .help("Functions that may have no safepoint, beside the built-in ones"),
        )
        .arg(option("json", "FILE").help("Everything as JSON; - is standard output"))
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .help("Every finding in the text, not the first 20 of each kind"),
        )
        .after_help(
            "Exit status: 0 nothing found, 1 findings or no safepoint at all, 2 bad usage or a file \
             that cannot be read.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The options that a text of help has, at the beginnings of its lines or behind `--threads`.
    fn named_in(text: &str) -> BTreeSet<String> {
        let letters = |c: char| c.is_ascii_lowercase() || c == '-';
        let words = text.split(|c: char| !letters(c)).filter_map(|word| word.strip_prefix("--"));
        // Those of every command, and one that is spoken of.
        let known = |word: &&str| !word.is_empty() && !matches!(*word, "help" | "version");
        words.filter(known).map(str::to_owned).collect()
    }

    fn described(command: &Command) -> BTreeSet<String> {
        let all = std::iter::once(command).chain(command.get_subcommands());
        let options = all.flat_map(Command::get_arguments).filter_map(Arg::get_long);
        options.map(str::to_owned).collect()
    }

    #[test]
    fn they_have_the_options_that_their_help_names() {
        let help = [
            curtail_driver::cargo::HELP.to_owned(),
            curtail_driver::cc::help("curtail-cc"),
            curtail_driver::cc::help("curtail-c++"),
            curtail_verify::USAGE.to_owned(),
        ];
        for (command, help) in commands().iter().zip(help) {
            assert_eq!(described(command), named_in(&help), "{}", command.get_name());
            command.clone().debug_assert();
        }
    }
}

//! Cargo's verbs, all of which `cargo curtail` passes on: how each is told of our compilers.

use std::env;
use std::process::Command;

/// How a verb of cargo is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It compiles, and takes the target and its directory as options.
    Builds,
    /// It removes what was built.
    Cleans,
    /// It compiles nothing of ours.
    Plain,
    /// A command that was installed beside cargo, or an alias: it may call cargo again, so it is told
    /// by the environment.
    Foreign,
}

const BUILDS: &[&str] = &[
    "b", "bench", "build", "c", "check", "clippy", "d", "doc", "fix", "install", "nextest", "r",
    "run", "rustc", "rustdoc", "t", "test",
];
const PLAIN: &[&str] = &[
    "--list",
    "add",
    "config",
    "fetch",
    "fmt",
    "generate-lockfile",
    "git-checkout",
    "info",
    "init",
    "locate-project",
    "login",
    "logout",
    "metadata",
    "owner",
    "package",
    "pkgid",
    "publish",
    "read-manifest",
    "remove",
    "report",
    "rm",
    "search",
    "tree",
    "uninstall",
    "update",
    "vendor",
    "verify-project",
    "version",
    "yank",
];
/// Options that cargo takes in front of a verb, and that have a value.
const WITH_VALUE: &[&str] = &["--color", "--config", "-Z", "-C"];

impl Verb {
    /// The verb of a word; where there is none, which may have been meant.
    pub(crate) fn of(word: &str) -> Result<Self, String> {
        if BUILDS.contains(&word) {
            return Ok(Self::Builds);
        }
        if word == "clean" {
            return Ok(Self::Cleans);
        }
        if PLAIN.contains(&word) {
            return Ok(Self::Plain);
        }
        let installed = installed();
        if installed.iter().any(|known| known == word) {
            return Ok(Self::Foreign);
        }
        Err(unknown(word, installed.iter().map(String::as_str)))
    }
}

/// Cargo, as it called us.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Where the verb stands: options of cargo may be in front of it.
pub(crate) fn position(words: &[String]) -> Option<usize> {
    let mut at = 0;
    loop {
        let word = words.get(at)?.as_str();
        match word {
            "--list" => return Some(at),
            "--" => return None,
            _ if WITH_VALUE.contains(&word) => at += 2,
            _ if word.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
}

/// What `cargo --list` has: its own verbs, what is installed, aliases of the project.
fn installed() -> Vec<String> {
    let listed = cargo().arg("--list").output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&listed);
    let lines = text.lines().filter(|line| line.starts_with(' '));
    lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

fn unknown<'a>(word: &str, installed: impl Iterator<Item = &'a str>) -> String {
    if word.starts_with('+') {
        return format!("the toolchain comes first: cargo {word} curtail …");
    }
    let known = BUILDS.iter().chain(PLAIN).chain(&["clean", "new"]).copied().chain(installed);
    // One letter in three may be wrong; a verb of one letter is an abbreviation, never meant.
    let near = known
        .filter(|known| known.len() > 1)
        .map(|known| (strsim::damerau_levenshtein(word, known), known))
        .filter(|&(distance, known)| distance * 3 <= known.len().max(word.len()))
        .min();
    match near {
        Some((_, near)) => format!("no verb `{word}`: did you mean `{near}`?"),
        None => format!("no verb `{word}`: cargo --list tells which there are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_of_cargos_is_passed_on() {
        for (word, verb) in [
            ("build", Verb::Builds),
            ("clippy", Verb::Builds),
            ("doc", Verb::Builds),
            ("clean", Verb::Cleans),
            ("tree", Verb::Plain),
            ("fmt", Verb::Plain),
        ] {
            assert_eq!(Verb::of(word), Ok(verb), "{word}");
        }
        let all = installed();
        assert!(all.len() > 30, "{all:?}");
        for word in all.iter().filter(|word| *word != "help" && *word != "new") {
            assert!(Verb::of(word).is_ok(), "{word}");
        }
    }

    #[test]
    fn what_was_meant_is_said() {
        let said = |word: &str| Verb::of(word).unwrap_err();
        for (word, meant) in [
            ("biuld", "`build`"),
            ("buidl", "`build`"),
            ("rn", "`run`"),
            ("tets", "`test`"),
            ("clipy", "`clippy`"),
            ("chekc", "`check`"),
            ("nwe", "`new`"),
        ] {
            assert!(said(word).contains(&format!("did you mean {meant}")), "{}", said(word));
        }
        assert!(said("frobnicate").contains("cargo --list"));
        assert!(said("+nightly").contains("cargo +nightly curtail"));
    }

    #[test]
    fn options_may_come_first() {
        let at =
            |text: &str| position(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(at("-q --color never build --release"), Some(3));
        assert_eq!(at("test -- --list"), Some(0));
        assert_eq!(at("--offline"), None);
        assert_eq!(at(""), None);
    }
}

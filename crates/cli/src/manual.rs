//! `curtail manual`: manuals and completions of all commands, as packages install them. It is hidden:
//! `ci/package/tree.sh` calls it.

mod tools;

use crate::Cli;
use crate::failure::Failure;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

/// `curtail manual`.
#[derive(Args)]
pub(crate) struct Manual {
    /// A directory, which gets what `/usr/share` has of these
    directory: PathBuf,
}

impl Manual {
    pub(crate) fn run(&self) -> std::result::Result<(), Failure> {
        let failed = |error| Failure::failed(format!("{}: {error}", self.directory.display()));
        commands()
            .into_iter()
            .try_for_each(|command| write(&self.directory, command))
            .map_err(failed)
    }
}

/// All commands that are installed.
fn commands() -> Vec<Command> {
    let mut all = vec![Cli::command(), curtaild::Options::command()];
    all.extend(tools::commands());
    all
}

/// Where each shell looks for completions below `/usr/share`, and under which name.
fn place(shell: Shell, name: &str) -> Option<PathBuf> {
    Some(match shell {
        Shell::Bash => Path::new("bash-completion/completions").join(name),
        Shell::Zsh => Path::new("zsh/site-functions").join(format!("_{name}")),
        Shell::Fish => Path::new("fish/vendor_completions.d").join(format!("{name}.fish")),
        _ => return None,
    })
}

fn write(directory: &Path, command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let Some(place) = place(shell, &name) else { continue };
        let file = directory.join(place);
        fs::create_dir_all(file.parent().unwrap_or(directory))?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), &name, &mut text);
        fs::write(file, text)?;
    }
    let manuals = directory.join("man/man1");
    fs::create_dir_all(&manuals)?;
    // Those of its verbs are named by it, as git's are.
    clap_mangen::generate_to(command.disable_help_subcommand(true), manuals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_manual_and_completions() {
        let base = std::env::temp_dir().join(format!("curtail-manual-{}", std::process::id()));
        Manual { directory: base.clone() }.run().unwrap();
        let text = |file: String| fs::read_to_string(base.join(file)).unwrap_or_default();
        let names =
            ["curtail", "curtaild", "cargo-curtail", "curtail-cc", "curtail-c++", "curtail-verify"];
        let texts: Vec<_> = names
            .iter()
            .map(|name| {
                let bash = text(format!("bash-completion/completions/{name}"));
                let zsh = text(format!("zsh/site-functions/_{name}"));
                let fish = text(format!("fish/vendor_completions.d/{name}.fish"));
                (text(format!("man/man1/{name}.1")), [bash, zsh, fish])
            })
            .collect();
        let (bench, hidden) =
            (text("man/man1/curtail-bench.1".into()), base.join("man/man1/curtail-manual.1"));
        let hidden = hidden.exists() || base.join("man/man1/curtail-help.1").exists();
        fs::remove_dir_all(&base).unwrap();
        for (name, (manual, completions)) in names.iter().zip(texts) {
            assert!(manual.contains(".SH SYNOPSIS") && manual.contains(".SH OPTIONS"), "{name}");
            assert!(completions.iter().all(|text| text.contains(name)), "{name}");
        }
        assert!(bench.contains("\\-\\-policy"), "{bench}");
        assert!(!hidden, "what is hidden has no manual, nor has `help`");
    }
}

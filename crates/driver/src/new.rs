//! `cargo curtail new NAME`: a directory with a server that builds and runs, and that `curtail top`
//! shows: the README's, or one of threads, or a web service.

use crate::sources::Sources;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The program, as the README of the repository shows it.
pub const MAIN: &str = include_str!("new/main.rs.txt");

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Template {
    Server,
    Threads,
    Axum,
}

impl Template {
    /// The program; the name is what it is shown by.
    fn program(self, name: &str) -> String {
        let text = match self {
            Self::Server => MAIN
                .replacen("use curtail::{", "use curtail_observe::Observable;\nuse curtail::{", 1)
                .replacen(
                    ".transport(udp).build()",
                    ".transport(udp).observable(\"NAME\").build()",
                    1,
                ),
            Self::Threads => include_str!("new/threads.rs.txt").to_owned(),
            Self::Axum => include_str!("new/axum.rs.txt").to_owned(),
        };
        text.replace("\"NAME\"", &format!("\"{name}\""))
    }

    /// Crates of ours that it stands on: their names, and their directories in the clone.
    fn ours(self) -> &'static [(&'static str, &'static str)] {
        let all =
            &[("curtail", "curtail"), ("curtail-observe", "observe"), ("curtail-tower", "tower")];
        if self == Self::Axum { all } else { &all[..2] }
    }

    fn others(self) -> &'static str {
        match self {
            Self::Server | Self::Threads => "",
            Self::Axum => {
                "axum = { version = \"0.8\", default-features = false, features = [\"http1\", \"tokio\"] }\n\
                 http = \"1\"\n\
                 tokio = { version = \"1\", features = [\"macros\", \"net\", \"rt-multi-thread\", \"signal\"] }\n"
            }
        }
    }

    /// What it is, and how to ask it.
    fn told(self) -> [&'static str; 2] {
        match self {
            Self::Server => {
                ["a server on udp://127.0.0.1:4000", "printf 1000 | nc -u -w 1 127.0.0.1 4000"]
            }
            Self::Threads => {
                ["a server of threads on 127.0.0.1:4001", "echo 1000 | nc -q 1 127.0.0.1 4001"]
            }
            Self::Axum => {
                ["a web service on http://127.0.0.1:4002", "curl http://127.0.0.1:4002/primes/1000"]
            }
        }
    }
}

const USAGE: &str = "usage: cargo curtail new [--threads|--axum] NAME";

/// Where the commands of this build are; a shell of the user's may not know.
fn commands() -> String {
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent).filter(|own| own.join("curtail").exists());
    own.map_or_else(String::new, |own| format!("    export PATH=\"{}:$PATH\"\n", own.display()))
}

/// Makes the project; what to say of it. Or what there is to make, where that is asked.
///
/// # Errors
/// A bad name, or a directory that is there already or can't be written.
pub fn run(arguments: &[String]) -> Result<String, String> {
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(format!(
            "{USAGE}\n\n\
             makes the directory NAME with a program that builds, runs and shows itself to curtail top:\n\
             a server of datagrams; --threads: one of threads; --axum: a web service with a pool"
        ));
    }
    let (mut kind, mut name) = (None, None);
    for word in arguments {
        let known = [("--threads", Template::Threads), ("--axum", Template::Axum)];
        match known.iter().find(|(option, _)| option == word) {
            Some(&(_, asked)) if kind.is_none() => kind = Some(asked),
            None if name.is_none() && !word.starts_with("--") => name = Some(word),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let Some(name) = name else { return Err(USAGE.to_owned()) };
    let kind = kind.unwrap_or(Template::Server);
    make(Path::new(name), kind)?;
    let [what, ask] = kind.told();
    Ok(format!(
        "made {name}: {what}\n\n\
         \u{20}   cd {name}\n    cargo curtail run --release\n\n\
         and from other terminals\n\n{}    {ask}\n    curtail top",
        commands()
    ))
}

fn make(directory: &Path, kind: Template) -> Result<(), String> {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check(name)?;
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let sources = Sources::find();
    let ours: Vec<_> = kind.ours().iter().map(|(name, _)| *name).collect();
    let configuration = sources.configuration(&ours)?;
    fs::create_dir(directory).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} is there already: choose another name", directory.display())
        }
        _ => failed(directory, error),
    })?;
    let files = [
        ("Cargo.toml", manifest(name, kind, &sources)),
        (".gitignore", "/target\n".to_owned()),
        ("src/main.rs", kind.program(name)),
    ];
    let configuration = configuration.map(|text| (".cargo/config.toml", text));
    for (file, text) in files.into_iter().chain(configuration) {
        let path = directory.join(file);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// A name that cargo takes for a package.
fn check(name: &str) -> Result<(), String> {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if begins && letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return Ok(());
    }
    Err(format!("`{name}` is no name for a package: letters, digits, - and _, a letter first"))
}

fn manifest(name: &str, kind: Template, sources: &Sources) -> String {
    let ours = kind.ours().iter();
    let ours: String = ours.map(|(name, at)| sources.dependency(name, at)).collect();
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{ours}{}\n\
         # Of its own, also inside of another.\n[workspace]\n",
        kind.others()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_makes_the_readmes_server() {
        let base = std::env::temp_dir().join(format!("curtail-new-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let project = base.join("primes");
        let said = run(&[project.display().to_string()]).unwrap();
        assert!(said.contains("cargo curtail run --release"), "{said}");
        let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("name = \"primes\"") && manifest.contains("curtail = "));
        let main = fs::read_to_string(project.join("src/main.rs")).unwrap();
        assert!(main.contains(".observable(\"primes\").build()") && main.contains("::Observable;"));
        assert_eq!(main.lines().count(), MAIN.lines().count() + 1);
        // A second one does not overwrite the first.
        let again = run(&[project.display().to_string()]).unwrap_err();
        fs::remove_dir_all(&base).unwrap();
        assert!(again.ends_with("primes is there already: choose another name"), "{again}");
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
        let readme = fs::read_to_string(readme).unwrap();
        assert!(readme.contains(MAIN), "the README's server and src/new/main.rs.txt are one text");
    }

    #[test]
    fn each_kind_is_made_and_shows_itself() {
        let base = std::env::temp_dir().join(format!("curtail-kinds-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let made: Vec<_> = ["--threads", "--axum"]
            .map(|kind| {
                let project = base.join(&kind[2..]);
                let said = run(&[project.display().to_string(), kind.to_owned()]);
                let read = |file| fs::read_to_string(project.join(file)).unwrap_or_default();
                (said, read("Cargo.toml"), read("src/main.rs"))
            })
            .into_iter()
            .collect();
        fs::remove_dir_all(&base).unwrap();
        for ((said, manifest, main), name) in made.iter().zip(["threads", "axum"]) {
            assert!(said.as_ref().unwrap().contains("curtail top"), "{said:?}");
            assert!(main.contains(&format!(".observable(\"{name}\")")), "{main}");
            assert!(manifest.contains("curtail-observe = "), "{manifest}");
            assert!(main.contains("; stop the other server or choose another port"), "{main}");
        }
        assert!(made[1].1.contains("curtail-tower = ") && made[1].1.contains("axum = "));
        assert!(run(&["--threads".into(), "--axum".into(), "x".into()]).is_err());
        assert!(run(&["--web".into(), "x".into()]).unwrap_err().contains("--axum"));
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", "7th", "a b", "a/..", "-x", "ü"] {
            assert!(run(&[name.to_owned()]).is_err(), "{name}");
        }
        assert!(run(&[]).unwrap_err().contains("usage"));
        let help = run(&["x".to_owned(), "--help".to_owned()]).unwrap();
        assert!(help.starts_with("usage: cargo curtail new") && help.contains("--axum"), "{help}");
    }
}

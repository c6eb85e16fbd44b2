//! `cargo curtail new NAME`: a directory with a server that builds and runs, the README's.

use std::fs;
use std::path::{Path, PathBuf};

/// The program, as the README of the repository shows it.
pub const MAIN: &str = include_str!("new/main.rs.txt");

/// Makes the project; what to say of it.
///
/// # Errors
/// A bad name, or a directory that is there already or can't be written.
pub fn run(arguments: &[String]) -> Result<String, String> {
    let [name] = arguments else { return Err("usage: cargo curtail new NAME".to_owned()) };
    make(Path::new(name))?;
    Ok(format!(
        "made {name}: a server on udp://127.0.0.1:4000\n\n\
         \u{20}   cd {name}\n    cargo curtail run --release\n\n\
         and from another terminal\n\n    printf 1000 | nc -u -w 1 127.0.0.1 4000"
    ))
}

fn make(directory: &Path) -> Result<(), String> {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check(name)?;
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir(directory).map_err(|error| failed(directory, error))?;
    for (file, text) in [
        ("Cargo.toml", manifest(name, &dependency())),
        (".gitignore", "/target\n".to_owned()),
        ("src/main.rs", MAIN.to_owned()),
    ] {
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

/// The runtime of the clone that these tools were built in, where that is still there.
fn dependency() -> String {
    let runtime = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../curtail"));
    match runtime.canonicalize() {
        Ok(path) => format!("{{ path = {:?} }}", path.display().to_string()),
        Err(_) => format!("{:?}", env!("CARGO_PKG_VERSION")),
    }
}

fn manifest(name: &str, dependency: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ncurtail = {dependency}\n\n\
         # Of its own, also inside of another.\n[workspace]\n"
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
        assert_eq!(fs::read_to_string(project.join("src/main.rs")).unwrap(), MAIN);
        // A second one does not overwrite the first.
        let again = run(&[project.display().to_string()]).unwrap_err();
        fs::remove_dir_all(&base).unwrap();
        assert!(again.contains("primes"), "{again}");
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
        let readme = fs::read_to_string(readme).unwrap();
        assert!(readme.contains(MAIN), "the README's server and src/new/main.rs.txt are one text");
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", "7th", "a b", "a/..", "-x", "ü"] {
            assert!(run(&[name.to_owned()]).is_err(), "{name}");
        }
        assert!(run(&[]).unwrap_err().contains("usage"));
    }
}

//! The programs of other authors: libraries in C out of crates of the package registry.
//!
//! Only the drivers are ours (`outside/NAME.c`: a job, a checksum). `outside/Cargo.toml` names the
//! crate of each and what of it is compiled; cargo fetches it, once, as its `Cargo.lock` pins it, and
//! tells where it lies. Nothing is copied.

use crate::catalogue::{Language, Program, entries};
use crate::compile::run;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What of a crate makes a program, below `package.metadata.programs` in the manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    /// In the crate; the others are in it.
    directory: String,
    /// For the compiler's `-I`.
    includes: Vec<String>,
    /// Files, or `*.c`: all of a directory.
    sources: Vec<String>,
    #[serde(default = "optimised")]
    flags: Vec<String>,
}

fn optimised() -> Vec<String> {
    vec!["-O2".to_owned()]
}

/// The drivers and their manifest, as they were when this was built.
#[must_use]
pub fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("outside")
}

/// The drivers below `home`, by name: programs that lack what they drive.
///
/// # Errors
/// A directory that can't be read.
pub fn programs(home: &Path) -> Result<Vec<Program>, String> {
    let mut all = Vec::new();
    for path in entries(home)?.into_iter().filter(|path| is_c(path)) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        all.push(Program { name, sources: vec![path], ..Program::empty(Language::C) });
    }
    Ok(all)
}

/// Fetches what `programs` drive, unless it is there already, and adds it to their sources.
///
/// # Errors
/// What cargo says: no registry, a manifest that is not as its lock file has it. A recipe that is
/// missing, or names what the crate doesn't have.
pub fn fetch(home: &Path, programs: &mut [Program]) -> Result<(), String> {
    let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    let metadata = told(&mut cargo(home, &names), &names)?;
    programs.iter_mut().try_for_each(|program| {
        complete(program, &metadata).map_err(|error| format!("{}: {error}", program.name))
    })
}

/// Fetches the crates of these programs, and tells of them.
fn cargo(home: &Path, names: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(home).args(["metadata", "--format-version", "1", "--quiet", "--locked"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    command.arg("--features").arg(names.join(","));
    command
}

fn told(cargo: &mut Command, names: &[&str]) -> Result<Value, String> {
    let metadata = run(cargo).map_err(|error| {
        format!(
            "no sources of {}, which cargo fetches from the package registry as \
             pass/suite/outside/Cargo.toml says: {}",
            names.join(", "),
            error.trim()
        )
    })?;
    serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))
}

fn complete(program: &mut Program, metadata: &Value) -> Result<(), String> {
    let root = &metadata["resolve"]["root"];
    let find = |list: &Value, key: &str, wanted: &Value| {
        let mut all = list.as_array().into_iter().flatten();
        all.find(|one| one[key] == *wanted).cloned().unwrap_or_default()
    };
    let package = |id: &Value| find(&metadata["packages"], "id", id);

    let recipes = &package(root)["metadata"]["programs"];
    let mut recipes: BTreeMap<String, Recipe> =
        serde_json::from_value(recipes.clone()).map_err(|error| format!("its recipe: {error}"))?;
    let recipe = recipes.remove(&program.name).ok_or("the manifest has no recipe for it")?;
    let needed = &find(&metadata["resolve"]["nodes"], "id", root)["deps"];
    let found = package(&find(needed, "name", &program.name.as_str().into())["pkg"]);
    let text = |key: &str| found[key].as_str().ok_or("cargo tells of no crate of that name");
    let (name, version, manifest) = (text("name")?, text("version")?, text("manifest_path")?);

    let directory = Path::new(manifest).with_file_name(&recipe.directory);
    for source in &recipe.sources {
        program.sources.extend(files(&directory.join(source))?);
    }
    program.includes = recipe.includes.iter().map(|include| directory.join(include)).collect();
    program.flags = recipe.flags;
    program.origin = Some(format!("{name} {version}"));
    Ok(())
}

/// The file, or all C files of the directory if it is called `*.c`.
fn files(source: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![source.to_path_buf()];
    if source.file_name().is_some_and(|name| name == "*.c") {
        found = entries(source.parent().unwrap_or(source))?;
        found.retain(|path| is_c(path));
    }
    let there = !found.is_empty() && found.iter().all(|path| path.is_file());
    there.then_some(found).ok_or_else(|| format!("{} is not there", source.display()))
}

fn is_c(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    /// A crate `made-up-sys` with three files, and what cargo would tell of it.
    fn made_up(scratch: &Path, recipe: Value) -> Value {
        fs::create_dir_all(scratch.join("c/more")).unwrap();
        for file in ["c/one.c", "c/more/two.c", "c/more/three.c", "c/more/four.h"] {
            fs::write(scratch.join(file), "").unwrap();
        }
        json!({
            "packages": [
                {"id": "ours", "metadata": {"programs": {"made-up": recipe}}},
                {"id": "theirs", "name": "made-up-sys", "version": "1.2.3+4",
                 "manifest_path": scratch.join("Cargo.toml")},
            ],
            "resolve": {
                "root": "ours",
                "nodes": [
                    {"id": "theirs", "deps": []},
                    {"id": "ours", "deps": [{"name": "made-up", "pkg": "theirs"}]},
                ],
            },
        })
    }

    fn driver(name: &str) -> Program {
        let sources = vec![format!("{name}.c").into()];
        Program { name: name.to_owned(), sources, ..Program::empty(Language::C) }
    }

    #[test]
    fn a_recipe_names_files_and_directories() {
        let scratch = tempfile::tempdir().unwrap();
        let recipe =
            json!({"directory": "c", "includes": ["more"], "sources": ["one.c", "more/*.c"]});
        let mut program = driver("made-up");
        complete(&mut program, &made_up(scratch.path(), recipe)).unwrap();
        let c = scratch.path().join("c");
        let sources = ["one.c", "more/three.c", "more/two.c"].map(|file| c.join(file));
        assert_eq!(program.sources[0], Path::new("made-up.c"));
        assert_eq!(program.sources[1..], sources);
        assert_eq!(program.includes, [c.join("more")]);
        assert_eq!(program.flags, ["-O2"]);
        assert_eq!(program.origin.as_deref(), Some("made-up-sys 1.2.3+4"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let recipe = |source: &str| json!({"directory": "c", "includes": [], "sources": [source]});
        for source in ["gone.c", "gone/*.c"] {
            let metadata = made_up(scratch.path(), recipe(source));
            let error = complete(&mut driver("made-up"), &metadata).unwrap_err();
            assert!(error.contains("gone"), "{error}");
        }
        let metadata = made_up(scratch.path(), recipe("one.c"));
        let error = complete(&mut driver("other"), &metadata).unwrap_err();
        assert!(error.contains("no recipe"), "{error}");
        let misspelt = json!({"directory": "c", "includes": [], "sources": [], "flag": ["-O3"]});
        let error = complete(&mut driver("made-up"), &made_up(scratch.path(), misspelt));
        assert!(error.unwrap_err().contains("`flag`"));
    }

    /// Cargo with an empty store and no network, whatever the machine has.
    #[test]
    fn no_registry_is_an_error_that_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        let mut command = cargo(&home(), &["lz4"]);
        command.env("CARGO_HOME", scratch.path()).env("CARGO_NET_OFFLINE", "true");
        let error = told(&mut command, &["lz4"]).unwrap_err();
        assert!(error.contains("no sources of lz4") && error.contains("offline"), "{error}");
    }

    /// Needs no crate: cargo only reads the manifest.
    #[test]
    fn every_driver_has_a_pinned_crate_and_a_recipe() {
        let mut command = cargo(&home(), &[]);
        let told = run(command.args(["--no-deps", "--offline"])).unwrap();
        let metadata: Value = serde_json::from_str(&told).unwrap();
        let package = &metadata["packages"][0];
        let recipes: BTreeMap<String, Recipe> =
            serde_json::from_value(package["metadata"]["programs"].clone()).unwrap();
        let drivers: Vec<String> =
            programs(&home()).unwrap().into_iter().map(|program| program.name).collect();
        assert!(drivers.len() >= 7, "{drivers:?}");
        assert_eq!(recipes.keys().cloned().collect::<Vec<_>>(), drivers);
        let needs = package["dependencies"].as_array().unwrap();
        assert_eq!(needs.len(), drivers.len());
        let lock = std::fs::read_to_string(home().join("Cargo.lock")).unwrap();
        for need in needs {
            let (name, version) = (&need["name"], need["req"].as_str().unwrap());
            let locked = format!("name = {name}\nversion = \"{}", version.trim_start_matches('='));
            assert!(lock.contains(&locked), "Cargo.lock is not of this manifest: {need}");
            assert!(drivers.iter().any(|driver| need["rename"] == driver.as_str()), "{need}");
            assert!(version.starts_with('='), "{need}");
            assert_eq!(need["optional"], true, "{need}");
        }
    }
}

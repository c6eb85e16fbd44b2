//! The rules, applied to this repository.

use curtail_tidy::arrows::{self, Package};
use curtail_tidy::tree::{File, files, root};
use curtail_tidy::{lengths, links, text, unsafety};
use std::process::Command;

fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn ours() -> Vec<File> {
    let files = files(&root()).unwrap();
    assert!(files.iter().any(|file| file.path == "crates/policy/src/lib.rs"), "no tree here");
    files.into_iter().filter(|file| !file.is_foreign()).collect()
}

fn packages() -> Vec<Package> {
    let root = root();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packages = arrows::parse(&String::from_utf8(output.stdout).unwrap(), &root).unwrap();
    assert!(packages.len() > 5, "cargo metadata tells of {} packages", packages.len());
    packages
}

#[test]
fn arrows_are_those_of_the_architecture() {
    let packages = packages();
    none(arrows::check(&packages));
    none(arrows::check_table(&packages));
}

#[test]
fn files_and_functions_are_short() {
    let exceptions = lengths::parse(include_str!("../exceptions.txt")).unwrap();
    let mut measured = Vec::new();
    for file in ours() {
        if lengths::SOURCE.contains(&file.extension()) {
            measured.push((file.path.clone(), file.text.lines().count(), lengths::FILE_LIMIT));
        }
        if file.extension() == "rs" {
            for (name, lines) in lengths::functions(&file.path, &file.text).unwrap() {
                measured.push((format!("{}::{name}", file.path), lines, lengths::FUNCTION_LIMIT));
            }
        }
    }
    none(lengths::check(&measured, exceptions));
}

#[test]
fn no_machine_paths_and_no_promises() {
    none(ours().iter().flat_map(|file| text::check(&file.path, &file.text)).collect());
}

#[test]
fn unsafe_only_where_allowed() {
    let (files, packages) = (ours(), packages());
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut complaints = unsafety::check_list(&names);
    for file in files.iter().filter(|file| file.extension() == "rs") {
        let below = |package: &&Package| file.path.starts_with(&format!("{}/src/", package.dir));
        let Some(package) = packages.iter().find(below) else { continue };
        if package.roots.contains(&file.path) {
            complaints.extend(unsafety::check_root(&package.name, &file.path, &file.text));
        }
        let path = &file.path[package.dir.len() + 1..];
        complaints.extend(unsafety::check_file(&package.name, path, &file.text).unwrap());
    }
    none(complaints);
}

#[test]
fn links_lead_somewhere() {
    let root = root();
    let mut complaints = Vec::new();
    for file in ours().iter().filter(|file| file.extension() == "md") {
        let here = root.join(&file.path).parent().expect("a file has a directory").to_path_buf();
        for target in links::targets(&file.text) {
            if !here.join(&target).exists() {
                complaints.push(format!("{}: {target} is not there", file.path));
            }
        }
    }
    none(complaints);
}

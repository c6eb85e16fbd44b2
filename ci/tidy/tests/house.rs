//! The rules, applied to this repository.

use curtail_tidy::arrows::{self, Package};
use curtail_tidy::lengths::{self, Size};
use curtail_tidy::links::Target;
use curtail_tidy::tree::{File, files, root};
use curtail_tidy::{
    circles, cpp, dead, links, members, messages, names, prose, sentences, text, unsafety,
};
use std::collections::BTreeMap;
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
fn what_is_measured_is_within_limits() {
    let mut sizes = Vec::new();
    let mut add = |name: String, count, limit, unit: &str| {
        sizes.push(Size { name, count, limit, unit: unit.to_owned() });
    };
    let mut methods = Vec::new();
    let mut modules = BTreeMap::<String, Vec<_>>::new();
    let mut types = BTreeMap::<String, Vec<String>>::new();
    for file in ours() {
        let path = &file.path;
        let mut functions = Vec::new();
        match file.extension() {
            "rs" => {
                let tokens = curtail_tidy::tokens(path, &file.text).unwrap();
                functions = lengths::functions(&tokens);
                methods.push((path.clone(), members::methods(tokens.clone())));
                if let Some((home, below)) = path.split_once("/src/")
                    && !below.contains("tests")
                {
                    let found = names::types(tokens.clone());
                    types.entry(home.to_owned()).or_default().extend(found);
                }
                if let Some((home, below)) = path.split_once("/src/")
                    && let Some(module) = circles::module(below)
                {
                    let uses = circles::uses(tokens);
                    modules.entry(home.to_owned()).or_default().push((module.to_owned(), uses));
                }
            }
            "c" | "cc" | "cpp" | "h" => {
                let found = cpp::scan(&file.text);
                functions = found.functions;
                for (name, count) in found.classes {
                    add(format!("{path}: {name}"), count, lengths::MEMBER_LIMIT, "members");
                }
            }
            _ => {}
        }
        let long = match file.extension() {
            "md" => prose::long(&file.text),
            "rs" => prose::long_comments(&file.text),
            _ => Vec::new(),
        };
        let unit = format!("paragraphs of over {} words, at lines {long:?}", prose::LIMIT);
        add(format!("{path}: paragraphs"), long.len(), lengths::PARAGRAPH_LIMIT, &unit);
        for (name, lines) in functions {
            add(format!("{path}::{name}"), lines, lengths::FUNCTION_LIMIT, "lines");
        }
        if lengths::SOURCE.contains(&file.extension()) {
            add(path.clone(), file.text.lines().count(), lengths::FILE_LIMIT, "lines");
        }
    }
    for (name, count) in members::by_type(&methods) {
        add(name, count, lengths::MEMBER_LIMIT, "methods");
    }
    for (home, found) in types.iter().filter(|(home, _)| home.starts_with("crates/")) {
        let twice = names::twice(found);
        let unit = format!("names of several types: {}", twice.join(", "));
        add(format!("{home}: names"), twice.len(), names::TWICE_LIMIT, &unit);
    }
    for (home, files) in modules {
        let count = circles::circles(&files).len();
        add(format!("{home}: circles"), count, lengths::CIRCLE_LIMIT, "modules on circles");
    }
    none(lengths::check(&sizes, lengths::parse(include_str!("../exceptions.txt")).unwrap()));
}

#[test]
fn every_file_is_used() {
    none(dead::check(&ours()));
}

#[test]
fn types_have_the_names_of_the_field() {
    let sources = ours().into_iter().filter(|file| file.extension() == "rs");
    let check = |file: File| {
        let tokens = curtail_tidy::tokens(&file.path, &file.text).unwrap();
        names::check(&file.path, &names::types(tokens))
    };
    none(sources.filter(|file| file.path.contains("/src/")).flat_map(check).collect());
}

#[test]
fn first_sentences_name_their_subjects() {
    let sources = ours().into_iter().filter(|file| file.extension() == "rs");
    let check = |file: File| {
        let lines = sentences::unnamed(curtail_tidy::tokens(&file.path, &file.text).unwrap());
        let say = move |line| format!("{}:{line}: say of what this is true", file.path);
        lines.into_iter().map(say).collect::<Vec<_>>()
    };
    none(sources.flat_map(check).collect());
}

/// The last commit before subjects were looked at.
const SUBJECTS_SINCE: &str = "e577020";

#[test]
fn subjects_of_commits_are_short() {
    let since = format!("{SUBJECTS_SINCE}..HEAD");
    let log = ["log", "--no-merges", "--format=%s", &since];
    let Ok(output) = Command::new("git").args(log).current_dir(root()).output() else { return };
    // A copy without its history has nothing to look at.
    if output.status.success() {
        none(prose::check_subjects(&String::from_utf8_lossy(&output.stdout)));
    }
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
        let here = root.join(&file.path);
        let folder = here.parent().expect("a file has a directory");
        for Target { file: to, part } in links::targets(&file.text) {
            let to = if to.is_empty() { here.clone() } else { folder.join(&to) };
            // Parts of other files than Markdown are lines, or none.
            let text = if part.is_empty() { None } else { std::fs::read_to_string(&to).ok() };
            let has_part = text.is_none_or(|text| links::parts(&text).contains(&part));
            if !to.exists() || to.extension().is_some_and(|it| it == "md") && !has_part {
                complaints.push(format!("{}: {} has no #{part}", file.path, to.display()));
            }
        }
    }
    none(complaints);
}

#[test]
fn messages_are_explained_and_those_explained_exist() {
    const PAGE: &str = "docs/src/wrong.md";
    let files = ours();
    let page = files.iter().find(|file| file.path == PAGE).expect("the page of messages");
    let explained = messages::documented(&page.text);
    assert!(explained.len() > 100, "{PAGE} explains {} messages", explained.len());

    let is_source = |file: &&File| {
        let path = &file.path;
        let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
        path.ends_with(".rs") && path.starts_with("crates/") && path.contains("/src/") && !is_test
    };
    let tokens = |file: &File| curtail_tidy::tokens(&file.path, &file.text).unwrap();
    let sources: Vec<&File> = files.iter().filter(is_source).collect();
    let strings: Vec<_> = sources.iter().map(|file| messages::strings(tokens(file))).collect();
    let mut complaints = messages::check_exist(PAGE, &explained, &strings);
    for file in sources {
        let said = messages::said(tokens(file));
        complaints.extend(messages::check_explained(&file.path, &said, &explained));
    }
    none(complaints);
}

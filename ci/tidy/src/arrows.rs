//! Who may depend on whom.

use serde_json::Value;
use std::path::Path;

/// Crates by directory, and the crates of ours that each may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("crates/alloc", &[]),
    ("crates/policy", &[]),
    ("crates/notation", &[]),
    ("crates/workload", &["crates/notation"]),
    ("crates/ring", &[]),
    ("crates/fiber", &[]),
    ("crates/signal", &["crates/fiber"]),
    ("crates/shm", &["crates/ring"]),
    ("crates/report", &[]),
    ("crates/chart", &["crates/report"]),
    ("crates/curtaild", &["crates/alloc", "crates/net", "crates/notation", "crates/shm"]),
    ("crates/driver", &[]),
    ("crates/verify", &["crates/driver"]),
    ("ci/tidy", &[]),
    ("pass/fuzz", &[]),
    ("crates/sched", &["crates/policy"]),
    ("crates/sim", &["crates/alloc", "crates/policy", "crates/sched", "crates/workload"]),
    // The two below run the runtime under a feature of theirs, and `spin` is what they have it serve.
    (
        "crates/load",
        &[
            "apps/kv",
            "apps/spin",
            "crates/curtail",
            "crates/net",
            "crates/report",
            "crates/workload",
        ],
    ),
    (
        "crates/experiment",
        &[
            "apps/spin",
            "crates/alloc",
            "crates/chart",
            "crates/curtail",
            "crates/load",
            "crates/net",
            "crates/observe",
            "crates/policy",
            "crates/report",
            "crates/sim",
            "crates/workload",
        ],
    ),
    (
        "python",
        &[
            "crates/policy",
            "crates/report",
            "crates/sim",
            "crates/experiment",
            "crates/workload",
            "crates/net",
        ],
    ),
    ("crates/net", &["crates/notation", "crates/ring", "crates/shm"]),
    (
        "crates/rt",
        &[
            "crates/policy",
            "crates/ring",
            "crates/fiber",
            "crates/net",
            "crates/shm",
            "crates/signal",
        ],
    ),
    ("crates/libc", &["crates/rt", "crates/fiber"]),
    ("crates/pthread", &["crates/libc", "crates/rt", "crates/fiber", "crates/signal"]),
    (
        "crates/server",
        &[
            "crates/rt",
            "crates/policy",
            "crates/sched",
            "crates/ring",
            "crates/fiber",
            "crates/net",
            "crates/shm",
        ],
    ),
    ("crates/pool", &["crates/server", "crates/rt", "crates/policy", "crates/fiber", "crates/net"]),
    (
        "crates/curtail",
        &[
            "crates/pool",
            "crates/server",
            "crates/rt",
            "crates/libc",
            "crates/policy",
            "crates/fiber",
            "crates/shm",
        ],
    ),
    ("crates/tower", &["crates/curtail"]),
    ("crates/observe", &["crates/curtail", "crates/report"]),
    ("crates/capi", &["crates/curtail", "crates/notation", "crates/observe"]),
];

/// What tests may use beyond that: the instruments, the policies, and what kthreads call.
const FOR_TESTS: &[&str] = &[
    "crates/alloc",
    "crates/libc",
    "crates/policy",
    "crates/workload",
    "crates/report",
    "crates/sim",
];

/// A package of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its directory, relative to the root.
    pub dir: String,
    /// The packages of ours that it depends on (their directories), and whether for tests only.
    pub needs: Vec<(String, bool)>,
    /// The roots of its libraries (of any kind) and binaries, relative to the repository's.
    pub roots: Vec<String>,
}

/// Targets that are no part of what is shipped: no rule is about their roots.
const ASIDE: &[&str] = &["test", "bench", "example", "custom-build"];

/// The packages that `cargo metadata --no-deps` tells of.
///
/// # Errors
/// Where it is not what Cargo writes.
pub fn parse(metadata: &str, root: &Path) -> Result<Vec<Package>, String> {
    let metadata: Value = serde_json::from_str(metadata).map_err(|error| error.to_string())?;
    let list = |value: &Value, key: &str| -> Result<Vec<Value>, String> {
        value[key].as_array().cloned().ok_or(format!("cargo metadata has no {key}"))
    };
    let text = |value: &Value, key: &str| -> Result<String, String> {
        value[key].as_str().map(str::to_owned).ok_or(format!("cargo metadata has no {key}"))
    };
    let relative = |path: &str| {
        Path::new(path).strip_prefix(root).map_or(path.into(), |p| p.to_string_lossy().into_owned())
    };
    let mut packages = Vec::new();
    for package in list(&metadata, "packages")? {
        let manifest = relative(&text(&package, "manifest_path")?);
        let mut needs = Vec::new();
        for dependency in list(&package, "dependencies")? {
            if let Some(path) = dependency["path"].as_str() {
                needs.push((relative(path), dependency["kind"] == "dev"));
            }
        }
        let mut roots = Vec::new();
        for target in list(&package, "targets")? {
            let aside = |kind: &Value| kind.as_str().is_some_and(|kind| ASIDE.contains(&kind));
            if !list(&target, "kind")?.iter().any(aside) {
                roots.push(relative(&text(&target, "src_path")?));
            }
        }
        let dir = manifest.trim_end_matches("/Cargo.toml").to_owned();
        packages.push(Package { name: text(&package, "name")?, dir, needs, roots });
    }
    Ok(packages)
}

/// Complaints about the arrows between packages.
#[must_use]
pub fn check(packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for Package { dir, needs, .. } in packages {
        if class(dir).is_none() {
            complaints
                .push(format!("{dir}: nothing says on what it may depend (ci/tidy/src/arrows.rs)"));
        }
        for (to, for_tests) in needs {
            let test_only =
                *for_tests && (FOR_TESTS.contains(&to.as_str()) || has_examples(dir, to));
            if !test_only && !allowed(dir, to) {
                complaints.push(format!("{dir} must not depend on {to}"));
            }
        }
    }
    complaints
}

/// Complaints about the table itself: what it lists is there.
#[must_use]
pub fn check_table(packages: &[Package]) -> Vec<String> {
    let all = ARROWS.iter().flat_map(|(from, to)| std::iter::once(from).chain(*to));
    let gone = all.filter(|dir| !packages.iter().any(|package| package.dir == **dir));
    gone.map(|dir| format!("{dir} is listed in ci/tidy/src/arrows.rs and is not there")).collect()
}

/// Whether the examples in the documentation of `dir` are programs of `to`: what users know it by.
fn has_examples(dir: &str, to: &str) -> bool {
    const FACADE: &str = "crates/curtail";
    to == FACADE && allowed(FACADE, dir)
}

enum Class {
    /// The command: may use everything.
    Cli,
    /// A benchmark or an application: everything but the command; an application no other either.
    Bench,
    App,
    Listed(&'static [&'static str]),
}

fn is_bench(dir: &str) -> bool {
    ["bench", "pass/suite"].iter().any(|root| Path::new(dir).starts_with(root))
}

fn class(dir: &str) -> Option<Class> {
    match dir {
        "crates/cli" => Some(Class::Cli),
        _ if is_bench(dir) => Some(Class::Bench),
        "examples" => Some(Class::App),
        _ if dir.starts_with("apps/") => Some(Class::App),
        _ => ARROWS.iter().find(|(name, _)| *name == dir).map(|(_, to)| Class::Listed(to)),
    }
}

fn allowed(from: &str, to: &str) -> bool {
    let is_cli = to == "crates/cli";
    match class(from) {
        Some(Class::Cli) => !is_bench(to),
        Some(Class::Bench) => !is_cli,
        // Parts of its own lie below it.
        Some(Class::App) => {
            to.starts_with(&format!("{from}/")) || to.starts_with("crates/") && !is_cli
        }
        Some(Class::Listed(list)) => list.contains(&to),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Package, check, check_table, parse};
    use std::path::Path;

    fn complaints(from: &str, to: &str, for_tests: bool) -> usize {
        let needs = vec![(to.to_owned(), for_tests)];
        let (name, dir) = ("p".to_owned(), from.to_owned());
        check(&[Package { name, dir, needs, roots: Vec::new() }]).len()
    }

    #[test]
    fn arrows_of_the_architecture_only() {
        for (from, to) in [
            ("crates/curtail", "crates/policy"),
            ("crates/server", "crates/sched"),
            ("crates/pool", "crates/server"),
            ("crates/sim", "crates/sched"),
            ("crates/sched", "crates/policy"),
            ("crates/net", "crates/ring"),
            ("crates/cli", "apps/kv"),
            ("crates/cli", "crates/curtail"),
            ("apps/kv", "crates/curtail"),
            ("apps/kv", "apps/kv/part"),
            ("bench", "apps/spin"),
            ("pass/suite", "crates/report"),
            ("crates/experiment", "crates/load"),
            ("crates/load", "apps/spin"),
        ] {
            assert_eq!(complaints(from, to, false), 0, "{from} → {to}");
        }
        for (from, to) in [
            ("crates/policy", "crates/workload"),
            ("crates/policy", "crates/sched"),
            ("crates/sched", "crates/workload"),
            ("crates/policy", "crates/curtail"),
            ("crates/net", "crates/rt"),
            ("crates/rt", "crates/server"),
            ("crates/rt", "crates/libc"),
            ("crates/libc", "crates/server"),
            ("crates/server", "crates/pool"),
            ("crates/server", "crates/curtail"),
            ("crates/curtail", "crates/cli"),
            ("crates/curtail", "apps/spin"),
            ("apps/kv", "apps/spin"),
            ("apps/kv", "apps/kv2"),
            ("apps/kv", "crates/cli"),
            ("bench", "crates/cli"),
            ("crates/cli", "pass/suite"),
            ("crates/driver", "crates/policy"),
            ("crates/load", "crates/experiment"),
            ("crates/sim", "crates/experiment"),
        ] {
            assert_eq!(complaints(from, to, false), 1, "{from} → {to}");
        }
    }

    #[test]
    fn tests_may_use_instruments_but_not_applications() {
        assert_eq!(complaints("apps/spin", "crates/workload", true), 0);
        assert_eq!(complaints("crates/curtail", "crates/workload", true), 0);
        assert_eq!(complaints("crates/curtail", "crates/workload", false), 1);
        assert_eq!(complaints("crates/curtail", "apps/spin", true), 1);
        assert_eq!(complaints("crates/rt", "crates/curtail", true), 0);
        assert_eq!(complaints("crates/rt", "crates/curtail", false), 1);
        assert_eq!(complaints("crates/alloc", "crates/curtail", true), 1);
    }

    #[test]
    fn a_crate_that_nobody_has_placed_is_found() {
        let package = Package {
            name: "new".into(),
            dir: "crates/new".into(),
            needs: Vec::new(),
            roots: Vec::new(),
        };
        assert_eq!(check(&[package]).len(), 1);
    }

    #[test]
    fn a_crate_that_is_gone_is_found() {
        let complaints = check_table(&[]);
        assert!(complaints.iter().any(|it| it.starts_with("crates/policy is listed")));
    }

    #[test]
    fn metadata_is_understood() {
        let metadata = r#"{"packages": [{"name": "a", "manifest_path": "/r/crates/a/Cargo.toml",
            "dependencies": [{"name": "b", "path": "/r/crates/b", "kind": null},
                             {"name": "c", "path": "/r/apps/c", "kind": "dev"},
                             {"name": "serde", "kind": null}],
            "targets": [{"kind": ["lib"], "src_path": "/r/crates/a/src/lib.rs"},
                        {"kind": ["cdylib"], "src_path": "/r/crates/a/src/c.rs"},
                        {"kind": ["staticlib", "rlib"], "src_path": "/r/crates/a/src/s.rs"},
                        {"kind": ["bin"], "src_path": "/r/crates/a/src/main.rs"},
                        {"kind": ["custom-build"], "src_path": "/r/crates/a/build.rs"},
                        {"kind": ["test"], "src_path": "/r/crates/a/tests/t.rs"}]}]}"#;
        let expected = Package {
            name: "a".into(),
            dir: "crates/a".into(),
            needs: vec![("crates/b".into(), false), ("apps/c".into(), true)],
            roots: ["lib", "c", "s", "main"].map(|it| format!("crates/a/src/{it}.rs")).to_vec(),
        };
        assert_eq!(parse(metadata, Path::new("/r")), Ok(vec![expected]));
        assert!(parse("{}", Path::new("/r")).is_err());
    }
}

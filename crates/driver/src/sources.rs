//! Where a new project takes Curtail's crates from: from the clone that the tools were built in, by its
//! path; or, where the tools came as a package, by versions, with a configuration of cargo's that
//! names the sources which came along.

use crate::layout::Layout;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the crates are.
#[derive(Clone, Debug)]
pub(crate) enum Sources {
    /// The directory `crates` of a clone.
    Clone(PathBuf),
    /// A directory with a directory for each crate, as `cargo package` makes them.
    Packaged(PathBuf),
    /// Nowhere here.
    Registry,
}

impl Sources {
    /// Those that belong to these tools.
    pub(crate) fn find() -> Self {
        if let Some(crates) = Layout::find().ok().and_then(|layout| layout.crates) {
            return Self::Packaged(crates);
        }
        let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        crates.canonicalize().map_or(Self::Registry, Self::Clone)
    }

    /// What a manifest says of a crate: its name, and its directory in a clone.
    pub(crate) fn dependency(&self, name: &str, directory: &str) -> String {
        match self {
            Self::Clone(crates) => {
                format!(
                    "{name} = {{ path = {:?} }}\n",
                    crates.join(directory).display().to_string()
                )
            }
            Self::Packaged(_) | Self::Registry => {
                format!("{name} = {:?}\n", env!("CARGO_PKG_VERSION"))
            }
        }
    }

    /// `.cargo/config.toml` for a project that depends on these crates, where it needs one.
    ///
    /// # Errors
    /// A crate that did not come along.
    pub(crate) fn configuration(&self, names: &[&str]) -> Result<Option<String>, String> {
        let Self::Packaged(crates) = self else { return Ok(None) };
        let mut needed = BTreeSet::new();
        for name in names {
            collect(crates, name, &mut needed)?;
        }
        let mut text =
            "# Curtail's crates came with its tools. Without this, cargo asks crates.io for \
                        them.\n[patch.crates-io]\n"
                .to_owned();
        for name in available(crates) {
            // Cargo warns of those that nothing needs.
            let mark = if needed.contains(&name) { "" } else { "# " };
            let path = crates.join(&name).display().to_string();
            text += &format!("{mark}{name} = {{ path = {path:?} }}\n");
        }
        Ok(Some(text))
    }
}

fn available(crates: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(crates).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A crate, and those of ours that it depends on. Cargo writes one table for each dependency into the
/// manifests of packages.
fn collect(crates: &Path, name: &str, found: &mut BTreeSet<String>) -> Result<(), String> {
    if !found.insert(name.to_owned()) {
        return Ok(());
    }
    let file = crates.join(name).join("Cargo.toml");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let tables = text.lines().filter_map(|line| line.strip_prefix("[dependencies."));
    for table in tables.filter_map(|table| table.strip_suffix(']')) {
        if table == "curtail" || table.starts_with("curtail-") {
            collect(crates, table, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_names_the_crates_that_it_needs_and_no_others() {
        let base = std::env::temp_dir().join(format!("curtail-sources-{}", std::process::id()));
        let krate = |name: &str, dependencies: &[&str]| {
            let directory = base.join(name);
            fs::create_dir_all(&directory).unwrap();
            let tables = dependencies.iter().map(|name| format!("[dependencies.{name}]\n"));
            fs::write(directory.join("Cargo.toml"), tables.collect::<String>()).unwrap();
        };
        krate("curtail", &["curtail-rt", "libc"]);
        krate("curtail-rt", &[]);
        krate("curtail-tower", &["curtail"]);
        let sources = Sources::Packaged(base.clone());
        let text = sources.configuration(&["curtail"]);
        let missing = sources.configuration(&["curtail-observe"]);
        fs::remove_dir_all(&base).unwrap();
        let text = text.unwrap().unwrap();
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "[patch.crates-io]");
        assert!(lines[1].starts_with("curtail = { path = \"/"), "{text}");
        assert!(
            lines[2].starts_with("curtail-rt = ") && lines[3].starts_with("# curtail-tower = ")
        );
        assert!(missing.unwrap_err().contains("curtail-observe/Cargo.toml"));
        let version = concat!("curtail = \"", env!("CARGO_PKG_VERSION"), "\"\n");
        assert_eq!(sources.dependency("curtail", "curtail"), version);
        let clone = Sources::Clone("/clone/crates".into());
        let path = "curtail-observe = { path = \"/clone/crates/observe\" }\n";
        assert_eq!(clone.dependency("curtail-observe", "observe"), path);
        assert_eq!(clone.configuration(&["curtail"]), Ok(None));
    }
}

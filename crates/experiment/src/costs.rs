//! Costs by name, and where calibrated ones are.

use crate::Error;
use curtail_sim::Costs;
use std::path::PathBuf;

/// `ideal` (nothing costs anything), `calibrated` (as `curtail calibrate` measured it on this
/// machine), or a file's.
///
/// # Errors
/// No such file, none that says something about costs, or a machine that was not calibrated.
pub fn costs(named: &str) -> Result<Costs, Error> {
    match named {
        "ideal" => Ok(Costs::IDEAL),
        "calibrated" => calibrated(),
        file => read(file),
    }
}

fn read(file: &str) -> Result<Costs, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::failed(format!("cannot read {file}: {error}")))?;
    Costs::parse(file, &text).map_err(Error::failed)
}

/// Where `curtail calibrate` leaves what it measured; `None`: this user has no home.
#[must_use]
pub fn calibration_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(config.join("curtail").join("costs.toml"))
}

fn calibrated() -> Result<Costs, Error> {
    match calibration_file() {
        Some(file) if file.exists() => read(&file.to_string_lossy()),
        Some(file) => Err(Error::failed(format!(
            "this machine was not calibrated (there is no {}; run curtail calibrate)",
            file.display()
        ))),
        None => Err(Error::failed(
            "this machine's calibration: neither XDG_CONFIG_HOME nor HOME is set",
        )),
    }
}

//! `curtail calibrate`: what things cost on this machine, for `sim --costs calibrated`.

use crate::args::{Json, List, cores};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use curtail_experiment::calibration_file;
use curtail_experiment::runtime::{Calibrated, QUANTA_NS, calibrate};
use std::path::PathBuf;

/// `curtail calibrate`.
#[derive(Args)]
pub(crate) struct Calibrate {
    /// Where to write the costs; `-`: nowhere [default: curtail/costs.toml in $XDG_CONFIG_HOME or
    /// ~/.config, which `--costs calibrated` reads]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How often everything is measured (some 60 ms each)
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// The length of a quantum where requests take turns
    #[arg(long, value_name = "DURATION", default_value = "2us", value_parser = quantum)]
    quantum: u64,
    /// The dispatcher's core and the worker's
    #[arg(long, value_name = "LIST", value_parser = cores)]
    cores: Option<List<usize>>,
    #[command(flatten)]
    json: Json,
}

fn quantum(text: &str) -> Result<u64, String> {
    let ns = curtail_workload::duration_ns(text).map_err(|error| error.to_string())?;
    if QUANTA_NS.contains(&ns) {
        Ok(ns)
    } else {
        Err("a quantum between 200ns and 25us".to_owned())
    }
}

impl Calibrate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let file = self.file()?;
        let cores = self.cores.as_ref().map(|cores| cores.0.clone());
        let found = calibrate(cores, self.quantum, self.rounds)?;
        let json = self.json.json.as_deref();
        output::listing(&Calibrated::HEADS, &found.rows(), &found.json(), json)?;
        output::beside(&found.notes, json)?;
        if let Some(file) = file {
            found.write(&file)?;
            output::beside(&[format!("written to {}", file.display())], json)?;
        }
        Ok(())
    }

    /// Where to write.
    fn file(&self) -> Result<Option<PathBuf>, Failure> {
        match &self.out {
            Some(out) if out.as_os_str() == "-" => Ok(None),
            Some(out) => Ok(Some(out.clone())),
            None => calibration_file().map(Some).ok_or_else(|| {
                Failure::failed("neither XDG_CONFIG_HOME nor HOME is set: say --out FILE")
            }),
        }
    }
}

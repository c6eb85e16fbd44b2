//! `curtail policies` and `curtail workloads`: what there is, and where it comes from.

use crate::args::Json;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use curtail_policy::Spec;
use curtail_workload::{NAMED, format_duration};

/// `curtail policies`.
#[derive(Args)]
pub(crate) struct Policies {
    #[command(flatten)]
    json: Json,
}

impl Policies {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for entry in curtail_policy::catalogue() {
            let spec = Spec::preset(entry.name).map_err(Failure::failed)?;
            let quantum_ns = spec.quantum.map(|quantum| quantum.0);
            rows.push(vec![
                [&[entry.name], entry.aliases].concat().join(", "),
                spec.preempt.to_string(),
                quantum_ns.map_or("-".to_owned(), format_duration),
                entry.line.to_owned(),
                entry.source.to_owned(),
            ]);
        }
        let heads = ["policy", "pre-emption", "quantum", "what it does", "from"];
        output::listing(&heads, &rows, &curtail_experiment::policies(), self.json.json.as_deref())
    }
}

/// `curtail workloads`.
#[derive(Args)]
pub(crate) struct Workloads {
    #[command(flatten)]
    json: Json,
}

impl Workloads {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for named in NAMED {
            let mix = named.mix();
            rows.push(vec![
                named.name.to_owned(),
                curtail_report::duration(mix.mean_ns()),
                named.about.to_owned(),
                named.source.to_owned(),
                mix.to_string(),
            ]);
        }
        let heads = ["workload", "mean", "what it is", "from", "classes (name:service:share)"];
        output::listing(&heads, &rows, &curtail_experiment::workloads(), self.json.json.as_deref())
    }
}

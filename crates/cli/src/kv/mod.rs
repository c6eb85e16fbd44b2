//! LevelDB under a mix of requests: what a store starts with, and what the mix costs on this
//! machine. For every verb that runs such a server in this process.

mod requests;
pub(crate) mod server;

use crate::failure::Failure;
use clap::Args;
use curtail_load::client::Client;
use curtail_policy::Spec;
use curtail_workload::{Class, Service};
use kv_app::load::{self, Mix};
use kv_app::protocol::{MAX_VALUE, Opcode};
use kv_app::{Engine, KvOptions};
pub(crate) use requests::KvRequests;
use server::Way;

/// What a store starts with.
#[derive(Args, Clone, Debug)]
pub(crate) struct KvArgs {
    /// Keys that are there from the start (kv)
    #[arg(long, value_name = "N", default_value_t = load::PAPER_KEYS)]
    keys: u32,
    /// Bytes of their values (kv)
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(0..=MAX_VALUE as i64))]
    value_size: u32,
    /// What keeps them (kv): leveldb, or rocksdb where this was built with it
    #[arg(long, value_name = "NAME", default_value = "leveldb")]
    engine: Engine,
}

impl KvArgs {
    /// The options as the application takes them.
    pub(crate) fn options(&self) -> KvOptions {
        let Self { keys, value_size, engine } = *self;
        KvOptions { keys, value_bytes: value_size as usize, engine, ..KvOptions::default() }
    }
}

/// A mix whose service times are known.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    /// With the classes that have a share, and their service times.
    pub(crate) mix: curtail_workload::Mix,
    /// The service times again, by class.
    pub(crate) services: Vec<u32>,
}

/// Measures the service times of a mix on an idle server, one request at a time.
pub(crate) fn measure(mix: &Mix, options: &KvOptions) -> Result<Measured, Failure> {
    let spec = Spec::preset("fcfs").map_err(Failure::failed)?;
    let classes = workload(mix, &[0; Opcode::ALL.len()])?;
    let connect = |url: &_| server::client(url, &classes, options);
    let ask = |mut client: Client| Ok(client.idle_services(classes.classes().len())?);
    let (services, _) = server::with((&spec, Way::default()), options, connect, ask)?;
    if services.contains(&0) {
        return Err(Failure::failed("the server did not say how long its service took"));
    }
    Ok(Measured { name: mix.name, mix: workload(mix, &services)?, services })
}

/// The opcodes that have a share, each a class of the workload, in this order.
pub(crate) fn opcodes(mix: &Mix) -> impl Iterator<Item = (Opcode, u32)> + use<> {
    Opcode::ALL.into_iter().zip(mix.weights).filter(|(_, share)| *share > 0)
}

/// The classes that have a share; `services` is by class, of these.
fn workload(mix: &Mix, services: &[u32]) -> Result<curtail_workload::Mix, Failure> {
    let class = |((opcode, share), &ns): ((Opcode, u32), &u32)| Class {
        name: opcode.name().to_owned(),
        share: f64::from(share),
        service: Service::Constant(u64::from(ns)),
    };
    let classes = opcodes(mix).zip(services).map(class).collect();
    curtail_workload::Mix::new(classes).map_err(Failure::failed)
}

impl Measured {
    /// The service times, and the rate that is load 1, in a line.
    pub(crate) fn told(&self, workers: usize, capacity_rps: Option<f64>) -> String {
        let duration = curtail_report::duration;
        let class = |(class, &ns): (&Class, &u32)| {
            format!("{} {}", class.name.to_uppercase(), duration(f64::from(ns)))
        };
        let classes: Vec<_> = self.mix.classes().iter().zip(&self.services).map(class).collect();
        let by_service = curtail_report::rate(self.mix.rate_rps(1.0, workers));
        let load_1 = match capacity_rps {
            None => format!("load 1 is {by_service} by these, the network not counted"),
            Some(capacity_rps) => format!(
                "load 1 is what was served in order of arrival, {}, of the {by_service} that these allow",
                curtail_report::rate(capacity_rps)
            ),
        };
        format!(
            "{}: service times {} (medians of this build on an idle server, where no safepoint \
             fires); {load_1}",
            self.name,
            classes.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_without_a_share_are_left_out() {
        let zippydb = workload(&Mix::ZIPPYDB, &[1_000, 2_000, 3_000, 4_000]).unwrap();
        assert_eq!(zippydb.classes().len(), 4);
        let halves = workload(&Mix::GET_SCAN_50, &[1_000, 3_000]).unwrap();
        let classes: Vec<_> = halves.classes().iter().map(|c| c.name.as_str()).collect();
        assert_eq!(classes, ["get", "scan"]);
        assert_eq!(halves.mean_ns(), 2_000.0);
    }
}

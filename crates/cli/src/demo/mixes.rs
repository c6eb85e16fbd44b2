//! The mixes of requests, and what they cost on this machine.

use super::WORKERS;
use super::server;
use crate::failure::Failure;
use curtail_policy::{Nanos, Spec};
use curtail_workload::{Class, Service};
use kv_app::load;
use kv_app::protocol::Opcode;

/// A mix and how it is measured.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    pub(super) kv: load::Mix,
    /// Concord §5.3.
    pub(super) quantum: Nanos,
    /// Of a run. Where half of the requests take a millisecond, it takes longer until there are
    /// enough; where there are writes, they make the store grow, and SCANs with it.
    duration_ns: u64,
    /// Below saturation: a load counts service alone, and where most requests take a microsecond,
    /// receiving and sending them through the kernel takes as long again and more.
    pub(super) loads: &'static [f64],
}

const ALL: [Mix; 2] = [
    Mix {
        kv: load::Mix::GET_SCAN_50,
        quantum: Nanos(2_000),
        duration_ns: 3_000_000_000,
        loads: &[0.3, 0.5, 0.7],
    },
    Mix {
        kv: load::Mix::ZIPPYDB,
        quantum: Nanos(5_000),
        duration_ns: 1_000_000_000,
        loads: &[0.2, 0.3, 0.4],
    },
];

/// A mix whose service times are known.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) duration_ns: u64,
    /// With the classes that have a share, and their service times.
    pub(super) mix: curtail_workload::Mix,
    /// The service times again, by class.
    pub(super) services: Vec<u32>,
}

/// The mixes of these names.
pub(super) fn named(names: &[String]) -> Result<Vec<Mix>, Failure> {
    let one = |name: &String| {
        let found = ALL.into_iter().find(|mix| mix.kv.name == name);
        found.ok_or_else(|| {
            let known = ALL.map(|mix| mix.kv.name).join(", ");
            Failure::usage(format!("--mix: there is no `{name}`, only {known}"))
        })
    };
    names.iter().map(one).collect()
}

impl Mix {
    /// Measures the service times on an idle server, one request at a time.
    pub(super) fn measure(&self) -> Result<Measured, Failure> {
        let spec = Spec::preset("fcfs").map_err(Failure::failed)?;
        let mix = self.workload(&[0; Opcode::ALL.len()])?;
        let ask = |url: &_| server::client(url, &mix)?.idle_services(mix.classes().len());
        let (services, _) = server::with(&spec, ask)?;
        if services.contains(&0) {
            return Err(Failure::failed("the server did not say how long its service took"));
        }
        let mix = self.workload(&services)?;
        Ok(Measured { name: self.kv.name, duration_ns: self.duration_ns, mix, services })
    }

    /// The classes that have a share; `services` is by class, of these.
    fn workload(&self, services: &[u32]) -> Result<curtail_workload::Mix, Failure> {
        let shares = Opcode::ALL.into_iter().zip(self.kv.weights).filter(|(_, share)| *share > 0);
        let class = |((opcode, share), &ns): ((Opcode, u32), &u32)| Class {
            name: opcode.name().to_owned(),
            share: f64::from(share),
            service: Service::Constant(u64::from(ns)),
        };
        let classes = shares.zip(services).map(class).collect();
        curtail_workload::Mix::new(classes).map_err(Failure::failed)
    }
}

impl Measured {
    /// The service times in a line.
    pub(super) fn told(&self) -> String {
        let duration = curtail_report::duration;
        let class = |(class, &ns): (&Class, &u32)| {
            format!("{} {}", class.name.to_uppercase(), duration(f64::from(ns)))
        };
        let classes: Vec<_> = self.mix.classes().iter().zip(&self.services).map(class).collect();
        format!(
            "{}: service times {} (medians of this build on an idle server, where no safepoint \
             fires); load 1 is {} by these, the network not counted",
            self.name,
            classes.join(", "),
            curtail_report::rate(self.mix.rate_rps(1.0, WORKERS)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_without_a_share_are_left_out() {
        let mixes = named(&["zippydb".to_owned(), "get-scan-50".to_owned()]).unwrap();
        let zippydb = mixes[0].workload(&[1_000, 2_000, 3_000, 4_000]).unwrap();
        assert_eq!(zippydb.classes().len(), 4);
        let halves = mixes[1].workload(&[1_000, 3_000]).unwrap();
        let classes: Vec<_> = halves.classes().iter().map(|c| c.name.as_str()).collect();
        assert_eq!(classes, ["get", "scan"]);
        assert_eq!(halves.mean_ns(), 2_000.0);
        assert!(
            matches!(named(&["usr".to_owned()]), Err(Failure::Usage(said)) if said.contains("`usr`"))
        );
    }
}

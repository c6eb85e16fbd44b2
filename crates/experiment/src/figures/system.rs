//! A simulated system, as a figure's table says it.

use crate::{Classifier, Error, Length, Offer, Setting, Source};
use curtail_policy::{Balance, CoreKind, Nanos, PreemptKind, Spec, Ties};
use curtail_sim::{Costs, Kthreads};
use curtail_workload::{Arrivals, Mix, Service, named};

/// A simulated system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System {
    /// Its workload's name, or its classes.
    pub(crate) workload: &'static str,
    pub(crate) workers: usize,
    pub(crate) policy: &'static str,
    /// `None`: the policy's own.
    pub(crate) quantum_ns: Option<u64>,
    pub(crate) ties: Option<Ties>,
    /// Makes what runs yield to what ranks before it, where the policy leaves that open.
    pub(crate) preemptive: bool,
    /// Workers for the shortest class alone, where the policy asks for their number.
    pub(crate) reserved: Option<u16>,
    /// The dispatcher runs nothing itself, whatever the policy says.
    pub(crate) dedicated: bool,
    /// What each worker does. `None`: the policy's own.
    pub(crate) core: Option<CoreKind>,
    /// A dispatcher for each worker, and how requests come to them.
    pub(crate) each: Option<Balance>,
    pub(crate) classifier: Classifier,
    /// Costs that it always has: by them a figure's systems differ.
    pub(crate) costs: Costs,
    /// How it ends quanta, where that costs something.
    pub(crate) ends: Ends,
}

/// How a system ends quanta. It matters under calibrated costs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// At safepoints, which make service longer and come late.
    Safepoints,
    /// By interrupts of so many nanoseconds of the worker's.
    Interrupts(u64),
    /// Not at all.
    Never,
}

impl System {
    /// Sixteen workers, no costs.
    pub(crate) const fn new(workload: &'static str, policy: &'static str) -> Self {
        Self {
            workload,
            workers: 16,
            policy,
            quantum_ns: None,
            ties: None,
            preemptive: false,
            reserved: None,
            dedicated: false,
            core: None,
            each: None,
            classifier: Classifier::Own,
            costs: Costs::IDEAL,
            ends: Ends::Safepoints,
        }
    }

    pub(crate) const fn quantum(self, ns: u64) -> Self {
        Self { quantum_ns: Some(ns), ..self }
    }

    pub(crate) const fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    pub(crate) const fn ties(self, ties: Ties) -> Self {
        Self { ties: Some(ties), ..self }
    }

    pub(crate) const fn costs(self, costs: Costs) -> Self {
        Self { costs, ..self }
    }

    pub(crate) const fn reserved(self, workers: u16) -> Self {
        Self { reserved: Some(workers), ..self }
    }

    pub(crate) const fn preemptive(self) -> Self {
        Self { preemptive: true, ..self }
    }

    pub(crate) const fn dedicated(self) -> Self {
        Self { dedicated: true, ..self }
    }

    pub(crate) const fn core(self, core: CoreKind) -> Self {
        Self { core: Some(core), ..self }
    }

    pub(crate) const fn each(self, balance: Balance) -> Self {
        Self { each: Some(balance), ..self }
    }

    pub(crate) const fn classified(self, by: Classifier) -> Self {
        Self { classifier: by, ..self }
    }

    pub(crate) const fn ends(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }

    pub(super) fn spec(&self) -> Result<Spec, Error> {
        let mut spec = Spec::preset(self.policy).map_err(Error::usage)?;
        if self.preemptive {
            spec = spec.with_preemptive(true).map_err(Error::usage)?;
            spec = spec.with_preempt(PreemptKind::Flag);
        }
        if let Some(core) = self.core {
            spec = spec.with_core(core).map_err(Error::usage)?;
        }
        if let Some(ns) = self.quantum_ns {
            spec = spec.with_quantum(Nanos(ns)).map_err(Error::usage)?;
        }
        if let Some(workers) = self.reserved {
            spec = spec.with_reserved(workers).map_err(Error::usage)?;
        }
        if self.dedicated {
            spec = spec.with_work_conserving(false).map_err(Error::usage)?;
        }
        match self.ties {
            Some(ties) => spec.with_ties(ties).map_err(Error::usage),
            None => Ok(spec),
        }
    }

    pub(super) fn mix(&self) -> Result<Mix, Error> {
        mix(self.workload)
    }

    /// Policies that profile their workload know it from the start: what is drawn is a steady state.
    /// `calibrated`: what everything costs beside what is the system's own.
    pub(super) fn setting(&self, jobs: u64, calibrated: Option<&Costs>) -> Result<Setting, Error> {
        let source = Source::Mix(self.mix()?);
        let arrivals = Arrivals::Poisson;
        let offer = Offer::new(self.workload.to_owned(), source, arrivals, Length::Jobs(jobs));
        let offer = offer.classified(self.classifier);
        Ok(Setting {
            costs: calibrated.map_or(self.costs, |costs| self.paid(costs)),
            // Classes at random have no service time to know.
            known: self.classifier == Classifier::Own,
            dispatchers: self.each.map_or(1, |_| self.workers),
            balance: self.each.unwrap_or_default(),
            // Where there is no dispatcher: the papers' kthreads keep their cores.
            kthreads: Kthreads { spin_ns: 1_000_000_000, ..Kthreads::default() },
            ..Setting::ideal(offer, self.workers)
        })
    }

    /// Its own costs on top of calibrated ones.
    fn paid(&self, calibrated: &Costs) -> Costs {
        let (base, own) = (*calibrated, self.costs);
        let (safepoints, interrupt) = match self.ends {
            Ends::Safepoints => (true, 0),
            Ends::Interrupts(ns) => (false, ns),
            Ends::Never => (false, 0),
        };
        let overshoot = if safepoints { base.overshoot } else { Service::Constant(0) };
        let instrumentation = if safepoints { base.instrumentation } else { 0.0 };
        Costs {
            receive: base.receive + own.receive,
            dispatch: base.dispatch + own.dispatch,
            hear: base.hear + own.hear,
            signal: base.signal + own.signal,
            ring: base.ring + own.ring,
            notify: base.notify + own.notify,
            start: base.start + own.start,
            switch: base.switch + own.switch + interrupt,
            finish: base.finish + own.finish,
            steal: base.steal + own.steal,
            park: base.park + own.park,
            wake: base.wake + own.wake,
            overshoot: if own.overshoot == Service::Constant(0) {
                overshoot
            } else {
                own.overshoot
            },
            instrumentation: instrumentation.max(own.instrumentation),
        }
    }
}

/// A named workload's mix, or that of these classes.
pub(super) fn mix(workload: &str) -> Result<Mix, Error> {
    if workload.contains(':') {
        return Mix::parse(workload).map_err(Error::usage);
    }
    Ok(named(workload).map_err(Error::usage)?.mix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_come_on_top_and_interrupts_need_no_safepoints() {
        let calibrated = Costs {
            switch: 100,
            ring: 300,
            overshoot: Service::Uniform(0, 50),
            instrumentation: 0.02,
            ..Costs::IDEAL
        };
        let system = System::new("tpcc", "shinjuku").costs(Costs { switch: 7, ..Costs::IDEAL });
        let costs = |system: System| system.setting(10, Some(&calibrated)).unwrap().costs;
        assert_eq!(costs(system), Costs { switch: 107, ..calibrated });
        let interrupted = costs(system.ends(Ends::Interrupts(600)));
        assert_eq!((interrupted.switch, interrupted.ring), (707, 300));
        assert_eq!(interrupted.overshoot, Service::Constant(0));
        assert!(interrupted.instrumentation == 0.0);
        let slow = Costs { instrumentation: 0.6, ..Costs::IDEAL };
        assert!(costs(system.costs(slow)).instrumentation == 0.6);
        // Nothing costs anything but what is the system's own.
        assert_eq!(system.ends(Ends::Interrupts(600)).setting(10, None).unwrap().costs.switch, 7);
    }
}

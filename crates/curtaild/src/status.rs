//! What the daemon does now, as JSON: for `curtaild --status` and for tests.

use crate::daemon::Daemon;
use crate::program::Program;
use curtail_alloc::{CoreId, Holding, KthreadId};
use curtail_shm::Class;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Daemon {
    pub(crate) fn status(&self, now_ns: u64) -> String {
        let cores = (0..).zip(&self.cpus).map(|(core, &cpu)| self.core(CoreId(core), cpu, now_ns));
        let programs = self.programs.iter().map(|program| self.program(program));
        json!({
            "pid": std::process::id(),
            "up_ns": now_ns.saturating_sub(self.started_ns),
            "interval_ns": self.interval_ns,
            "idlers": self.idlers.as_ref().map(|idlers| json!({
                "look": idlers.look(), "woken": idlers.woken(),
            })),
            "shared": self.shared,
            "spins": self.own_core.spins(),
            "cores": cores.collect::<Vec<Value>>(),
            "programs": programs.collect::<Vec<Value>>(),
            "counts": self.counts.to_json(),
        })
        .to_string()
    }

    fn core(&self, core: CoreId, cpu: u32, now_ns: u64) -> Value {
        let program = |kthread: KthreadId| self.programs.iter().find(|it| it.id == kthread.program);
        let name = |kthread: KthreadId| {
            let name = program(kthread).map(|it| &it.name);
            json!({ "program": name, "kthread": kthread.index })
        };
        // How long it has had it.
        let had_ns = |kthread: KthreadId| {
            let known = program(kthread)?.kthreads.get(kthread.index as usize)?;
            Some(now_ns.saturating_sub(known.granted_ns))
        };
        match self.allocator.holding(core) {
            Holding::Free => json!({"cpu": cpu, "state": "free"}),
            Holding::Held(kthread) => {
                json!({
                    "cpu": cpu, "state": "held", "by": name(kthread), "for_ns": had_ns(kthread),
                })
            }
            Holding::Leaving(kthread, heir) => json!({
                "cpu": cpu, "state": "leaving", "by": name(kthread),
                "for_ns": had_ns(kthread), "heir": heir.map(name),
            }),
        }
    }

    fn program(&self, program: &Program) -> Value {
        let spec = program.page.spec();
        json!({
            "name": program.name,
            "pid": program.pid.as_raw_nonzero().get(),
            "class": if program.is_batch() { "batch" } else { "latency-critical" },
            "looks": spec.class == Class::Batch { looks: true },
            "kthreads": program.kthreads.len(),
            "guaranteed": spec.guaranteed,
            "burstable": spec.burstable,
            "cores": self.allocator.cores_of(program.id),
            "demoted": program.is_demoted,
            "poller": program.pollers[0].is_some(),
            "poll_words": program.poll_words.is_some(),
            "port": program.port.as_ref().map(|port| json!({
                "url": port.url(), "received": port.received, "answered": port.answered,
                "dropped": port.dropped,
                "counters": port.counters().into_iter().collect::<BTreeMap<_, _>>(),
            })),
            "grants": program.grants,
            "evictions": program.evictions,
            "moves": program.moves,
        })
    }
}

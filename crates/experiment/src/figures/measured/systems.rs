//! The papers' prototypes: which policy each is here, and by what it ends quanta.

use super::super::figure::{Curve, Of, Sweep};
use super::super::system::{Ends, System};

/// Interrupts as Concord's §2.2.1 has them: 1,200 cycles at 2 GHz.
pub(super) const CONCORDS_INTERRUPT: Ends = Ends::Interrupts(600);

/// As Perséphone's §5.4.2 implies: 620 µs for 500 µs in quanta of 5 µs. (Its §1 says 2 µs.)
pub(super) const PERSEPHONES_INTERRUPT: Ends = Ends::Interrupts(1_200);

/// As Tiny Quanta's §1 has them.
pub(super) const TINY_QUANTAS_INTERRUPT: Ends = Ends::Interrupts(1_000);

/// Requests run to completion, from one queue.
pub(super) const fn c_fcfs(workload: &'static str) -> System {
    System::new(workload, "fcfs").ends(Ends::Never)
}

/// Shenango, and Caladan: kthreads that steal, and keep their cores.
pub(super) const fn stealing(workload: &'static str) -> System {
    System::new(workload, "shenango").ends(Ends::Never)
}

/// Shinjuku with one queue.
pub(super) const fn shinjuku(workload: &'static str, quantum_ns: u64, ends: Ends) -> System {
    System::new(workload, "shinjuku").quantum(quantum_ns).ends(ends)
}

/// Shinjuku with a queue for each class.
pub(super) const fn shinjuku_mq(workload: &'static str, quantum_ns: u64, ends: Ends) -> System {
    System::new(workload, "shinjuku-mq").quantum(quantum_ns).ends(ends)
}

/// Perséphone.
pub(super) const fn darc(workload: &'static str) -> System {
    System::new(workload, "darc").ends(Ends::Never)
}

/// Concord.
pub(super) const fn concord(workload: &'static str, quantum_ns: u64) -> System {
    System::new(workload, "concord").quantum(quantum_ns)
}

/// Tiny Quanta.
pub(super) const fn tiny_quanta(workload: &'static str, quantum_ns: u64) -> System {
    System::new(workload, "tq").quantum(quantum_ns)
}

/// All requests' slowdown at each of these loads.
pub(super) const fn at(
    label: &'static str,
    system: System,
    workers: usize,
    loads: &'static [f64],
) -> Curve {
    let system = system.workers(workers);
    Curve { label, sweep: Sweep::Loads { system, loads, of: Of::All } }
}

/// Loads of a measured figure.
pub(super) const LOADS: &[f64] = &[0.2, 0.35, 0.5, 0.6, 0.7, 0.75, 0.85, 0.95];

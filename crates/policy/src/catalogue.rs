//! The policies that there are, by name: points in the space that [`Spec`] spans.

use crate::{CoreKind, DarcOptions, Dispatch, Nanos, PreemptKind, Spec, Ties, Victim};

/// A policy with a name.
pub struct Entry {
    /// The name; also that of [`Spec::name`].
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it does, in one line.
    pub line: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    dispatch: Dispatch,
    core: CoreKind,
    quantum: Option<Nanos>,
    jbsq: u16,
    preempt: PreemptKind,
    preemptive: bool,
    work_conserving: bool,
}

impl Entry {
    pub(crate) fn spec(&self) -> Spec {
        Spec {
            name: self.name.to_owned(),
            dispatch: self.dispatch,
            core: self.core,
            ties: Ties::Msq,
            quantum: self.quantum,
            jbsq: self.jbsq,
            preempt: self.preempt,
            work_conserving: self.work_conserving,
            preemptive: self.preemptive,
            victim: Victim::Random,
            classes: Vec::new(),
            reserved: None,
            darc: DarcOptions::default(),
            own: None,
        }
    }

    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// All named policies, in the order in which they build on each other.
#[must_use]
pub fn catalogue() -> &'static [Entry] {
    CATALOGUE
}

/// Those of them that a dispatcher can work by: [`Spec::build`] makes their part of it.
pub fn dispatched() -> impl Iterator<Item = &'static Entry> + Clone {
    CATALOGUE.iter().filter(|entry| !entry.dispatch.is_dispatcherless())
}

const TWO_US: Option<Nanos> = Some(Nanos::from_micros(2));

/// What the entries below have in common with c-FCFS, they leave out.
const C_FCFS: Entry = Entry {
    name: "fcfs",
    aliases: &["c-fcfs"],
    line: "one queue, jobs run to completion in the order of arrival",
    source: "c-FCFS, Perséphone §2",
    dispatch: Dispatch::CentralFcfs,
    core: CoreKind::Fcfs,
    quantum: None,
    jbsq: 1,
    preempt: PreemptKind::Never,
    preemptive: false,
    work_conserving: false,
};

static CATALOGUE: &[Entry] = &[
    C_FCFS,
    Entry {
        name: "dfcfs",
        aliases: &["d-fcfs"],
        line: "a queue for each worker, filled at random, run to completion, no stealing",
        source: "d-FCFS, Perséphone §2",
        dispatch: Dispatch::Random,
        jbsq: Spec::UNBOUNDED,
        ..C_FCFS
    },
    Entry {
        name: "jbsq",
        aliases: &[],
        line: "c-FCFS that pushes into inboxes of k jobs ahead of their turn",
        source: "JBSQ(k), Concord §3.2",
        jbsq: 2,
        ..C_FCFS
    },
    Entry {
        name: "ps",
        aliases: &["central-ps"],
        line: "one queue, a quantum each in turn, self-timed",
        source: "centralised processor sharing, Tiny Quanta §2",
        dispatch: Dispatch::CentralPs,
        quantum: TWO_US,
        preempt: PreemptKind::Clock,
        ..C_FCFS
    },
    Entry {
        name: "shinjuku",
        aliases: &[],
        line: "one queue, a quantum each in turn, the dispatcher interrupts",
        source: "Shinjuku, as in Concord §2 and §5",
        dispatch: Dispatch::CentralPs,
        quantum: Some(Nanos::from_micros(5)),
        preempt: PreemptKind::Flag,
        ..C_FCFS
    },
    Entry {
        name: "concord",
        aliases: &[],
        line: "shinjuku with inboxes of k jobs and a dispatcher that runs jobs when these are full",
        source: "Concord §3",
        dispatch: Dispatch::CentralPs,
        quantum: TWO_US,
        jbsq: 2,
        preempt: PreemptKind::Flag,
        work_conserving: true,
        ..C_FCFS
    },
    Entry {
        name: "tq",
        aliases: &["tiny-quanta"],
        line: "each job to the worker with the fewest, the most serviced on a tie; sharing on each core",
        source: "Tiny Quanta §3.2",
        dispatch: Dispatch::Jsq,
        core: CoreKind::Ps,
        quantum: TWO_US,
        jbsq: Spec::UNBOUNDED,
        preempt: PreemptKind::Clock,
        ..C_FCFS
    },
    Entry {
        name: "steal",
        aliases: &["work-stealing"],
        line: "a queue for each worker, filled at random; idle workers steal",
        source: "work stealing, ZygOS, as Perséphone §5.1 has it",
        dispatch: Dispatch::Steal,
        ..C_FCFS
    },
    SHENANGO,
    Entry {
        name: "shenango-ps",
        aliases: &[],
        line: "shenango, and a thread that others wait for yields after its quantum",
        source: "Shenango §5 with the quanta of Tiny Quanta §3.1",
        core: CoreKind::Ps,
        quantum: TWO_US,
        preempt: PreemptKind::Clock,
        ..SHENANGO
    },
    Entry {
        name: "fp",
        aliases: &["fixed-priority"],
        line: "the class of the highest priority first, by default the first class",
        source: "fixed priority, Perséphone Table 5",
        dispatch: Dispatch::FixedPriority,
        ..C_FCFS
    },
    Entry {
        name: "sjf",
        aliases: &[],
        line: "the shortest job first, by hint or by its class's mean",
        source: "shortest job first, Perséphone Table 5",
        dispatch: Dispatch::Sjf,
        ..C_FCFS
    },
    Entry {
        name: "srpt",
        aliases: &[],
        line: "the job with the least left first, whatever runs",
        source: "shortest remaining processing time, Perséphone Table 5",
        dispatch: Dispatch::Srpt,
        quantum: TWO_US,
        preempt: PreemptKind::Flag,
        preemptive: true,
        ..C_FCFS
    },
    Entry {
        name: "edf",
        aliases: &[],
        line: "the earliest deadline first, by default ten mean service times of the class",
        source: "earliest deadline first, Perséphone Table 5",
        dispatch: Dispatch::Edf,
        ..C_FCFS
    },
    Entry {
        name: "wrr",
        aliases: &[],
        line: "classes in turn, as many jobs each as its weight",
        source: "weighted round robin, Perséphone Table 5",
        dispatch: Dispatch::Wrr,
        ..C_FCFS
    },
    Entry {
        name: "drr",
        aliases: &[],
        line: "classes in turn, as much measured service each as its weight",
        source: "deficit round robin, Perséphone Table 5",
        dispatch: Dispatch::Drr,
        ..C_FCFS
    },
    Entry {
        name: "shinjuku-mq",
        aliases: &["multi-queue"],
        line: "a queue for each class, the one next that has waited longest for its objective",
        source: "Shinjuku's multi-queue policy, as in Perséphone §5.1",
        dispatch: Dispatch::MultiQueue,
        quantum: Some(Nanos::from_micros(5)),
        preempt: PreemptKind::Flag,
        ..C_FCFS
    },
    Entry {
        name: "static-partition",
        aliases: &[],
        line: "each class its own workers, as many as its weight",
        source: "static partitioning, Perséphone Table 5",
        dispatch: Dispatch::StaticPartition,
        ..C_FCFS
    },
    Entry {
        name: "cscq",
        aliases: &[],
        line: "each class its share of the workers, and what classes of longer jobs leave",
        source: "cycle stealing with central queue, Perséphone Table 5",
        dispatch: Dispatch::Cscq,
        ..C_FCFS
    },
    DARC,
    Entry {
        name: "darc-static",
        aliases: &[],
        line: "a given number of workers for the shortest class, which goes first on all; the others share the rest",
        source: "DARC-static, Perséphone §5.3",
        dispatch: Dispatch::DarcStatic,
        ..DARC
    },
    Entry {
        name: "darc-ps",
        aliases: &[],
        line: "long requests are pre-empted for short ones; workers reserved only for what is shorter than a quantum",
        source: "Perséphone §3 with the pre-emption of Concord §3.1",
        quantum: TWO_US,
        preempt: PreemptKind::Flag,
        preemptive: true,
        ..DARC
    },
    Entry {
        name: "auto",
        aliases: &[],
        line: "the earliest deadline first, a multiple of what a request may still turn out to take; all of it measured",
        source: "max-stretch deadlines, Bender, Chakrabarti and Muthukrishnan 1998; least attained service",
        dispatch: Dispatch::Auto,
        quantum: TWO_US,
        preempt: PreemptKind::Flag,
        preemptive: true,
        ..C_FCFS
    },
];

const SHENANGO: Entry = Entry {
    name: "shenango",
    aliases: &[],
    line: "no dispatcher: each worker polls, makes a thread of a request and runs its queue; idle ones steal",
    source: "Shenango §5",
    dispatch: Dispatch::Kthreads,
    jbsq: Spec::UNBOUNDED,
    ..C_FCFS
};

const DARC: Entry = Entry {
    name: "darc",
    aliases: &["persephone"],
    line: "workers reserved for classes by measured demand; short ones may use those of longer ones",
    source: "DARC, Perséphone §3",
    dispatch: Dispatch::Darc,
    ..C_FCFS
};

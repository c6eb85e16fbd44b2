//! The workloads that have a name, and where each comes from.

use crate::{Mix, ParseError};

/// A workload with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Its classes, as [`Mix::parse`] reads them.
    pub classes: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Where it comes from, and what was chosen where the source leaves it open.
    pub source: &'static str,
}

impl Named {
    /// Its classes.
    #[must_use]
    pub fn mix(&self) -> Mix {
        Mix::parse(self.classes).expect("every named workload is parsed by a test")
    }
}

/// All of them.
pub const NAMED: &[Named] = &[
    Named {
        name: "extreme-bimodal",
        classes: "short:500ns:99.5,long:500us:0.5",
        about: "few requests, a thousand times longer than the others",
        source: "Perséphone Table 3; Concord §5.2; Tiny Quanta §5.1",
    },
    Named {
        name: "high-bimodal",
        classes: "short:1us:50,long:100us:50",
        about: "as many long requests as short ones, a hundred times longer",
        source: "Perséphone Table 3; Concord §5.2 (after YCSB A); Tiny Quanta §5.1",
    },
    Named {
        name: "tpcc",
        classes: "payment:5.7us:44,order-status:6us:4,new-order:20us:44,delivery:88us:4,\
                  stock-level:100us:4",
        about: "the five transactions of TPC-C on an in-memory database",
        source: "Perséphone Table 4; Concord §5.2; Tiny Quanta §5.1",
    },
    Named {
        name: "exp1",
        classes: "request:exp(1us):100",
        about: "exponential, mean 1 us",
        source: "Tiny Quanta §5.1 (Exp(1))",
    },
    Named {
        name: "exp10",
        classes: "request:exp(10us):100",
        about: "exponential, mean 10 us",
        source: "Shenango §7.1 (spin-server, exponential)",
    },
    Named {
        name: "fixed1",
        classes: "request:1us:100",
        about: "every request takes 1 us",
        source: "Concord §5.2 (Fixed(1))",
    },
    Named {
        name: "bimodal-90-10",
        classes: "short:5us:90,long:55us:10",
        about: "a tenth of the requests, eleven times longer; mean 10 us",
        source: "Shenango §7.1 (spin-server, bimodal)",
    },
    Named {
        name: "rocksdb-50",
        classes: "get:1.5us:50,scan:635us:50",
        about: "as many range queries as point queries",
        source: "Perséphone §5.1 (service times measured there)",
    },
    Named {
        name: "rocksdb-0.5",
        classes: "get:1.5us:99.5,scan:635us:0.5",
        about: "mostly point queries, 0.5% range queries",
        source: "Tiny Quanta §5.1 (shares); service times of Perséphone §5.1",
    },
    Named {
        name: "zippydb",
        classes: "get:0.6us:78,put:2.3us:13,delete:2.3us:6,scan:500us:3",
        about: "Meta's ZippyDB operations on LevelDB with 15,000 keys",
        source: "Concord §5.3 (shares and service times)",
    },
    Named {
        name: "usr",
        classes: "get:500ns:99.5,other:500us:0.5",
        about: "Meta's USR: nearly all short, a few very long",
        source: "Concord §5.2 and Perséphone §5.1, which model USR so (Shenango §7.1 \
                 runs USR as 99.8% GET, 0.2% SET of like cost)",
    },
];

/// The workload of that name.
///
/// # Errors
/// There is none; the message lists those there are.
pub fn named(name: &str) -> Result<&'static Named, ParseError> {
    NAMED.iter().find(|workload| workload.name == name).ok_or_else(|| {
        let all: Vec<_> = NAMED.iter().map(|workload| workload.name).collect();
        ParseError::new(format!("no workload `{name}`; there are {}", all.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means() {
        for (name, mean_ns) in [
            ("extreme-bimodal", 2_997.5),
            ("high-bimodal", 50_500.0),
            ("tpcc", 19_068.0),
            ("exp1", 1_000.0),
            ("exp10", 10_000.0),
            ("fixed1", 1_000.0),
            ("bimodal-90-10", 10_000.0),
            ("rocksdb-50", 318_250.0),
            ("rocksdb-0.5", 4_667.5),
            ("zippydb", 15_905.0),
            ("usr", 2_997.5),
        ] {
            let mean = named(name).unwrap().mix().mean_ns();
            assert!((mean - mean_ns).abs() < 1e-6, "{name}: {mean}");
        }
    }

    #[test]
    fn all_parse_and_have_a_source() {
        for workload in NAMED {
            let mix = workload.mix();
            let shares: f64 = mix.classes().iter().map(|class| class.share).sum();
            assert!((shares - 100.0).abs() < 1e-9, "{}", workload.name);
            assert!(!workload.source.is_empty() && !workload.about.is_empty());
        }
        assert!(named("tpch").unwrap_err().to_string().contains("`tpch`"));
    }
}

//! Options that say which policies, and what about them.

use super::{List, durations, names};
use crate::failure::Failure;
use clap::Args;
use curtail_experiment::Shape;
use curtail_policy::{CoreKind, Spec, Ties, Victim};
use std::fmt::Display;
use std::str::FromStr;

/// Numbers with commas in between, one for each class.
fn by_class<T: FromStr<Err: Display>>(text: &str) -> Result<List<T>, String> {
    let number = |item: &str| item.trim().parse().map_err(|error| format!("`{item}`: {error}"));
    text.split(',').map(number).collect::<Result<_, _>>().map(List)
}

/// Policies and their options.
#[derive(Args, Clone, Debug)]
pub(crate) struct Policies {
    /// Policies, by name; see `curtail policies`
    #[arg(long, value_name = "NAMES", value_parser = names, default_value = "tq")]
    policy: List<String>,
    /// How long a request may run while others wait; by default the policy's own
    #[arg(long, value_name = "DURATIONS", value_parser = durations)]
    quantum: Option<List<u64>>,
    /// Requests that a worker may hold under a central policy, the running one included
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    jbsq: Option<u16>,
    /// Which of equally short queues (tq): msq, random, power-of-two
    #[arg(long, value_name = "RULE")]
    ties: Option<Ties>,
    /// What each worker does (two-level policies): fcfs, ps, las
    #[arg(long, value_name = "POLICY")]
    core: Option<CoreKind>,
    /// Whom idle workers steal from (steal): random, longest, oldest
    #[arg(long, value_name = "WHOM")]
    victim: Option<Victim>,
    /// Whether the dispatcher runs requests itself when every worker is full; by default as the
    /// policy says
    #[arg(long, value_name = "YES", action = clap::ArgAction::Set)]
    work_conserving: Option<bool>,
    /// Whether requests are made to yield (fp, srpt, edf, wrr, drr, static-partition, cscq, darc);
    /// by default as the policy says
    #[arg(long, value_name = "YES", action = clap::ArgAction::Set)]
    preemptive: Option<bool>,
    /// Workers for the shortest class alone (darc-static)
    #[arg(long, value_name = "N")]
    reserved: Option<u16>,
    /// Each class's share (wrr, drr, static-partition, cscq), as in 3,1; by default all alike
    #[arg(long, value_name = "LIST", value_parser = by_class::<u32>)]
    weights: Option<List<u32>>,
    /// Each class's priority (fp), the lowest number first; by default the order of the classes
    #[arg(long, value_name = "LIST", value_parser = by_class::<u16>)]
    priorities: Option<List<u16>>,
    /// Each class's deadline (edf, shinjuku-mq); by default ten mean service times, as measured
    #[arg(long, value_name = "DURATIONS", value_parser = durations)]
    deadlines: Option<List<u64>>,
    /// How many requests of each class may wait (under two-level policies: be there); more are refused
    #[arg(long, value_name = "LIST", value_parser = by_class::<u32>)]
    queue_bounds: Option<List<u32>>,
}

impl Policies {
    /// Every policy at every quantum, for so many workers, without repeating those that have no use
    /// for one.
    pub(super) fn specs(&self, workers: usize) -> Result<Vec<Spec>, Failure> {
        let mut specs: Vec<Spec> = Vec::new();
        for name in &self.policy.0 {
            let quanta = self.quantum.as_ref().map(|quanta| quanta.0.as_slice());
            let quanta: Vec<Option<u64>> =
                quanta.map_or(vec![None], |quanta| quanta.iter().copied().map(Some).collect());
            for quantum in quanta {
                let spec = self.shape(quantum).spec(name, workers)?;
                if !specs.contains(&spec) {
                    specs.push(spec);
                }
            }
        }
        Ok(specs)
    }

    fn shape(&self, quantum_ns: Option<u64>) -> Shape {
        fn all<T: Copy>(list: Option<&List<T>>) -> Vec<T> {
            list.map_or_else(Vec::new, |list| list.0.clone())
        }
        Shape {
            quantum_ns,
            jbsq: self.jbsq,
            ties: self.ties,
            core: self.core,
            victim: self.victim,
            work_conserving: self.work_conserving,
            preemptive: self.preemptive,
            reserved: self.reserved,
            weights: all(self.weights.as_ref()),
            priorities: all(self.priorities.as_ref()),
            deadlines_ns: all(self.deadlines.as_ref()),
            queue_bounds: all(self.queue_bounds.as_ref()),
            ..Shape::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use curtail_policy::Nanos;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        policies: Policies,
    }

    fn specs(line: &str) -> Result<Vec<Spec>, Failure> {
        let line = std::iter::once("x").chain(line.split_whitespace());
        Line::try_parse_from(line).unwrap().policies.specs(4)
    }

    #[test]
    fn quanta_are_swept_only_where_they_matter() {
        let specs = specs("--policy fcfs,tq --quantum 1us,5us").unwrap();
        let shown: Vec<_> = specs.iter().map(|s| (s.name.as_str(), s.quantum)).collect();
        let us = |n| Some(Nanos::from_micros(n));
        assert_eq!(shown, [("fcfs", None), ("tq", us(1)), ("tq", us(5))]);
    }

    #[test]
    fn classes_are_told_apart_by_their_place_in_the_list() {
        let line = "--policy drr,edf --weights 3,1 --deadlines 10us,1ms --queue-bounds 5";
        for spec in specs(line).unwrap() {
            let shown = [0, 1].map(|class| {
                let plan = spec.plan(class);
                (plan.weight, plan.deadline, plan.bound, plan.priority)
            });
            let us = |n| Some(Nanos::from_micros(n));
            assert_eq!(shown, [(3, us(10), Some(5), None), (1, us(1_000), None, None)]);
        }
        let fixed = specs("--policy fp --priorities 7,0 --preemptive true").unwrap();
        assert_eq!((fixed[0].plan(0).priority, fixed[0].shares()), (Some(7), true));
        assert!(Line::try_parse_from(["x", "--weights", "3,x"]).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_in_a_sentence() {
        for line in [
            "--policy fcfs --reserved 1",
            "--policy darc-static --reserved 4",
            "--policy tq --victim longest",
            "--policy sjf --preemptive true",
            "--policy wrr --weights 0,1",
            "--policy edf --deadlines 0",
        ] {
            assert!(matches!(specs(line), Err(Failure::Usage(_))), "{line}");
        }
        assert_eq!(specs("--policy darc-static --reserved 3").unwrap()[0].reserved, Some(3));
        assert_eq!(specs("--policy steal --victim longest").unwrap()[0].victim, Victim::Longest);
    }
}

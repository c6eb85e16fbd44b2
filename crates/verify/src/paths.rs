//! Paths without a safepoint: through each function, callees first, and on to its callers.
//!
//! A callee tells its callers how far it is to its first safepoint, how far from its last to its
//! return, and how far it is through it without any. Functions called through pointers keep a
//! convention instead, as in the pass: a quarter of the bound before the first and after the last.

use crate::code::{Code, End, Target};
use crate::cost;
use crate::finding::{Finding, What};
use crate::flow::{self, At, Graph};
use crate::loops::Loops;
use crate::program::Program;
use std::collections::{HashMap, HashSet};

/// What callers need to know of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Longest path from the entry to a safepoint, if it has one.
    pub to_first: u64,
    /// Longest path from entry to return without a safepoint, if there is such a path.
    pub through: Option<u64>,
    /// Longest path from a safepoint to the return; `None`: no safepoint is ever passed.
    pub from_last: Option<u64>,
}

/// Lengths that nothing may exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Between two safepoints.
    pub bound: u64,
    /// The part of it that functions called through pointers may use at either end.
    pub share: u64,
}

/// What is found out of one function.
#[derive(Debug, Default)]
pub struct Outcome {
    /// For its callers.
    pub summary: Summary,
    /// The longest path in it that no safepoint interrupts, its callees' parts included.
    pub longest: u64,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
    /// Loops without a safepoint, by how they are known to end.
    pub counted: usize,
    /// By a note of the pass.
    pub noted: usize,
    /// Charged as a whole before they run.
    pub charged: usize,
    /// Loops without a safepoint that are not known to end.
    pub open: usize,
    /// Functions of the same call cycle that it calls before any safepoint, and from where.
    pub early: Vec<(usize, u64)>,
}

/// Goes over the program bottom-up. Outcomes by function.
#[must_use]
pub fn check(program: &Program<'_>, limits: Limits) -> Vec<Outcome> {
    let count = program.codes.len();
    let all: Vec<usize> = (0..count).collect();
    let mut outcomes: Vec<Outcome> = Vec::new();
    outcomes.resize_with(count, Outcome::default);
    let mut known: Vec<Option<Summary>> = vec![None; count];
    for cycle in flow::components(&all, &|f| program.callees(f).collect()) {
        let recursive = cycle.len() > 1 || program.callees(cycle[0]).any(|f| f == cycle[0]);
        // A member is taken to have no way through, until one is found.
        let rounds = if recursive { 3 } else { 1 };
        let members: HashSet<usize> =
            if recursive { cycle.iter().copied().collect() } else { HashSet::new() };
        for _ in 0..rounds {
            for &function in &cycle {
                let view = View { program, limits, known: &known, cycle: &members };
                outcomes[function] = view.outcome(function);
            }
            for &function in &cycle {
                known[function] = Some(outcomes[function].summary);
            }
        }
        if recursive {
            find_endless(program, &cycle, &mut outcomes);
        }
    }
    outcomes
}

/// Recursion that passes no safepoint: a cycle among the calls made before any.
fn find_endless(program: &Program<'_>, cycle: &[usize], outcomes: &mut [Outcome]) {
    let next = |f: usize| outcomes[f].early.iter().map(|&(to, _)| to).collect::<Vec<_>>();
    let endless: Vec<Vec<usize>> = flow::components(cycle, &next)
        .into_iter()
        .filter(|part| part.len() > 1 || next(part[0]).contains(&part[0]))
        .filter(|part| part.iter().all(|&f| program.is_instrumented(f)))
        .collect();
    for part in endless {
        let Some(&(_, address)) = outcomes[part[0]].early.iter().find(|(to, _)| part.contains(to))
        else {
            continue;
        };
        let names: Vec<&str> = part.iter().take(4).map(|&f| program.readable[f].as_str()).collect();
        let detail = format!("recursion without a safepoint: {}", names.join(" → "));
        outcomes[part[0]].findings.push(Finding::new(What::Recursion, part[0], address, detail));
    }
}

struct View<'a> {
    program: &'a Program<'a>,
    limits: Limits,
    known: &'a [Option<Summary>],
    /// The functions of the call cycle that is being looked at.
    cycle: &'a HashSet<usize>,
}

/// What happens at a block's end.
#[derive(Clone, Copy, Debug)]
enum Event {
    None,
    Safepoint,
    Call(Summary),
}

impl Event {
    /// The distance behind it, from the one before it.
    fn hands_on(self) -> Option<u64> {
        match self {
            Event::None => Some(0),
            Event::Safepoint => None,
            Event::Call(callee) => callee.through,
        }
    }

    /// The distance that begins in it.
    fn begins(self) -> Option<u64> {
        match self {
            Event::None => None,
            Event::Safepoint => Some(0),
            Event::Call(callee) => callee.from_last,
        }
    }
}

impl View<'_> {
    fn effect(&self, target: &Target) -> Event {
        let share = self.limits.share;
        if self.program.is_slow(target) {
            return Event::Safepoint;
        }
        let library = |cost| Summary { to_first: cost, through: Some(cost), from_last: None };
        let convention = Summary {
            to_first: share,
            through: Some(share.min(20)),
            from_last: Some(share.saturating_sub(cost::RETURN)),
        };
        Event::Call(match target {
            Target::Function(f) if self.cycle.contains(f) => Summary {
                to_first: share,
                through: self.known[*f].and_then(|known| known.through).map(|d| d.min(share)),
                from_last: convention.from_last,
            },
            Target::Function(f) => self.known[*f].unwrap_or(convention),
            Target::Import(name) => library(cost::of_library(name)),
            Target::Elsewhere(_) => library(cost::LIBRARY),
            Target::Pointer => convention,
        })
    }

    fn event(&self, code: &Code, probes: &HashSet<usize>, block: usize) -> Event {
        if probes.contains(&block) {
            return Event::Safepoint;
        }
        match &code.blocks[block].end {
            End::Call(target) | End::Tail(target) => self.effect(target),
            _ => Event::None,
        }
    }

    fn outcome(&self, function: usize) -> Outcome {
        let program = self.program;
        let code = &program.codes[function];
        if code.blocks.is_empty() {
            return Outcome::default();
        }
        let probes = program.checks(function);
        let events: Vec<Event> =
            (0..code.blocks.len()).map(|block| self.event(code, &probes, block)).collect();
        let cold = code.cold();
        let (graph, starts) = distances(code, &events, &cold);
        let noted = program.noted_loops(function);
        let mut loops = Loops::new(code, &graph.next, &noted, self.limits.bound);
        let at = flow::solve(&graph, &starts, &mut loops);
        let mut outcome = Outcome {
            counted: loops.counted.len(),
            noted: loops.noted_used.len(),
            charged: loops.charged.len(),
            open: loops.open.len(),
            ..Outcome::default()
        };
        self.measure(function, &at, &graph, &events, &cold, &mut outcome);
        if program.is_instrumented(function) {
            self.report_open(function, &loops, &mut outcome);
        } else {
            self.as_library(function, &mut outcome);
        }
        if !outcome.findings.is_empty() {
            outcome.summary = self.capped(outcome.summary);
        }
        outcome
    }

    /// Goes over all blocks with the distances at their beginnings.
    fn measure(
        &self,
        function: usize,
        at: &[At],
        graph: &Graph,
        events: &[Event],
        cold: &[bool],
        outcome: &mut Outcome,
    ) {
        let code = &self.program.codes[function];
        let mut worst: Option<(u64, u64, u64)> = None;
        let summary = &mut outcome.summary;
        for (block, here) in at.iter().enumerate().filter(|(block, _)| !cold[*block]) {
            let plain = graph.cost[block] - events[block].hands_on().unwrap_or(0);
            let ahead = match events[block] {
                Event::Call(callee) => callee.to_first,
                _ => 0,
            };
            let end = &code.blocks[block].end;
            let leaves =
                matches!(end, End::Return | End::Tail(_) | End::MaybeTail(_) | End::Unknown);
            let past = here.plus(plain);
            let address = code.last_of(block).ip();
            if let Some(entry) = past.entry {
                summary.to_first = summary.to_first.max(entry.saturating_add(ahead));
                worst = worst.max(Some((entry.saturating_add(ahead), code.address(0), address)));
                if let End::Call(Target::Function(f)) = end
                    && self.cycle.contains(f)
                {
                    outcome.early.push((*f, address));
                }
            }
            if let Some((local, from)) = past.local {
                worst = worst.max(Some((local.saturating_add(ahead), from, address)));
            }
            if leaves {
                let hands_on = events[block].hands_on();
                let through = past.entry.zip(hands_on).map(|(d, more)| d.saturating_add(more));
                summary.through = summary.through.max(through);
                let rest = past.local.zip(hands_on).map(|((d, _), more)| d.saturating_add(more));
                summary.from_last = summary.from_last.max(rest).max(events[block].begins());
            } else if events[block].begins().is_some() {
                // It has a safepoint, even if nothing behind that returns.
                summary.from_last = summary.from_last.max(Some(0));
            }
        }
        let Some((length, from, to)) = worst else { return };
        outcome.longest = length;
        if self.program.is_instrumented(function) {
            self.judge(function, (length, from, to), outcome);
        }
    }

    fn judge(&self, function: usize, (length, from, to): (u64, u64, u64), outcome: &mut Outcome) {
        let Limits { bound, share } = self.limits;
        if length > bound {
            let start = if from == self.program.codes[function].address(0) {
                "the entry"
            } else {
                "a safepoint"
            };
            let detail = format!("{length} units from {start} at {from:#x} without a safepoint");
            outcome.findings.push(
                Finding::new(What::LongPath, function, to, detail).of_length(length).from(from),
            );
            return;
        }
        if !self.program.taken.contains(&function) {
            return;
        }
        let Summary { to_first, through, from_last } = outcome.summary;
        let longest = to_first.max(through.unwrap_or(0)).max(from_last.unwrap_or(0));
        if longest > share + share / 2 {
            let which =
                if from_last == Some(longest) { "after its last" } else { "before its first" };
            let detail =
                format!("called through pointers, and runs {longest} units {which} safepoint");
            let address = self.program.codes[function].address(0);
            outcome
                .findings
                .push(Finding::new(What::Convention, function, address, detail).of_length(longest));
        }
    }

    fn report_open(&self, function: usize, loops: &Loops<'_>, outcome: &mut Outcome) {
        let code = &self.program.codes[function];
        let open = &loops.open;
        for (cycle, (most, round)) in &loops.long {
            let detail =
                format!("a loop without a safepoint: up to {most} rounds of {round} units");
            let finding = Finding::new(What::Loop, function, code.address(cycle[0]), detail);
            outcome.findings.push(finding.of_length(most.saturating_mul(*round)));
        }
        for cycle in open {
            // The outer one of a nest is open because the inner one is.
            let inner = open.iter().chain(loops.long.keys()).any(|other| {
                other.len() < cycle.len() && other.iter().all(|b| cycle.binary_search(b).is_ok())
            });
            if inner {
                continue;
            }
            let address = code.address(cycle[0]);
            let detail = "a loop without a safepoint, not known to end soon".to_owned();
            outcome.findings.push(Finding::new(What::Loop, function, address, detail));
        }
    }

    /// Code that is not instrumented costs what the table says.
    fn as_library(&self, function: usize, outcome: &mut Outcome) {
        let extent = &self.program.image.functions[function];
        let table = cost::of_library(&extent.symbol);
        let most =
            if self.program.notes.is_empty() { self.limits.share } else { 2 * cost::LIBRARY };
        let whole =
            if outcome.open > 0 { table } else { outcome.longest.min(most).min(table.max(most)) };
        outcome.summary.to_first = outcome.summary.to_first.min(whole);
        outcome.summary.through = Some(outcome.summary.through.unwrap_or(whole).min(whole));
        let rest = self.limits.share.saturating_sub(cost::RETURN);
        outcome.summary.from_last = outcome.summary.from_last.map(|d| d.min(rest));
        outcome.findings.clear();
    }

    /// What was reported here is not to be reported again by every caller.
    fn capped(&self, summary: Summary) -> Summary {
        let share = self.limits.share;
        Summary {
            to_first: summary.to_first.min(share),
            through: summary.through.map(|d| d.min(share)),
            from_last: summary.from_last.map(|d| d.min(share)),
        }
    }
}

/// The graph along which distances are handed on, and where they begin.
fn distances(code: &Code, events: &[Event], cold: &[bool]) -> (Graph, HashMap<usize, At>) {
    let mut graph = Graph::default();
    let mut starts: HashMap<usize, At> = HashMap::new();
    let mut begin = |block: usize, at: At| {
        let known = starts.entry(block).or_default();
        *known = known.join(at);
    };
    for block in 0..code.blocks.len() {
        let own: u64 = code.of(block).iter().map(cost::of).sum();
        let hands_on = events[block].hands_on();
        graph.cost.push(own.saturating_add(hands_on.unwrap_or(0)));
        let next: Vec<usize> = code.blocks[block]
            .next
            .iter()
            .copied()
            .filter(|&to| !cold[to] && !cold[block])
            .collect();
        if let Some(begun) = events[block].begins() {
            let local = Some((begun, code.last_of(block).ip()));
            next.iter().for_each(|&to| begin(to, At { entry: None, local }));
        }
        graph.next.push(if hands_on.is_some() { next } else { Vec::new() });
        if cold[block] {
            continue;
        }
        if block == 0 {
            begin(0, At { entry: Some(0), local: None });
        } else if code.blocks[block].before.is_empty() {
            // A landing pad: what threw ran in the unwinder's code, which is not instrumented.
            begin(block, At { entry: None, local: Some((0, code.address(block))) });
        }
    }
    (graph, starts)
}

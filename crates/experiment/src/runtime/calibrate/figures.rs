//! From trials to costs.

use super::batches::Short;
use super::kthreads::Kthreads;
use super::rivals::Round;
use curtail_sim::Costs;
use curtail_workload::{Service, format_duration};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// The results of many trials of one thing, in nanoseconds (or, where that is said, as a fraction).
#[derive(Clone, Debug, Default)]
pub struct Trials(Vec<f64>);

impl Trials {
    pub(super) fn add(&mut self, result: f64) {
        self.0.push(result);
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The result that this share of the trials does not exceed.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        let last = sorted.len().checked_sub(1)?;
        let at = (last as f64 * share).round() as usize;
        Some(*sorted.select_nth_unstable_by(at, f64::total_cmp).1)
    }

    pub(super) fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }
}

/// All that was measured.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) short: Short,
    /// One request, without ends of quanta: timed by itself, and by the dispatcher.
    pub(super) alone: Vec<Round>,
    pub(super) alone_watched: Vec<Round>,
    /// Two that take turns.
    pub(super) rivals: Vec<Round>,
    pub(super) rivals_watched: Vec<Round>,
    /// From the end of a quantum to the safepoint, and from the dispatcher's flag to it.
    pub(super) late_ns: Option<Histogram<u64>>,
    pub(super) late_watched_ns: Option<Histogram<u64>>,
    /// Without a dispatcher.
    pub(super) kthreads: Kthreads,
    pub(super) cycles_per_ns: f64,
    pub(super) instrumented: bool,
}

/// One line of what is shown: a cost, and what it was made from.
#[derive(Debug)]
pub struct Figure {
    /// The key in the file.
    pub key: &'static str,
    /// The median, as `--costs` takes it.
    pub value: String,
    /// What it is the median of.
    pub trials: Trials,
    /// What it is, in a sentence.
    pub meaning: &'static str,
}

impl Figure {
    /// The middle half of the trials.
    pub(super) fn middle(&self) -> String {
        match (self.trials.quantile(0.25), self.trials.quantile(0.75)) {
            (Some(low), Some(high)) => format!("{} to {}", self.show(low), self.show(high)),
            _ => "–".to_owned(),
        }
    }

    fn show(&self, value: f64) -> String {
        let digits = if self.key == "instrumentation" { 4 } else { 0 };
        let text = format!("{value:.digits$}");
        match text.strip_prefix('-') {
            Some(nought) if nought.chars().all(|c| matches!(c, '0' | '.')) => nought.to_owned(),
            _ => text,
        }
    }

    pub(super) fn json(&self) -> Value {
        let of = |share| self.trials.quantile(share);
        json!({
            "cost": self.key, "value": self.value, "meaning": self.meaning,
            "trials": self.trials.len(), "min": of(0.0), "p25": of(0.25), "median": of(0.5),
            "p75": of(0.75), "max": of(1.0),
        })
    }
}

/// A cost is no less than nothing, whatever a difference of two noisy figures says.
fn whole(ns: f64) -> u64 {
    ns.max(0.0).round() as u64
}

impl Measured {
    fn ns(&self, cycles: u64) -> f64 {
        cycles as f64 / self.cycles_per_ns
    }

    /// Spans of one request that is not interrupted, by what it does.
    fn spans(&self, plain: bool) -> Trials {
        let kind = |round: &&Round| !round.disturbed && round.plain == plain;
        Trials(self.alone.iter().filter(kind).map(|round| self.ns(round.span_cycles)).collect())
    }

    /// Each trial's time over that of the same work without safepoints, less one.
    fn instrumentation(&self) -> Trials {
        let (Some(plain), true) = (self.spans(true).median(), self.instrumented) else {
            return Trials::default();
        };
        Trials(self.spans(false).0.iter().map(|with| with / plain - 1.0).collect())
    }

    /// What two that take turns need beyond their work, for each end of a quantum.
    fn switch(&self) -> Trials {
        let Some(alone) = self.spans(false).median() else { return Trials::default() };
        let calm = self.rivals.iter().filter(|round| !round.disturbed && round.quanta > 0);
        let each = |round: &Round| (self.ns(round.span_cycles) - 2.0 * alone) / round.quanta as f64;
        Trials(calm.map(each).collect())
    }

    /// How much of the dispatcher's time went elsewhere than into turns, for each end of a quantum.
    fn signal(&self) -> Trials {
        let calm = |round: &&Round| !round.disturbed && round.turns > 0;
        let turn = |round: &Round| self.ns(round.elapsed_cycles) / round.turns as f64;
        let turns = Trials(self.alone_watched.iter().filter(calm).map(turn).collect());
        let Some(turn) = turns.median() else { return Trials::default() };
        let watched = self.rivals_watched.iter().filter(calm).filter(|round| round.quanta > 0);
        let each = |round: &Round| {
            (self.ns(round.elapsed_cycles) - turn * round.turns as f64) / round.quanta as f64
        };
        Trials(watched.map(each).collect())
    }

    /// The costs, and how each came about.
    pub(super) fn costs(&self) -> (Costs, Vec<Figure>) {
        let Short { receive, dispatch, hear, between, there, back, .. } = &self.short;
        let Kthreads { steal, park, wake } = &self.kthreads;
        let middle = |trials: &Trials| trials.median().unwrap_or(0.0);
        let (start, finish) = (middle(between) / 2.0, middle(between) / 2.0);
        let on_the_way = middle(receive) + middle(dispatch) + start + finish + middle(hear);
        // Each way what is left of both, when all that is done at their ends is taken away.
        let ways =
            there.0.iter().zip(&back.0).map(|(there, back)| (there + back - on_the_way) / 2.0);
        let ring = Trials(ways.collect());
        let (overshoot, late) = spread(self.late_ns.as_ref());
        let (_, late_watched) = spread(self.late_watched_ns.as_ref());
        // Until a flag is noticed: less the way to the next safepoint, which is paid besides.
        let to_safepoint = overshoot.mean_ns();
        let notify = Trials(late_watched.0.iter().map(|ns| ns - to_safepoint).collect());
        let (switch, signal, instrumentation) =
            (self.switch(), self.signal(), self.instrumentation());
        let costs = Costs {
            receive: whole(middle(receive)),
            dispatch: whole(middle(dispatch)),
            hear: whole(middle(hear)),
            signal: whole(middle(&signal)),
            ring: whole(middle(&ring)),
            notify: whole(middle(&notify)),
            start: whole(start),
            switch: whole(middle(&switch)),
            finish: whole(finish),
            steal: whole(middle(steal)),
            park: whole(middle(park)),
            wake: whole(middle(wake)),
            overshoot,
            // To a hundredth of a per cent: more is noise.
            instrumentation: (middle(&instrumentation).max(0.0) * 1e4).round() / 1e4,
        };
        let half = || Trials(between.0.iter().map(|ns| ns / 2.0).collect());
        let time = format_duration;
        let figures = [
            ("receive", time(costs.receive), receive.clone()),
            ("dispatch", time(costs.dispatch), dispatch.clone()),
            ("hear", time(costs.hear), hear.clone()),
            ("signal", time(costs.signal), signal),
            ("ring", time(costs.ring), ring),
            ("notify", time(costs.notify), notify),
            ("start", time(costs.start), half()),
            ("switch", time(costs.switch), switch),
            ("finish", time(costs.finish), half()),
            ("steal", time(costs.steal), steal.clone()),
            ("park", time(costs.park), park.clone()),
            ("wake", time(costs.wake), wake.clone()),
            ("overshoot", costs.overshoot.to_string(), late),
            ("instrumentation", costs.instrumentation.to_string(), instrumentation),
        ];
        let figures = figures.map(|(key, value, trials)| Figure {
            key,
            value,
            trials,
            meaning: meaning(key),
        });
        (costs, figures.into())
    }
}

/// How late requests came by a safepoint: the span of nine tenths of them, as a distribution; and
/// the single ones.
fn spread(late: Option<&Histogram<u64>>) -> (Service, Trials) {
    let Some(late) = late.filter(|late| !late.is_empty()) else {
        return (Service::Constant(0), Trials::default());
    };
    let at = |share: f64| late.value_at_quantile(share);
    let values = late.iter_recorded().flat_map(|step| {
        let value = step.value_iterated_to() as f64;
        std::iter::repeat_n(value, step.count_at_value() as usize)
    });
    let (low, high) = (at(0.05), at(0.95));
    let service = if low == high { Service::Constant(low) } else { Service::Uniform(low, high) };
    (service, Trials(values.collect()))
}

fn meaning(key: &str) -> &'static str {
    match key {
        "receive" => "dispatcher: to take a request in",
        "dispatch" => "dispatcher: to decide on a request and send it",
        "hear" => "dispatcher: to take in that a request completed or came back",
        "signal" => "dispatcher: to see that a quantum has ended and raise a flag",
        "ring" => "from core to core, each way",
        "notify" => "from the flag until the worker notices",
        "start" => "worker: to start a request (half of what lies between two)",
        "switch" => "worker: from one request to the other at the end of a quantum",
        "finish" => "worker: after a request completed (the other half)",
        "steal" => "worker: to steal from another, without a dispatcher",
        "park" => "worker: to go to sleep (half of a sleep's processor time)",
        "wake" => "from its being woken until it runs",
        "overshoot" => "from the end of a quantum to the next safepoint (5th to 95th percentile)",
        _ => "what safepoints add to service, as a fraction",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(values: &[f64]) -> Trials {
        Trials(values.to_vec())
    }

    fn round(span: u64, elapsed: u64, turns: u64, quanta: u64) -> Round {
        Round { span_cycles: span, elapsed_cycles: elapsed, turns, quanta, ..Round::default() }
    }

    #[test]
    fn what_is_measured_together_is_taken_apart() {
        let mut late = Histogram::new(3).unwrap();
        (1..=100).for_each(|ns| late.record(ns).unwrap());
        let mut flags = Histogram::new(3).unwrap();
        flags.record_n(250, 9).unwrap();
        let measured = Measured {
            short: Short {
                turn: trials(&[50.0]),
                receive: trials(&[10.0, 1e6, 20.0, 30.0, 40.0]),
                dispatch: trials(&[40.0]),
                hear: trials(&[60.0]),
                between: trials(&[100.0]),
                there: trials(&[400.0]),
                back: trials(&[300.0]),
            },
            // 1,000 cycles are 500 ns. Two requests of that, 10 quanta: 100 ns each.
            alone: vec![
                round(1_000, 0, 0, 0),
                Round { plain: true, ..round(800, 0, 0, 0) },
                Round { disturbed: true, ..round(9_000, 0, 0, 0) },
            ],
            rivals: vec![round(4_000, 0, 0, 10)],
            // A turn is 50 ns; 100 of them in 6,000 leave 1,000 for 10 quanta.
            alone_watched: vec![round(0, 10_000, 100, 0)],
            rivals_watched: vec![round(0, 12_000, 100, 10)],
            kthreads: Kthreads {
                steal: trials(&[200.0, 300.0, 9_000.0]),
                park: trials(&[700.0]),
                wake: trials(&[3_000.0]),
            },
            late_ns: Some(late),
            late_watched_ns: Some(flags),
            cycles_per_ns: 2.0,
            instrumented: true,
        };
        let (costs, figures) = measured.costs();
        let expected = Costs {
            receive: 30,
            dispatch: 40,
            hear: 60,
            signal: 100,
            // (400 + 300 − 30 − 40 − 50 − 50 − 60) / 2
            ring: 235,
            notify: 200,
            start: 50,
            switch: 100,
            finish: 50,
            steal: 300,
            park: 700,
            wake: 3_000,
            overshoot: Service::Uniform(5, 95),
            instrumentation: 0.25,
        };
        assert_eq!(costs, expected);
        assert_eq!(figures.len(), 14);
        assert_eq!(figures[0].middle(), "20 to 40");
        assert_eq!(Costs::parse("c", &costs.to_toml()), Ok(costs));
    }

    #[test]
    fn nothing_measured_costs_nothing() {
        let (costs, figures) = Measured { cycles_per_ns: 2.0, ..Measured::default() }.costs();
        assert_eq!(costs, Costs::IDEAL);
        assert!(figures.iter().all(|figure| figure.middle() == "–"));
    }
}

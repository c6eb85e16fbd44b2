//! The figures as Prometheus reads them.

use crate::shown::Shown;
use curtail::{ClassStats, Stats};
use hdrhistogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// Upper bounds of the buckets of times, in nanoseconds: 1, 2, 5 from a microsecond to ten seconds.
const BOUNDS: [u64; 22] = {
    let mut bounds = [0; 22];
    let (mut index, mut decade) = (0, 1_000);
    while index < 22 {
        bounds[index] = decade * [1, 2, 5][index % 3];
        index += 1;
        if index % 3 == 0 {
            decade *= 10;
        }
    }
    bounds
};

/// All figures, as text.
pub(crate) fn text(looks: &[(Arc<Shown>, Stats)]) -> String {
    let rows = looks.iter().map(|(shown, stats)| (shown.name.clone(), stats.clone())).collect();
    let mut registry = Registry::with_prefix("curtail");
    registry.register_collector(Box::new(Figures(rows)));
    let mut text = String::new();
    // Into a string nothing fails.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Figures(Vec<(String, Stats)>);

/// Labels of one figure.
type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Figures {
    fn counter<'a>(
        &'a self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        figures: impl Fn(&'a Stats) -> Vec<(Labels<'a>, u64)>,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (server, stats) in &self.0 {
            for (mut labels, figure) in figures(stats) {
                labels.push(("server", server.as_str()));
                ConstCounter::new(figure).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn gauge(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        figure: impl Fn(&Stats) -> usize,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (server, stats) in &self.0 {
            let labels = [("server", server.as_str())];
            ConstGauge::new(figure(stats) as i64).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn times(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        of: impl Fn(&ClassStats) -> &Histogram<u64>,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (server, stats) in &self.0 {
            for class in rows(stats) {
                let labels = [("class", class.name.as_str()), ("server", server.as_str())];
                let times = of(class);
                let sum = times.mean() * times.len() as f64 / 1e9;
                metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                    sum,
                    times.len(),
                    &buckets(times),
                    None,
                )?;
            }
        }
        Ok(())
    }
}

/// All classes, and requests of none of them.
fn rows(stats: &Stats) -> impl Iterator<Item = &ClassStats> {
    stats.classes.iter().chain([&stats.unknown])
}

fn stall(place: &curtail::StallPlace) -> (Labels<'_>, u64) {
    (vec![("function", place.function.as_str())], place.count)
}

/// Upper bounds in seconds, and how many lie below each and above the one before.
fn buckets(times: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut from = 0;
    let mut buckets = Vec::new();
    for bound in BOUNDS {
        let count = times.count_between(from, bound);
        buckets.push((bound as f64 / 1e9, count));
        from = times.next_non_equivalent(bound);
    }
    let rest = times.len() - buckets.iter().map(|(_, count)| count).sum::<u64>();
    buckets.push((f64::MAX, rest));
    buckets
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let outcomes = |stats| {
            let of = |class: &'_ ClassStats| {
                [
                    ("completed", class.completed),
                    ("failed", class.failed),
                    ("dropped", class.dropped),
                    ("orphaned", class.orphaned),
                ]
            };
            let rows = rows(stats).flat_map(|class| {
                of(class).map(|(outcome, count)| {
                    (vec![("class", class.name.as_str()), ("outcome", outcome)], count)
                })
            });
            rows.collect()
        };
        self.counter(encoder, ("requests", "Requests that have ended"), outcomes)?;
        let plain = |count| vec![(Vec::new(), count)];
        self.counter(encoder, ("preemptions", "Quanta that ended by a yield"), |stats| {
            plain(stats.preemptions)
        })?;
        let help = "Nanoseconds that critical sections and locks went on beyond their quanta";
        self.counter(encoder, ("critical_ns", help), |_| {
            plain(curtail::critical_time().as_nanos() as u64)
        })?;
        self.counter(encoder, ("malformed", "Inputs that were no requests"), |stats| {
            plain(stats.malformed)
        })?;
        self.counter(encoder, ("unsent", "Responses that could not be sent"), |stats| {
            plain(stats.unsent)
        })?;
        self.counter(encoder, ("transport_events", "What transports counted"), |stats| {
            stats.transports.iter().map(|&(name, count)| (vec![("event", name)], count)).collect()
        })?;
        self.counter(encoder, ("stalls", "Code ran for long without a safepoint"), |stats| {
            stats.stalls.iter().map(stall).collect()
        })?;
        self.gauge(encoder, ("in_system", "Requests in the system"), |stats| stats.in_system)?;
        self.gauge(encoder, ("waiting", "Of these, waiting at a dispatcher"), |stats| {
            stats.waiting
        })?;
        self.times(encoder, ("sojourn_seconds", "From arrival to the end"), |class| {
            &class.sojourn_ns
        })?;
        self.times(encoder, ("queueing_seconds", "From arrival to the first run"), |class| {
            &class.queueing_ns
        })?;
        self.times(encoder, ("service_seconds", "On a core"), |class| &class.service_ns)
    }
}

//! What policies and workloads there are, as JSON: a list of objects each.

use curtail_policy::{Spec, catalogue};
use curtail_workload::NAMED;
use serde_json::{Value, json};

/// Policies: name, aliases, pre-emption, quantum, what it does and where it comes from.
#[must_use]
pub fn policies() -> Value {
    let policies = catalogue().iter().filter_map(|entry| {
        let spec = Spec::preset(entry.name).ok()?;
        Some(json!({
            "name": entry.name, "aliases": entry.aliases, "preempt": spec.preempt.name(),
            "quantum_ns": spec.quantum.map(|quantum| quantum.0),
            "about": entry.line, "source": entry.source,
        }))
    });
    policies.collect()
}

/// Workloads: name, what it is and where it comes from, mean service time, classes.
#[must_use]
pub fn workloads() -> Value {
    let workloads = NAMED.iter().map(|named| {
        let mix = named.mix();
        let classes = mix.classes().iter().enumerate().map(|(i, class)| {
            json!({
                "name": class.name, "share": mix.fraction(i),
                "service": class.service.to_string(),
                "service_ns_mean": class.service.mean_ns(),
            })
        });
        json!({
            "name": named.name, "about": named.about, "source": named.source,
            "service_ns_mean": mix.mean_ns(), "classes": classes.collect::<Value>(),
        })
    });
    workloads.collect()
}

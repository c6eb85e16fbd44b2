//! The dashboard for Grafana that packages have: it shows all figures, and none that there is not.

use std::collections::BTreeSet;
use std::path::Path;

/// The families of the endpoint, and the names that each one's samples have.
fn families() -> Vec<Vec<String>> {
    let text = curtail_observe::metrics();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let samples = |line: &str| {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => &[""],
        };
        suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect()
    };
    types.map(samples).collect()
}

#[test]
fn it_shows_all_figures_and_no_others() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages/grafana.json");
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    let is_name = |word: &&str| word.starts_with("curtail_") && *word != "curtail_observe";
    let shown: BTreeSet<&str> = words.filter(is_name).collect();
    let families = families();
    assert!(families.len() > 10, "{families:?}");
    for name in &shown {
        let known = families.iter().flatten().any(|sample| sample == name);
        assert!(known, "the dashboard has {name}, the endpoint has not");
    }
    for family in &families {
        let on_it = family.iter().any(|sample| shown.contains(sample.as_str()));
        assert!(on_it, "{} is not on the dashboard", family[0]);
    }
}

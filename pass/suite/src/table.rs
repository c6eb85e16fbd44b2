//! The figures as people read them.

use crate::figures::{Entry, Report};
use curtail_report::figures;

fn percent(ratio: f64) -> String {
    format!("{:.1}", ratio * 100.0)
}

fn pair(a: f64, b: f64) -> String {
    format!("{} | {}", percent(a), percent(b))
}

fn cycles(value: f64) -> String {
    format!("{value:.0}")
}

/// Overheads: a row a program, a column a variant.
fn overheads(report: &Report) -> String {
    let Some(first) = report.programs.first() else { return String::new() };
    let mut head = vec!["overhead, %".to_owned(), "none, s".to_owned()];
    head.extend(first.variants[1..].iter().map(|entry| entry.variant.clone()));
    let mut rows = vec![head];
    for program in &report.programs {
        let plain = program.variants[0].cpu_s.iter().copied().fold(f64::NAN, f64::min);
        let mut row = vec![program.program.clone(), format!("{plain:.3}")];
        let cell = |entry: &Entry| pair(entry.overhead_minima, entry.overhead_paired);
        row.extend(program.variants[1..].iter().map(cell));
        rows.push(row);
    }
    let means = |name: &str, cell: &dyn Fn(&crate::figures::Mean) -> String| {
        let mut row = vec![name.to_owned(), String::new()];
        row.extend(report.means.iter().map(cell));
        row
    };
    rows.push(means("mean", &|mean| pair(mean.overhead_minima, mean.overhead_paired)));
    rows.push(means("worst", &|mean| pair(mean.worst, mean.worst_paired)));
    figures(&rows)
}

/// Timing: a row a program and armed variant. Empty where nothing was armed.
fn timing(report: &Report) -> String {
    let head =
        "intervals in cycles,safepoints,firings,fired %,quantum,MAE,calm MAE,p50,p99,calm p99,max";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    for program in &report.programs {
        for entry in &program.variants {
            let Some(timing) = &entry.timing else { continue };
            let mut row = vec![format!("{} {}", program.program, entry.variant)];
            row.push(entry.safepoints.to_string());
            row.push(cycles(timing.yields));
            row.push(entry.fired.map(percent).unwrap_or_default());
            let values = [
                timing.quantum_cycles,
                timing.interval_mae,
                timing.calm_mae,
                timing.interval_p50,
                timing.interval_p99,
                timing.calm_p99,
                timing.interval_max,
            ];
            row.extend(values.map(cycles));
            rows.push(row);
        }
    }
    for mean in &report.means {
        let Some(mae) = mean.mae else { continue };
        let cell = |value: Option<f64>| value.map(cycles).unwrap_or_default();
        let mut row = vec![format!("mean {}", mean.variant)];
        row.extend([None, None, None, None, Some(mae), mean.calm_mae, None].map(cell));
        row.extend([mean.p99, mean.calm_p99].map(cell));
        rows.push(row);
        let mut row = vec![format!("worst {}", mean.variant)];
        row.extend([None, None, None, None, None, None, None, None, mean.worst_calm_p99].map(cell));
        rows.push(row);
    }
    if rows.len() > 1 { figures(&rows) } else { String::new() }
}

/// Instructions: a row a program, a column a variant. Empty where none were counted.
fn instructions(report: &Report) -> String {
    let counted = |entry: &&Entry| entry.instructions.is_some();
    let mut rows = Vec::new();
    for program in &report.programs {
        let entries: Vec<&Entry> = program.variants.iter().filter(counted).collect();
        if entries.is_empty() {
            return String::new();
        }
        if rows.is_empty() {
            let mut head = vec!["instructions, %".to_owned(), "none, millions".to_owned()];
            head.extend(entries[1..].iter().map(|entry| entry.variant.clone()));
            rows.push(head);
        }
        let millions = entries[0].instructions.unwrap_or(0) as f64 / 1e6;
        let mut row = vec![program.program.clone(), format!("{millions:.1}")];
        row.extend(
            entries[1..]
                .iter()
                .map(|entry| percent(entry.instruction_overhead.unwrap_or(f64::NAN))),
        );
        rows.push(row);
    }
    let mut row = vec!["mean".to_owned(), String::new()];
    row.extend(report.means.iter().filter_map(|mean| mean.instruction_overhead).map(percent));
    rows.push(row);
    figures(&rows)
}

/// All tables, and how to read them.
#[must_use]
pub fn text(report: &Report) -> String {
    let layouts = match report.layouts {
        1 => String::new(),
        n => format!(" in {n} layouts"),
    };
    let mut parts = vec![format!(
        "The set `{}`: {} rounds{layouts} at scale {} on core {}. Overheads of CPU time: quickest round | median of \
         paired rounds.\n\n{}",
        report.set,
        report.rounds,
        report.scale,
        report.core,
        overheads(report)
    )];
    let timing = timing(report);
    if !timing.is_empty() {
        parts.push(format!("{timing}fired: firings over quanta of CPU time; calm: without intervals of more than five \
             quanta\n"));
    }
    parts.extend(Some(instructions(report)).filter(|text| !text.is_empty()));
    let origins: Vec<&str> = report.programs.iter().filter_map(|p| p.origin.as_deref()).collect();
    parts.extend((!origins.is_empty()).then(|| format!("From {}.\n", origins.join(", "))));
    parts.extend(report.notes.iter().map(|note| format!("note: {note}\n")));
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::measure::Timing;

    fn report() -> Report {
        let entry = |variant: &str, timing: Option<Timing>, instructions| Entry {
            variant: variant.to_owned(),
            safepoints: 12,
            cpu_s: vec![1.0, 0.5],
            overhead_minima: 0.014,
            overhead_paired: 0.021,
            timing,
            instructions: Some(instructions),
            instruction_overhead: Some(instructions as f64 / 1e6 - 1.0),
            ..Entry::default()
        };
        let timing = Timing { interval_mae: 123.4, interval_p99: 4999.0, ..Timing::default() };
        let variants =
            vec![entry("none", None, 1_000_000), entry("armed 2us", Some(timing), 1_030_000)];
        let program = Figures { program: "lu".to_owned(), variants, ..Figures::default() };
        let notes = vec!["rdtsc: skipped".to_owned()];
        let mut report = Report { programs: vec![program], notes, ..Report::default() };
        report.sum_up();
        report
    }

    #[test]
    fn everything_that_was_measured_is_shown() {
        let text = text(&report());
        for part in ["lu", "0.500", "1.4 | 2.1", "lu armed 2us", "123", "4999", "3.0", "skipped"] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }

    #[test]
    fn what_was_not_measured_has_no_table() {
        let mut report = report();
        for entry in &mut report.programs[0].variants {
            (entry.timing, entry.instructions) = (None, None);
        }
        report.sum_up();
        let text = text(&report);
        assert!(!text.contains("intervals in cycles") && !text.contains("instructions"), "{text}");
    }
}

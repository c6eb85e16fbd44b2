//! The table a person reads: one row a run and class, figures right-aligned, and what is wrong
//! with a run in its own row.

use crate::units::{chosen, count, duration, rate, ratio};
use crate::{Metric, Quantile, Run};

/// What a client says of a server that it knows nothing of.
const UNKNOWN: &str = "unknown";

const PERCENTILES: [Quantile; 3] = [Quantile::P50, Quantile::P99, Quantile::P99_9];

/// A column: the group that it begins (or none), its name, and whether it holds figures.
pub(crate) struct Column {
    pub(crate) group: &'static str,
    /// How many columns the group has, at its first one; 1 elsewhere.
    pub(crate) span: usize,
    pub(crate) name: &'static str,
    pub(crate) figures: bool,
}

/// A row of cells, one a column.
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    /// Which of the given runs it is about.
    pub(crate) run: usize,
    /// The first row of that run.
    pub(crate) first: bool,
}

/// Runs of one workload, measured the same way.
pub(crate) struct Block {
    pub(crate) heading: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    /// What policies had decided for themselves, each run's in a line that names it.
    pub(crate) decided: Vec<String>,
}

/// The runs as text for a terminal: blocks of the same workload and workers, in the order given;
/// a row for each class, and under them what policies had decided for themselves. Invalid runs stand
/// among the others, marked, with the reason.
#[must_use]
pub fn table(runs: &[Run]) -> String {
    joined(runs, |block, out| {
        out.push_str(&block.heading);
        out.push_str("\n\n");
        let widths = widths(&block);
        for cells in [
            block.columns.iter().map(|c| c.group).collect::<Vec<_>>(),
            block.columns.iter().map(|c| c.name).collect(),
        ] {
            // A group's name stands over its first column and may reach over the next ones.
            let mut line = String::new();
            let mut edge = 0;
            for ((cell, column), width) in cells.iter().zip(&block.columns).zip(&widths) {
                let is_group = !column.group.is_empty() && *cell == column.group;
                let at = if column.figures && !is_group {
                    edge + width - cell.chars().count()
                } else {
                    edge
                };
                if !cell.is_empty() {
                    let gap = at.saturating_sub(line.chars().count());
                    line.extend(std::iter::repeat_n(' ', gap));
                    line.push_str(cell);
                }
                edge += width + 2;
            }
            push_line(out, &line);
        }
        for row in &block.rows {
            let mut line = String::new();
            for ((cell, column), width) in row.cells.iter().zip(&block.columns).zip(&widths) {
                let pad = " ".repeat(width - cell.chars().count());
                if column.figures {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
                line.push_str("  ");
            }
            push_line(out, &line);
        }
        if !block.decided.is_empty() {
            out.push('\n');
        }
        block.decided.iter().for_each(|line| push_line(out, line));
    })
}

/// The table as Markdown.
#[must_use]
pub fn markdown(runs: &[Run]) -> String {
    joined(runs, |block, out| {
        out.push_str(&escape_markdown(&block.heading));
        out.push_str("\n\n");
        let mut heads = String::from("|");
        let mut rule = String::from("|");
        for column in &block.columns {
            // Markdown has one line of headers: the first column of a group carries its name.
            let head = format!("{} {}", column.group, column.name);
            heads.push_str(&format!(" {} |", head.trim_start()));
            rule.push_str(if column.figures { " ---: |" } else { " --- |" });
        }
        push_line(out, &heads);
        push_line(out, &rule);
        for row in &block.rows {
            let cells: Vec<_> = row.cells.iter().map(|cell| escape_markdown(cell)).collect();
            push_line(out, &format!("| {} |", cells.join(" | ")));
        }
        if !block.decided.is_empty() {
            out.push('\n');
        }
        for line in &block.decided {
            push_line(out, &format!("* {}", escape_markdown(line)));
        }
    })
}

fn joined(runs: &[Run], mut show: impl FnMut(Block, &mut String)) -> String {
    let mut out = String::new();
    for block in blocks(runs) {
        if !out.is_empty() {
            out.push('\n');
        }
        show(block, &mut out);
    }
    out
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

fn widths(block: &Block) -> Vec<usize> {
    let mut widths: Vec<_> = block.columns.iter().map(|c| c.name.chars().count()).collect();
    for row in &block.rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// The runs in blocks of equal headings.
pub(crate) fn blocks(runs: &[Run]) -> Vec<Block> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let heading = heading(run);
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, members)) => members.push(at),
            None => groups.push((heading, vec![at])),
        }
    }
    groups.into_iter().map(|(heading, members)| block(heading, &members, runs)).collect()
}

fn heading(run: &Run) -> String {
    let mut parts = vec![plain(&run.workload)];
    if let Some(workers) = run.workers {
        parts.push(format!("{workers} worker{}", if workers == 1 { "" } else { "s" }));
    }
    if !run.verb.is_empty() {
        parts.push(plain(&run.verb));
    }
    parts.join(" · ")
}

fn block(heading: String, members: &[usize], runs: &[Run]) -> Block {
    let any = |test: fn(&Run) -> bool| members.iter().any(|&at| test(&runs[at]));
    let show = Shown {
        policy: any(|run| run.policy != UNKNOWN),
        server: any(|run| run.preempt != UNKNOWN),
        load: any(|run| run.preempt != UNKNOWN || run.load.is_some()),
        class: any(|run| !run.classes.is_empty()),
        slowdown: any(|run| {
            run.slowdown.is_some() || run.classes.iter().any(|class| class.slowdown.is_some())
        }),
        undisturbed: any(|run| run.undisturbed.sojourn_ns.is_some() && run.noise.gaps > 0),
    };
    let rows = members.iter().flat_map(|&at| rows(at, &runs[at], &show)).collect();
    let decided = members.iter().filter_map(|&at| decided(&runs[at])).collect();
    Block { heading, columns: show.columns(), rows, decided }
}

/// Which run it is, and what its policy had decided for itself.
fn decided(run: &Run) -> Option<String> {
    let decided = run.decided.as_deref()?;
    let quantum = run.quantum_ns.map_or_else(String::new, |ns| format!(" ({})", chosen(ns as f64)));
    let at = match run.load {
        Some(load) => format!("load {load:.2}"),
        None => rate(run.offered_rps),
    };
    Some(format!("{}{quantum} at {at}: {}", plain(&run.policy), plain(decided)))
}

/// Which of the optional columns a block has.
struct Shown {
    policy: bool,
    /// How it pre-empts is known.
    server: bool,
    load: bool,
    class: bool,
    slowdown: bool,
    undisturbed: bool,
}

impl Shown {
    /// The columns that a run has once.
    fn begin(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.policy, "policy"),
            (self.server, "pre-empt"),
            (self.server, "quantum"),
            (self.load, "load"),
            (true, "throughput"),
        ];
        all.into_iter().filter_map(|(is_shown, name)| is_shown.then_some(name))
    }

    fn columns(&self) -> Vec<Column> {
        let column = |group, name, figures| Column { group, span: 1, name, figures };
        let mut columns: Vec<Column> = self
            .begin()
            .map(|name| column("", name, !matches!(name, "policy" | "pre-empt")))
            .collect();
        if self.class {
            columns.push(column("", "class", false));
        }
        let mut group = |name: &'static str, quantiles: &[Quantile]| {
            for (at, quantile) in quantiles.iter().enumerate() {
                let (group, span) = if at == 0 { (name, quantiles.len()) } else { ("", 1) };
                columns.push(Column { group, span, name: quantile.name(), figures: true });
            }
        };
        group("sojourn", &PERCENTILES);
        if self.undisturbed {
            group("undisturbed", &PERCENTILES[1..]);
        }
        if self.slowdown {
            group("slowdown", &PERCENTILES);
        }
        if self.server {
            columns.push(column("", "pre-emptions", true));
        }
        columns.push(column("", "valid", false));
        columns
    }
}

fn rows(at: usize, run: &Run, show: &Shown) -> Vec<Row> {
    // One class alone is the same as all of them.
    let mut names: Vec<Option<&str>> = run.classes.iter().map(|c| Some(c.name.as_str())).collect();
    if names.len() != 1 {
        names.insert(0, None);
    }
    let row = |(index, class): (usize, Option<&str>)| {
        let first = index == 0;
        let of_run = |name| if first { run_cell(run, name) } else { String::new() };
        let mut cells: Vec<String> = show.begin().map(of_run).collect();
        if show.class {
            cells.push(class.map_or_else(|| "all".to_owned(), plain));
        }
        for quantile in PERCENTILES {
            cells.push(known(run.figure(class, Metric::Sojourn, quantile), duration));
        }
        if show.undisturbed {
            for quantile in &PERCENTILES[1..] {
                let figure = run.undisturbed_figure(class, Metric::Sojourn, *quantile);
                cells.push(known(figure, duration));
            }
        }
        if show.slowdown {
            for quantile in PERCENTILES {
                cells.push(known(run.figure(class, Metric::Slowdown, quantile), ratio));
            }
        }
        if show.server {
            cells.push(if first { count(run.preemptions) } else { String::new() });
        }
        cells.push(if first { verdict(run) } else { String::new() });
        Row { cells, run: at, first }
    };
    names.into_iter().enumerate().map(row).collect()
}

fn run_cell(run: &Run, column: &str) -> String {
    match column {
        "policy" => plain(&run.policy),
        "pre-empt" if run.preempt.is_empty() => "–".to_owned(),
        "pre-empt" => plain(&run.preempt),
        "quantum" => known(run.quantum_ns.map(|ns| ns as f64), chosen),
        "load" => known(run.load, |load| format!("{load:.2}")),
        _ => rate(run.achieved_rps),
    }
}

fn known(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// `yes`, or what is wrong; what was dropped stands beside either.
pub(crate) fn verdict(run: &Run) -> String {
    let mut said = if run.valid {
        "yes".to_owned()
    } else {
        let reason = run.invalid_reason.as_deref().unwrap_or("no reason given");
        format!("INVALID: {}", plain(reason))
    };
    let told = run.invalid_reason.as_deref().is_some_and(|reason| reason.contains(" were dropped"));
    if run.dropped > 0 && !told {
        let share = 100.0 * run.dropped as f64 / run.offered.max(1) as f64;
        let share = if share < 0.01 { "< 0.01".to_owned() } else { format!("{share:.2}") };
        said.push_str(&format!(" ({} dropped, {share}%)", count(run.dropped)));
    }
    said
}

/// A name from a file on one line of a terminal: control characters would move the cursor.
#[must_use]
pub fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn escape_markdown(cell: &str) -> String {
    let mut out = String::new();
    for c in cell.chars() {
        match c {
            '|' | '\\' | '*' | '_' | '`' | '[' | ']' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            _ => out.push(c),
        }
    }
    out
}

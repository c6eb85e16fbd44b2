//! Golden tables.

use crate::common;

use common::{run, sweep};
use curtail_report::{Run, markdown, table};

#[test]
fn a_sweep_as_text() {
    insta::assert_snapshot!("sweep", table(&sweep()));
}

#[test]
fn runs_without_classes_or_slowdowns_have_no_such_columns() {
    let mut bare = run("a peer", None, 0.5, 2_000);
    bare.classes.clear();
    bare.slowdown = None;
    bare.workers = None;
    bare.load = None;
    insta::assert_snapshot!("bare", table(&[bare]));
}

#[test]
fn a_sweep_as_markdown() {
    insta::assert_snapshot!("markdown", markdown(&sweep()[1..4]));
}

#[test]
fn no_name_breaks_the_table() {
    let mut odd = run("a|b*<i>\n\x1b[2J", None, 0.5, 2_000);
    odd.invalidate("first\nsecond");
    let text = table(std::slice::from_ref(&odd));
    assert!(text.contains("a|b*<i>\u{fffd}\u{fffd}[2J"), "{text}");
    assert!(text.contains("INVALID: first\u{fffd}second"), "{text}");
    let markdown = markdown(&[odd]);
    assert!(markdown.contains(r"| a\|b\*&lt;i&gt;"), "{markdown}");
}

#[test]
fn every_line_of_a_block_is_aligned() {
    let text = table(&sweep());
    let ends = |line: &str| line.find("INVALID").or_else(|| line.find("yes"));
    let places: Vec<_> =
        text.lines().filter_map(|line| ends(line).map(|at| line[..at].chars().count())).collect();
    assert_eq!(places.len(), 6);
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}\n{text}");
}

#[test]
fn no_runs_no_table() {
    assert_eq!(table(&[]), "");
    assert_eq!(markdown(&[] as &[Run]), "");
}

#[test]
fn what_policies_decided_stands_under_the_rows() {
    let mut runs = sweep();
    runs[3].decided = Some("worker 0 for short\n<b>".to_owned());
    runs[5].decided = Some("none reserved".to_owned());
    runs[5].load = None;
    let lines = "tq (2 µs) at load 0.30: worker 0 for short\u{fffd}<b>\n\
                 tq (2 µs) at 233 k/s: none reserved\n";
    let text = table(&runs);
    assert!(text.ends_with(&format!("\n\n{lines}")), "{text}");
    let markdown = markdown(&runs);
    assert!(
        markdown
            .contains("|\n\n* tq (2 µs) at load 0.30: worker 0 for short\u{fffd}&lt;b&gt;\n* tq")
    );
}
